"""What the commands print of their results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from tidegauge.arrays import FloatArray
from tidegauge.engine.diagnostics import HIGH_K
from tidegauge.horizon.result import SUCCESS, HorizonResult
from tidegauge.horizon.studies.compare import Comparison
from tidegauge.horizon.studies.effects import choices_table
from tidegauge.horizon.studies.multiverse import Multiverse, doubling_table, horizons_table
from tidegauge.horizon.studies.multiverse_study import Study
from tidegauge.horizon.studies.recovery import TruthComparison
from tidegauge.horizon.studies.scores import scores_table, tasks_table
from tidegauge.horizon.studies.sensitivity import LIKELIHOOD
from tidegauge.horizon.trend.comparison import AVERAGED, STACKED, TrendComparison
from tidegauge.horizon.trend.summary import CentralInterval, TrendSummary, day_text
from tidegauge.report.durations import CENTURY_MONTHS, duration_text

_SHOWN_TASKS = 5
_ABREAST = 4  # methods beside each other: more would not fit a screen
_SHOWN = 8


def result_text(result: HorizonResult) -> str:
    """Return each agent's horizons in minutes with their 95 % intervals."""
    table = result.metr_table()
    width = max(len("agent"), *(len(agent) for agent in table["agent"]))
    rate = "50 % horizon" if result.estimand == SUCCESS else "expected score 50 %"
    wide = max(20, len(rate) + 6)
    header = (
        f"{f'{rate} (min)':>{wide}} {'95 % interval':>22} {'80 %':>9} {'beyond':>7} {'runs':>7}"
    )
    lines = [f"{'agent':<{width}} {header}"]
    for row in table.to_dict("records"):
        interval = f"{row['p50q0.025']:.3g} to {row['p50q0.975']:.3g}"
        lines.append(
            f"{row['agent']:<{width}} {row['p50']:>{wide}.4g} {interval:>22} {row['p80']:>9.3g} "
            f"{row['p50_beyond']:>7.1%} {row['n_runs']:>7,}"
        )
    return "\n".join(lines)


def truth_text(comparison: TruthComparison) -> str:
    """Return a table for a terminal: truth, each method's 50 % horizon, and how often right."""
    methods = list(dict.fromkeys(comparison.table["method"]))
    lines = ["", "50 % horizon in minutes (95 % interval)"]
    lines.append(f"{'agent':<10} {'truth':>8}" + "".join(f"{name:>29}" for name in methods))
    for agent, rows in comparison.table.groupby("agent", sort=False):
        cells = [
            f"{row['p50']:>9.3g} ({row['low']:.3g} to {row['high']:.3g})".rjust(28)
            + (" " if row["inside"] else "!")
            for row in rows.to_dict("records")
        ]
        lines.append(f"{agent:<10} {rows['true'].iloc[0]:>8.3g}" + "".join(cells))
    for method, rows in comparison.table.groupby("method", sort=False):
        error = float(np.sqrt(np.mean(np.log2(rows["p50"] / rows["true"]) ** 2)))
        lines.append(
            f"{method}: {rows['inside'].sum()} of {len(rows)} intervals hold the truth, "
            f"typical error a factor {2**error:.2f}"
        )
    lines.append("! marks an interval that misses the truth")
    return "\n".join(lines)


def comparison_text(comparison: Comparison) -> str:
    """Return the tables for a terminal: horizons, held-out scores, leave-one-out, misfits."""
    cells = comparison.held_out.cells
    blocks = [
        horizon_lines(comparison.horizons),
        score_lines(scores_table(cells)),
        loo_lines(comparison.loo),
        _task_lines(tasks_table(cells), comparison.options.chosen[-1].name),
    ]
    return "\n\n".join("\n".join(lines) for lines in map(list, blocks) if lines)


def horizon_lines(table: pd.DataFrame) -> Iterator[str]:
    """Yield each method's horizons side by side, a few methods at a time."""
    methods = list(dict.fromkeys(table["method"]))
    column = max(30, *(len(method) + 1 for method in methods))
    width = max(len("agent"), *(len(agent) for agent in table["agent"]))
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


def score_lines(table: pd.DataFrame) -> Iterator[str]:
    """Yield each method's held-out scores and how far they are from the best."""
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


def loo_lines(table: pd.DataFrame) -> Iterator[str]:
    """Yield each sampled method's leave-one-out estimate."""
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


def study_text(found: Study) -> str:
    """Return the tables for a terminal: horizons over universes, then choices by effect."""
    blocks = [_universe_lines(found.multiverse), _choice_lines(found.multiverse)]
    if found.sensitivity is not None:
        blocks.append(_sensitivity_lines(found.sensitivity))
    if found.influence is not None:
        blocks.append(_influence_lines(found.influence))
    return "\n\n".join("\n".join(lines) for lines in map(list, blocks) if lines)


def _universe_lines(multiverse: Multiverse) -> Iterator[str]:
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
        ends = [_rate_months(rate) for rate in rates[::-1]]
        yield f"doubling time in months: {ends[2]} ({ends[1]} to {ends[3]}; {ends[0]} to {ends[4]})"


def _spread(minutes: FloatArray) -> FloatArray:
    """Return the quartiles, taken on the log scale, where a horizon may be zero or infinite."""
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        log2 = np.clip(np.log2(minutes), -1e6, 1e6)
        quartiles: FloatArray = np.exp2(np.quantile(log2, [0, 0.25, 0.5, 0.75, 1]))
    return quartiles


def _rate_months(rate: float) -> str:
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
            f"{_number_text(row['typical_factor'], '.2f'):>24} "
            f"{_number_text(row['eta_squared'], '.2f'):>12}"
            + (f" {_number_text(row['mean_abs_rate_change'], '.2f'):>15}" if dated else "")
        )


def _number_text(value: float, form: str) -> str:
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


def trends_text(comparison: TrendComparison) -> str:
    """Return shapes and mixtures with scores and dates, then the headline by success rate."""
    lines = [
        f"{'trend':<10} {'doubling time (months)':>28} {AVERAGED:>10} {STACKED:>8} "
        f"{'unseen agents':>16} {'future agents':>16} {'1 work week at 50 %':>21}"
    ]
    rows = {row["shape"]: row for row in comparison.tables["shapes.csv"].to_dict("records")}
    for name, summary in comparison.summaries.items():
        scores = " " * 53
        if row := rows.get(name):
            scores = f"{row['pseudo_bma']:>10.2f} {row['weight']:>8.2f} {_gap_text(row, 'elpd')} "
            scores += _gap_text(row, "future_elpd")
        at = summary.at(0.5)
        week = next(reach for reach in at.reaches if reach.name == "1 work week")
        date = day_text(week.day.median, summary.first_day)
        lines.append(f"{name:<10} {_months_text(at.doubling_months):>28} {scores} {date:>21}")
    lines.append("unseen, future: log score less the best shape's, ± its standard error")
    lines += ["", *_rate_lines(comparison.summaries[comparison.headline])]
    lines += [f"note: {note}" for note in comparison.options.facts.notes]
    return "\n".join(lines)


def _rate_lines(summary: TrendSummary) -> Iterator[str]:
    last = day_text(summary.last_day, summary.first_day)
    yield (
        f"{summary.shape}, {summary.n_agents} agents, at the last release ({last}), random tasks: "
        "medians, 95 % intervals"
    )
    yield (
        f"{'success':<8} {'doubling time (months)':>28} {'horizon of the trend':>36} "
        f"{'horizon of an agent released then':>36}"
    )
    for rate in summary.rates:
        horizons = (_span_text(rate.minutes), _span_text(rate.next_minutes))
        yield (
            f"{f'{100 * rate.success:g} %':<8} {_months_text(rate.doubling_months):>28} "
            f"{horizons[0]:>36} {horizons[1]:>36}"
        )


def _span_text(minutes: CentralInterval) -> str:
    middle, low, high = map(duration_text, minutes)
    return f"{middle} ({low} to {high})"


def gap_text(difference: float, error: float) -> str:
    """Return how far a shape's score is behind the best, with its standard error."""
    if not np.isfinite(difference):
        return "–"
    if difference == 0:
        return "best"
    return f"{difference:.1f}" + (f" ± {error:.1f}" if np.isfinite(error) else "")


def _gap_text(row: Mapping[Any, Any], name: str) -> str:
    return f"{gap_text(row[f'{name}_difference'], row[f'{name}_difference_se']):>16}"


def _months_text(months: CentralInterval) -> str:
    """Return a doubling time with its interval, in months; ``none`` from a century on."""

    def say(value: float) -> str:
        return f"{value:.1f}" if value <= CENTURY_MONTHS else "none"

    middle, low, high = map(say, months)
    return f"{middle} ({low} to {high})"
