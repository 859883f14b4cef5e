"""The folders of studies: trends, a comparison of methods, a multiverse; written and read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.errors import InputError
from tidegauge.horizon.methods.hierarchical import SHORT_SAMPLER
from tidegauge.horizon.methods.registry import BASELINE
from tidegauge.horizon.model.options import DEFAULT_PRIORS
from tidegauge.horizon.result import HorizonFit, HorizonResult
from tidegauge.horizon.store.folder import ResultFolder, check_dates, read_result, write_folder
from tidegauge.horizon.studies.compare import Comparison
from tidegauge.horizon.studies.effects import choices_table, levels_table
from tidegauge.horizon.studies.held_out import SUREST
from tidegauge.horizon.studies.multiverse import doubling_table, horizons_table
from tidegauge.horizon.studies.multiverse_study import Study
from tidegauge.horizon.studies.scores import (
    calibration_table,
    differences_table,
    scores_table,
    tasks_table,
)
from tidegauge.horizon.trend.comparison import (
    AVERAGED,
    STACKED,
    TrendComparison,
    headline_mixture,
)
from tidegauge.horizon.trend.summary import FAN_LEVELS, CentralInterval

if TYPE_CHECKING:
    import pandas as pd

_ENDS = CentralInterval._fields


def write_comparison(comparison: Comparison, folder: Path) -> None:
    """Write a comparison of methods."""
    cells, options = comparison.held_out.cells, comparison.options
    write_folder(
        folder,
        "compare",
        kind="compare",
        tables={
            "compare.csv": comparison.horizons,
            "scores.csv": scores_table(cells),
            "differences.csv": differences_table(cells),
            "folds.csv": comparison.held_out.fits,
            "predictions.csv": cells.drop(columns="raw"),
            "calibration.csv": calibration_table(cells),
            "tasks.csv": tasks_table(cells),
            "loo.csv": comparison.loo,
        },
        settings={
            "seed": options.seed,
            "filters": comparison.runs.filters,
            "by": options.by,
            "folds": options.folds or "all",
            "baseline": BASELINE,
            "methods": {method.name: method.settings for method in options.chosen},
            "priors": DEFAULT_PRIORS,
            "surest_probability": 1 - SUREST,
        },
        inputs=comparison.runs.sha256,
        notes=comparison.notes,
        further={"converged": not comparison.unconverged},
    )


def write_study(found: Study, folder: Path) -> None:
    """Write a multiverse, with the sensitivity and the influence that were asked for."""
    multiverse, options = found.multiverse, found.options
    settings = {
        "seed": options.seed,
        "universes": {one.number: one.universe for one in multiverse.outcomes},
        "model": options.model,
        "priors": DEFAULT_PRIORS,
        "sampler": SHORT_SAMPLER,
        "filters": found.runs.filters,
        "release_dates": bool(found.runs.release_dates),
    }
    if options.grid is not None:
        settings["grid"] = options.grid.name
    write_folder(
        folder,
        "multiverse",
        kind="multiverse",
        tables={
            "multiverse.csv": horizons_table(multiverse),
            "doubling.csv": doubling_table(multiverse),
            "choices.csv": choices_table(multiverse),
            "levels.csv": levels_table(multiverse),
            "influence.csv": found.influence,
            "sensitivity.csv": found.sensitivity,
        },
        settings=settings,
        inputs=found.runs.sha256,
        notes=found.runs.notes,
        further={
            "converged": not multiverse.failed and not multiverse.unconverged,
            "failed": {one.number: one.reason for one in multiverse.failed},
        },
    )


def write_trends(comparison: TrendComparison, folder: Path) -> None:
    """Write a comparison of trends."""
    options = comparison.options
    write_folder(
        folder,
        "trend",
        kind="trend",
        tables=comparison.tables,
        settings={
            "model": options.model,
            "priors": options.priors,
            "sampler": options.sampler,
            "agents": options.facts,
            "filters": comparison.runs.filters,
            "shapes": list(options.shapes),
            "success": list(options.rates),
        },
        inputs=comparison.runs.sha256,
        notes=comparison.notes,
        further={"converged": not comparison.unconverged},
    )


@dataclass(frozen=True)
class StoredTrend:
    """One trend: its quantities, when it reaches which length of work, and its fans in minutes."""

    name: str
    quantities: pd.DataFrame
    dates: pd.DataFrame
    fan: pd.DataFrame

    def value(self, quantity: str, success: float = 0.5) -> CentralInterval | None:
        """Return a median and the ends of its interval, if the trend has that quantity."""
        table = self.quantities
        own = table[(table["quantity"] == quantity) & np.isclose(table["success"], success)]
        return CentralInterval(*own.iloc[0][list(_ENDS)].astype(float)) if len(own) else None

    def months(self, success: float = 0.5) -> CentralInterval:
        """Return the doubling time and the ends of its interval."""
        found = self.value("doubling_months", success)
        if found is None:
            raise InputError(f"trend {self.name}: no doubling_months at {success:g}; fit again")
        return found

    @property
    def rates(self) -> list[float]:
        """The success rates whose trend it holds."""
        return sorted(set(self.dates["success"]))


@dataclass(frozen=True)
class StoredTrends:
    """A comparison of trends: every shape's and every mixture's, with scores and agents.

    `headline` names the mixture to rely on; `notes` say what to know about the agents.
    """

    trends: Mapping[str, StoredTrend]
    shapes: pd.DataFrame
    agents: pd.DataFrame
    table: pd.DataFrame
    fan: pd.DataFrame
    headline: str
    notes: Sequence[str] = ()

    @property
    def mixtures(self) -> list[StoredTrend]:
        """The mixtures, that of the headline first."""
        others = [name for name in (AVERAGED, STACKED) if name != self.headline]
        return [self.trends[name] for name in (self.headline, *others)]


@dataclass(frozen=True)
class StoredComparison:
    """A comparison of methods: horizons side by side and held-out scores."""

    horizons: pd.DataFrame
    scores: pd.DataFrame


@dataclass(frozen=True)
class StoredMultiverse:
    """A multiverse: horizons and doubling times under every combination of choices.

    `choices` names the columns of both that say which choice was made; `effects` is the table of
    how far each moves the answer; `sensitivity` and `influence` may be missing.
    """

    choices: tuple[str, ...]
    horizons: pd.DataFrame
    doubling: pd.DataFrame | None
    effects: pd.DataFrame | None
    sensitivity: pd.DataFrame | None = None
    influence: pd.DataFrame | None = None


@dataclass(frozen=True)
class Studies:
    """All that may stand beside a fit."""

    joint: StoredTrend | None = None
    trends: StoredTrends | None = None
    comparison: StoredComparison | None = None
    multiverse: StoredMultiverse | None = None


NO_STUDIES = Studies()


def read_studies(
    fit: HorizonResult,
    *,
    trend: Path | None = None,
    compare: Path | None = None,
    multiverse: Path | None = None,
) -> Studies:
    """Read the folders that were asked for, and take the fit's own trend if it has one.

    Raises
    ------
    InputError
        A folder is not what it should be, or one of its files is missing or damaged.
    """
    return Studies(
        joint=joint_trend(fit),
        trends=read_result(trend, "trend", _read_trends) if trend else None,
        comparison=read_result(compare, "compare", _read_comparison) if compare else None,
        multiverse=read_result(multiverse, "multiverse", _read_multiverse) if multiverse else None,
    )


def joint_trend(result: HorizonResult) -> StoredTrend | None:
    """Return the trend that a fit has itself."""
    if not isinstance(result, HorizonFit) or result.options.trend == "none":
        return None
    tables = result.trend_tables
    return StoredTrend(
        f"joint {result.options.trend}",
        tables["trend.csv"],
        tables["trend_dates.csv"],
        tables["trend_fan.csv"],
    )


def _read_trends(folder: ResultFolder) -> StoredTrends:
    def read(
        name: str, texts: tuple[str, ...], *numbers: str, unique: bool = False
    ) -> pd.DataFrame:
        return folder.table(name, texts, numbers, unique=unique)

    table = read("trends.csv", ("shape", "quantity"), "success", *_ENDS)
    dates = read("trend_dates.csv", ("shape", "work", *_ENDS), "minutes", "success", "never_share")
    levels = [f"q{level:g}" for level in FAN_LEVELS]
    fan = read("trend_fan.csv", ("shape", "date", "kind", "of", "extrapolated"), "success", *levels)
    check_dates(folder.path / "trend_fan.csv", fan["date"])
    fan["extrapolated"] = fan["extrapolated"] == "True"
    ends = ("difference", "difference_se")
    scores = [f"{k}elpd_{end}" for k in ("", "future_") for end in ends]
    shapes = read("shapes.csv", ("shape",), "weight", "pseudo_bma", *scores, "agents", unique=True)
    measured = ("log2_p50", "log2_p50_sd")
    agents = read("agents.csv", ("agent", "release_date"), *measured, unique=True)
    check_dates(folder.path / "agents.csv", agents["release_date"])
    trends = {
        name: StoredTrend(name, *(part[part["shape"] == name] for part in (table, dates, fan)))
        for name in (*shapes["shape"], STACKED, AVERAGED)
    }
    for trend in trends.values():
        trend.months()  # refuses a table without it
    headline = headline_mixture(len(agents))
    return StoredTrends(trends, shapes, agents, table, fan, headline, folder.manifest.notes)


def _read_comparison(folder: ResultFolder) -> StoredComparison:
    ends = [f"{p}{end}" for p in ("p50", "p80") for end in ("", "q0.025", "q0.975")]
    names = ("log_score", "fractional_log_score", "brier", "difference")
    scores = [f"{name}{end}" for name in names for end in ("", "_se")]
    return StoredComparison(
        horizons=folder.table("compare.csv", ("agent", "method"), ends, unique=False),
        scores=folder.table("scores.csv", ("by", "method", "best"), scores, unique=False),
    )


def _read_multiverse(folder: ResultFolder) -> StoredMultiverse:
    def optional(name: str, texts: tuple[str, ...], *numbers: str) -> pd.DataFrame | None:
        if name not in folder.manifest.files or folder.read(name).count(b"\n") < 2:
            return None  # not asked for, or no rows but the header
        return folder.table(name, texts, numbers, unique=False)

    effect = ("levels", "typical_factor", "eta_squared", "mean_abs_rate_change")
    effects = optional("choices.csv", ("choice",), *effect)
    choices = () if effects is None else tuple(effects["choice"])
    texts = ("universe", *choices, "agent")
    horizons = folder.table("multiverse.csv", texts, ("p50", "low", "high"), unique=False)
    return StoredMultiverse(
        choices=choices,
        horizons=horizons[horizons["p50"].notna() & (horizons["agent"] != "")],
        doubling=optional("doubling.csv", ("universe", *choices), "doubling_months"),
        effects=effects,
        sensitivity=optional("sensitivity.csv", ("parameter", "change", "agent"), "log2_change"),
        influence=optional("influence.csv", ("family", "agent"), "log2_change"),
    )
