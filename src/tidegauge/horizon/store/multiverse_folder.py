"""The files of a multiverse, and what the terminal shows of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.engine.store import manifest, write_csv, write_json
from tidegauge.horizon.methods.hierarchical import SHORT_SAMPLER
from tidegauge.horizon.model.options import DEFAULT_PRIORS
from tidegauge.horizon.studies.effects import choices_table, levels_table
from tidegauge.horizon.studies.multiverse import Multiverse, doubling_table, horizons_table
from tidegauge.horizon.studies.multiverse_study import Study
from tidegauge.horizon.studies.sensitivity import LIKELIHOOD
from tidegauge.io import atomic_folder

if TYPE_CHECKING:
    import pandas as pd

FILES = (
    *("multiverse.csv", "doubling.csv", "choices.csv", "levels.csv", "influence.csv"),
    *("sensitivity.csv", "manifest.json", "plots"),
)
_SHOWN = 8


def write_study(found: Study, folder: Path, *, plots: Callable[[Path], None] | None = None) -> None:
    """Replace the files of an earlier multiverse by this one's, all together or not at all."""
    multiverse = found.multiverse
    tables = {
        "multiverse": horizons_table(multiverse),
        "doubling": doubling_table(multiverse),
        "choices": choices_table(multiverse),
        "levels": levels_table(multiverse),
        "influence": found.influence,
        "sensitivity": found.sensitivity,
    }
    settings = {
        "seed": found.options.seed,
        "universes": {one.number: one.universe for one in multiverse.outcomes},
        "model": found.options.model,
        "priors": DEFAULT_PRIORS,
        "sampler": SHORT_SAMPLER,
        "filters": [str(condition) for condition in found.options.filters],
        "release_dates": found.options.release_dates is not None,
    }
    if found.options.grid is not None:
        settings["grid"] = found.options.grid.name
    with atomic_folder(folder, owned=FILES) as staging:
        for name, table in tables.items():
            if table is not None:
                write_csv(staging / f"{name}.csv", table)
        if plots is not None:
            (staging / "plots").mkdir()
            plots(staging / "plots")
        extra = {
            "converged": not multiverse.failed and not multiverse.unconverged,
            "failed": {one.number: one.reason for one in multiverse.failed},
            "notes": list(found.notes),
        }
        described = manifest(kind="horizon/multiverse", inputs=found.inputs, settings=settings)
        write_json(staging / "manifest.json", {**described, **extra})


def study_text(found: Study) -> str:
    """Return the tables for a terminal: horizons over universes, then choices by effect."""
    blocks = [_horizon_lines(found.multiverse), _choice_lines(found.multiverse)]
    if found.sensitivity is not None:
        blocks.append(_sensitivity_lines(found.sensitivity))
    if found.influence is not None:
        blocks.append(_influence_lines(found.influence))
    return "\n\n".join("\n".join(lines) for lines in map(list, blocks) if lines)


def _horizon_lines(multiverse: Multiverse) -> Iterator[str]:
    table = horizons_table(multiverse).dropna(subset=["p50"])
    if table.empty:
        return
    width = max(len("agent"), *(len(agent) for agent in table["agent"]))
    yield "50 % horizon in minutes over all universes: median, middle half, smallest to largest"
    for agent, own in table.groupby("agent"):
        low, q1, middle, q3, high = _spread(own["p50"].to_numpy())
        yield (
            f"{agent:<{width}} {middle:>9.3g} {f'{q1:.3g} to {q3:.3g}':>20} "
            f"{f'{low:.3g} to {high:.3g}':>22}"
        )
    months = doubling_table(multiverse)["doubling_months"].to_numpy(dtype=float)
    if months.size:
        rates = np.quantile(12 / months, [0, 0.25, 0.5, 0.75, 1])
        ends = [_months(rate) for rate in rates[::-1]]
        yield f"doubling time in months: {ends[2]} ({ends[1]} to {ends[3]}; {ends[0]} to {ends[4]})"


def _spread(minutes: FloatArray) -> FloatArray:
    """Return the quartiles, taken on the log scale, where a horizon may be zero or infinite."""
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        log2 = np.clip(np.log2(minutes), -1e6, 1e6)
        quartiles: FloatArray = np.exp2(np.quantile(log2, [0, 0.25, 0.5, 0.75, 1]))
    return quartiles


def _months(rate: float) -> str:
    return f"{12 / rate:.3g}" if rate > 0 else "never"


def _choice_lines(multiverse: Multiverse) -> Iterator[str]:
    table = choices_table(multiverse)
    if table.empty:
        yield "every universe makes the same choices: there is nothing to compare"
        return
    dated = table["mean_abs_rate_change"].notna().any()
    width = max(len("choice"), *(len(name) for name in table["choice"]))
    yield "which choice moves the answer most (all else equal; p50 within the range of the tasks)"
    yield (
        f"{'choice':<{width}} {'levels':>6} {'pairs':>6} {'p50 changes by a factor':>24} "
        f"{'eta squared':>12}" + (f" {'doublings/year':>15}" if dated else "")
    )
    for row in table.to_dict("records"):
        yield (
            f"{row['choice']:<{width}} {row['levels']:>6} {row['pairs']:>6} "
            f"{_number(row['typical_factor'], '.2f'):>24} "
            f"{_number(row['eta_squared'], '.2f'):>12}"
            + (f" {_number(row['mean_abs_rate_change'], '.2f'):>15}" if dated else "")
        )


def _number(value: float, form: str) -> str:
    return format(value, form) if np.isfinite(value) else "-"


def _sensitivity_lines(table: pd.DataFrame) -> Iterator[str]:
    yield "other priors: change of p50 (factor, mean over agents and largest)"
    moved = table[table["parameter"] != LIKELIHOOD].dropna(subset=["log2_change"])
    size = moved.assign(size=moved["log2_change"].abs())
    grouped = size.groupby(["parameter", "change"], as_index=False)["size"].agg(["mean", "max"])
    for row in grouped.sort_values("mean", ascending=False).head(_SHOWN).to_dict("records"):
        factors = f"{2 ** row['mean']:>6.2f} {2 ** row['max']:>6.2f}"
        yield f"{row['parameter']:<22} {row['change']:<28} {factors}"


def _influence_lines(table: pd.DataFrame) -> Iterator[str]:
    yield "families whose absence moves p50 most (factor, mean over agents and largest)"
    first = table.assign(size=table["log2_change"].abs())
    grouped = first.groupby("family", sort=False)["size"].agg(["mean", "max"])
    width = max(len(family) for family in grouped.index)
    for family, row in grouped.head(_SHOWN).iterrows():
        yield f"{family:<{width}} {2 ** row['mean']:>6.2f} {2 ** row['max']:>6.2f}"
