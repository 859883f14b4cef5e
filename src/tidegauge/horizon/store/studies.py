"""What stands beside a fit on its page: trends, a comparison of methods, a multiverse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.errors import InputError
from tidegauge.horizon.store.stored_fit import REMEDY, check_dates, read_json, read_table
from tidegauge.horizon.trend.summary import FAN_LEVELS
from tidegauge.horizon.trend.tables import COLUMNS
from tidegauge.io import check_complete

if TYPE_CHECKING:
    import pandas as pd

STACKED = "stacked"
_FAN_NUMBERS = ("success", *(f"q{level:g}" for level in FAN_LEVELS))
_QUANTITIES = tuple(name for name in COLUMNS if name != "quantity")


@dataclass(frozen=True)
class StoredTrend:
    """One trend: its quantities as texts, by name, and its fan in minutes."""

    name: str
    quantities: Mapping[str, Mapping[str, str]]
    fan: pd.DataFrame

    def months(self) -> tuple[float, float, float]:
        """Return the doubling time and the ends of its interval."""
        row = self.quantities["doubling_months"]
        return float(row["median"]), float(row["low"]), float(row["high"])


@dataclass(frozen=True)
class StoredTrends:
    """A comparison of trends: every shape's and the stacked one, with scores and agents."""

    trends: Mapping[str, StoredTrend]
    shapes: pd.DataFrame
    agents: pd.DataFrame
    table: pd.DataFrame
    fan: pd.DataFrame


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
    fit: Path,
    *,
    trend: Path | None = None,
    compare: Path | None = None,
    multiverse: Path | None = None,
) -> Studies:
    """Read what was asked for, and the fit's own trend if it has one.

    Raises
    ------
    InputError
        A folder is not what it should be, or one of its files is missing or damaged.
    """
    return Studies(
        joint=_read_joint(fit),
        trends=_read_trends(trend) if trend else None,
        comparison=_read_comparison(compare) if compare else None,
        multiverse=_read_multiverse(multiverse) if multiverse else None,
    )


@dataclass(frozen=True)
class _Kind:
    kind: str


def _check_kind(folder: Path, name: str) -> str:
    """Return what to do about a folder's faults, after checking that it is of this kind."""
    remedy = f"make it with: tidegauge horizon {name} RUNS --out"
    if not folder.is_dir():
        raise InputError(f"{folder}: not a folder; {remedy} {folder}")
    check_complete(folder)
    found = read_json(folder / "manifest.json", _Kind, remedy=remedy).kind
    if found != f"horizon/{name}":
        raise InputError(f"{folder / 'manifest.json'}: kind={found}: {remedy} {folder}")
    return remedy


def _read_joint(folder: Path) -> StoredTrend | None:
    if not (folder / "trend.csv").is_file():
        return None
    table = read_table(folder / "trend.csv", ("quantity", *_QUANTITIES), ())
    fan = _read_fan(folder / "trend_fan.csv", remedy=REMEDY)
    shape = table["detail"].iloc[0].split(" ")[0]
    return _trend(f"joint {shape}", table, fan, folder / "trend.csv")


def _read_fan(path: Path, *texts: str, remedy: str) -> pd.DataFrame:
    names = ("date", "extrapolated", *texts)
    fan = read_table(path, names, _FAN_NUMBERS, unique=False, remedy=remedy)
    check_dates(path, fan["date"])
    return fan


def _trend(name: str, table: pd.DataFrame, fan: pd.DataFrame, path: Path) -> StoredTrend:
    rows = table[["quantity", *_QUANTITIES]].to_dict("records")
    quantities = {str(row["quantity"]): {k: str(row[k]) for k in _QUANTITIES} for row in rows}
    found = StoredTrend(name, quantities, fan)
    try:
        found.months()
    except (KeyError, ValueError):
        raise InputError(f"{path}: no number for doubling_months; fit again") from None
    return found


def _read_trends(folder: Path) -> StoredTrends:
    remedy = _check_kind(folder, "trend")
    table = read_table(
        folder / "trends.csv",
        ("shape", "quantity", *_QUANTITIES),
        (),
        unique=False,
        remedy=remedy,
    )
    fan = _read_fan(folder / "trend_fan.csv", "shape", remedy=remedy)
    ends = ("difference", "difference_se")
    numbers = ("weight", "pseudo_bma", *(f"{k}elpd_{end}" for k in ("", "future_") for end in ends))
    shapes = read_table(folder / "shapes.csv", ("shape",), numbers, remedy=remedy)
    agents = read_table(
        folder / "agents.csv", ("agent", "release_date"), ("log2_p50", "log2_p50_sd"), remedy=remedy
    )
    check_dates(folder / "agents.csv", agents["release_date"])
    trends = {
        shape: _trend(shape, table[table["shape"] == shape], fan[fan["shape"] == shape], folder)
        for shape in (*shapes["shape"], STACKED)
    }
    return StoredTrends(trends, shapes, agents, table, fan)


def _read_comparison(folder: Path) -> StoredComparison:
    remedy = _check_kind(folder, "compare")
    ends = [f"{p}{end}" for p in ("p50", "p80") for end in ("", "q0.025", "q0.975")]
    names = ("log_score", "fractional_log_score", "brier", "difference")
    scores = [f"{name}{end}" for name in names for end in ("", "_se")]
    return StoredComparison(
        horizons=read_table(
            folder / "compare.csv", ("agent", "method"), ends, unique=False, remedy=remedy
        ),
        scores=read_table(
            folder / "scores.csv", ("by", "method", "best"), scores, unique=False, remedy=remedy
        ),
    )


def _read_multiverse(folder: Path) -> StoredMultiverse:
    remedy = _check_kind(folder, "multiverse")

    def optional(name: str, texts: tuple[str, ...], *numbers: str) -> pd.DataFrame | None:
        path = folder / name
        if not path.is_file() or path.read_bytes().count(b"\n") < 2:  # no rows but the header
            return None
        return read_table(path, texts, numbers, unique=False, remedy=remedy)

    effect = ("levels", "typical_factor", "eta_squared", "mean_abs_rate_change")
    effects = optional("choices.csv", ("choice",), *effect)
    choices = () if effects is None else tuple(effects["choice"])
    horizons = read_table(
        folder / "multiverse.csv",
        ("universe", *choices, "agent"),
        ("p50", "low", "high"),
        unique=False,
        remedy=remedy,
    )
    return StoredMultiverse(
        choices=choices,
        horizons=horizons[horizons["p50"].notna() & (horizons["agent"] != "")],
        doubling=optional("doubling.csv", ("universe", *choices), "doubling_months"),
        effects=effects,
        sensitivity=optional("sensitivity.csv", ("parameter", "change", "agent"), "log2_change"),
        influence=optional("influence.csv", ("family", "agent"), "log2_change"),
    )
