"""The files of a comparison, and what the terminal shows of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.engine.diagnostics import HIGH_K
from tidegauge.engine.store import manifest, write_csv, write_json
from tidegauge.horizon.methods.registry import BASELINE
from tidegauge.horizon.model.options import DEFAULT_PRIORS
from tidegauge.horizon.studies.compare import Comparison
from tidegauge.horizon.studies.held_out import SUREST
from tidegauge.horizon.studies.scores import (
    calibration_table,
    differences_table,
    scores_table,
    tasks_table,
)
from tidegauge.io import atomic_folder

if TYPE_CHECKING:
    import pandas as pd

FILES = (
    *("compare.csv", "scores.csv", "differences.csv", "folds.csv", "predictions.csv"),
    *("calibration.csv", "tasks.csv", "loo.csv", "manifest.json", "plots"),
)
_SHOWN_TASKS = 5
_ABREAST = 4  # methods beside each other: more would not fit a screen


def write_comparison(
    comparison: Comparison, folder: Path, *, plots: Callable[[Path], None] | None = None
) -> None:
    """Replace the files of an earlier comparison by this one's, all together or not at all."""
    cells = comparison.held_out.cells
    tables = {
        "compare": comparison.horizons,
        "scores": scores_table(cells),
        "differences": differences_table(cells),
        "folds": comparison.held_out.fits,
        "predictions": cells.drop(columns="raw"),
        "calibration": calibration_table(cells),
        "tasks": tasks_table(cells),
        "loo": comparison.loo,
    }
    options = comparison.options
    settings = {
        "seed": options.seed,
        "filters": [str(condition) for condition in options.filters],
        "by": options.by,
        "folds": options.folds or "all",
        "baseline": BASELINE,
        "methods": {method.name: method.settings for method in options.chosen},
        "priors": DEFAULT_PRIORS,
        "surest_probability": 1 - SUREST,
    }
    with atomic_folder(folder, owned=FILES) as staging:
        for name, table in tables.items():
            write_csv(staging / f"{name}.csv", table)
        if plots is not None:
            (staging / "plots").mkdir()
            plots(staging / "plots")
        description = manifest(kind="horizon/compare", inputs=comparison.inputs, settings=settings)
        converged = not comparison.unconverged
        extra = {"converged": converged, "notes": comparison.notes}
        write_json(staging / "manifest.json", {**description, **extra})


def comparison_text(comparison: Comparison) -> str:
    """Return the tables for a terminal: horizons, held-out scores, leave-one-out, misfits."""
    cells = comparison.held_out.cells
    blocks = [
        _horizon_lines(comparison.horizons),
        _score_lines(scores_table(cells)),
        _loo_lines(comparison.loo),
        _task_lines(tasks_table(cells), comparison.options.chosen[-1].name),
    ]
    return "\n\n".join("\n".join(lines) for lines in map(list, blocks) if lines)


def _horizon_lines(table: pd.DataFrame) -> Iterator[str]:
    methods = list(dict.fromkeys(table["method"]))
    width = max(len("agent"), *(len(agent) for agent in table["agent"]))
    column = max(30, *(len(method) + 1 for method in methods))
    for name, percent in (("p50", 50), ("p80", 80)):
        yield f"{percent} % horizon in minutes (95 % interval)"
        for first in range(0, len(methods), _ABREAST):
            abreast = methods[first : first + _ABREAST]
            yield f"{'agent':<{width}}" + "".join(f"{method:>{column}}" for method in abreast)
            for agent, rows in table[table["method"].isin(abreast)].groupby("agent", sort=False):
                shown = [
                    f"{row[name]:.3g} ({row[f'{name}q0.025']:.3g} to {row[f'{name}q0.975']:.3g})"
                    for row in rows.to_dict("records")
                ]
                yield f"{agent:<{width}}" + "".join(f"{text:>{column}}" for text in shown)


def _score_lines(table: pd.DataFrame) -> Iterator[str]:
    yield "held-out prediction, per run (± standard error; higher log score, lower Brier is better)"
    width = max(13, *table["method"].str.len())
    yield (
        f"{'held out by':<12} {'method':<{width}} {'log score':>17} {'Brier':>17} "
        f"{'fractional':>17} {'log score less the best':>25}"
    )
    for row in table.to_dict("records"):
        gap = f"{'best':>25}"
        if row["method"] != row["best"]:
            gap = f"{row['difference']:>+15.4f} ± {row['difference_se']:.4f}".rjust(25)
            gap += "  within its error" if row["within_error"] else ""
        yield (
            f"{row['by']:<12} {row['method']:<{width}} "
            f"{row['log_score']:>8.4f} ± {row['log_score_se']:.4f} "
            f"{row['brier']:>8.4f} ± {row['brier_se']:.4f} "
            f"{row['fractional_log_score']:>8.4f} ± {row['fractional_log_score_se']:.4f} {gap}"
        )
    yield "log score and Brier: of the binarized outcome; fractional: log score of the score itself"
    if table["within_error"].eq(True).any():
        yield "within its error: less than two standard errors, so the order may be chance"


def _loo_lines(table: pd.DataFrame) -> Iterator[str]:
    for row in table.to_dict("records"):
        yield (
            f"leave-one-cell-out (PSIS), {row['method']}: "
            f"elpd {row['elpd']:.1f} ± {row['se']:.1f}, "
            f"{row['high_k']} of {row['cells']:,} cells with Pareto k above {HIGH_K}"
            + (": the folds are the answer to trust" if row["high_k"] else "")
        )
    if table["scores"].nunique() > 1:
        unlike = ", ".join(f"{row.method} {row.scores}" for row in table.itertuples())
        yield f"these elpd are of unlike outcomes and do not compare: {unlike}"


def _task_lines(table: pd.DataFrame, method: str) -> Iterator[str]:
    by = table["by"].iloc[0]
    own = table[(table["by"] == by) & (table["method"] == method)].head(_SHOWN_TASKS)
    yield f"worst fitted tasks ({method}, held out by {by}): successes seen and expected"
    width = max(len(task) for task in own["task_id"])
    for row in own.to_dict("records"):
        yield (
            f"{row['task_id']:<{width}}  {row['seen']:>5} of {row['runs']:<5} "
            f"expected {row['expected']:>7.1f}  residual {row['residual']:>+6.1f}"
        )
