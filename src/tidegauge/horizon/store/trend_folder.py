"""The files of a comparison of trends, and what the terminal shows of it."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.engine.store import manifest, write_csv, write_json
from tidegauge.horizon.data.agents import DAYS_PER_YEAR
from tidegauge.horizon.trend.comparison import (
    ShapeScores,
    TrendComparison,
    averaging_weights,
)
from tidegauge.horizon.trend.summary import TrendSummary, day_text, summarise_trend, trend_files
from tidegauge.io import atomic_folder

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.horizon.trend.draws import Trend

STACKED = "stacked"
_CENTURY_MONTHS = 1200.0
FILES = (*("trends.csv", "trend_fan.csv", "shapes.csv", "agents.csv", "manifest.json", "plots"),)


def trend_outputs(comparison: TrendComparison) -> dict[str, pd.DataFrame]:
    """Return every table by the name of its file."""
    import pandas as pd

    tables: dict[str, list[pd.DataFrame]] = {"trend.csv": [], "trend_fan.csv": []}
    for name, trends, weights in _mixtures(comparison):
        for file, table in trend_files(trends, weights).items():
            table.insert(0, "shape", name)
            tables[file].append(table)
    return {
        "trends.csv": pd.concat(tables["trend.csv"], ignore_index=True),
        "trend_fan.csv": pd.concat(tables["trend_fan.csv"], ignore_index=True),
        "shapes.csv": shapes_table(comparison),
        "agents.csv": agents_table(comparison),
    }


def _mixtures(comparison: TrendComparison) -> Iterator[tuple[str, list[Trend], list[float]]]:
    for shape, trend in comparison.trends.items():
        yield shape, [trend], [1.0]
    yield (STACKED, *comparison.stack)


def shapes_table(comparison: TrendComparison) -> pd.DataFrame:
    """Return one row a shape: scores of unseen agents, differences to the best, weight.

    ``elpd`` is the sum over agents of the log density of their measured log2 T50 given all
    others, ``future_elpd`` that of the later agents given only those released before them.
    """
    import pandas as pd

    scores = comparison.scores
    columns: dict[str, object] = {
        "shape": scores.shapes,
        "weight": scores.weights,
        "pseudo_bma": averaging_weights(scores.leave_one_out),
    }
    for name, pointwise in (
        ("elpd", scores.leave_one_out),
        ("future_elpd", scores.leave_future_out),
    ):
        total = pointwise.sum(axis=1)
        best = int(total.argmax()) if pointwise.size else 0
        columns |= {
            name: total,
            f"{name}_se": _sum_error(pointwise),
            f"{name}_difference": total - total[best],
            f"{name}_difference_se": _sum_error(pointwise - pointwise[best]),
        }
    columns["agents"] = scores.leave_one_out.shape[1]
    columns["future_agents"] = scores.future.size
    columns["converged"] = [shape not in comparison.unconverged for shape in scores.shapes]
    return pd.DataFrame(columns)


def _sum_error(pointwise: np.ndarray) -> np.ndarray:
    """Return the standard error of each row's sum, NaN for fewer than two terms."""
    if pointwise.shape[1] < 2:
        return np.full(len(pointwise), np.nan)
    error: np.ndarray = np.sqrt(pointwise.shape[1]) * pointwise.std(axis=1, ddof=1)
    return error


def agents_table(comparison: TrendComparison) -> pd.DataFrame:
    """Return one row an agent of the trend: its measured horizon, and its scores."""
    import pandas as pd

    scores: ShapeScores = comparison.scores
    measured = scores.measured
    days = comparison.origin_day + DAYS_PER_YEAR * measured.years
    columns: dict[str, object] = {
        "agent": measured.agents,
        "release_date": [datetime.date.fromordinal(round(day)).isoformat() for day in days],
        "log2_p50": measured.log2,
        "log2_p50_sd": measured.sd,
    }
    for shape, row in zip(scores.shapes, scores.leave_one_out, strict=True):
        columns[f"log_density_{shape}"] = row
    for shape, row in zip(scores.shapes, scores.leave_future_out, strict=True):
        later = np.full(len(measured.agents), np.nan)
        later[scores.future] = row
        columns[f"future_log_density_{shape}"] = later
    return pd.DataFrame(columns).sort_values("release_date", kind="stable", ignore_index=True)


def write_trends(
    comparison: TrendComparison, folder: Path, *, plots: Callable[[Path], None] | None = None
) -> None:
    """Replace the files of an earlier comparison by this one's, all together or not at all."""
    options = comparison.options
    settings = {
        "model": options.model,
        "priors": options.priors,
        "sampler": options.sampler,
        "agents": options.facts,
        "filters": [str(condition) for condition in options.filters],
        "shapes": list(options.shapes),
    }
    with atomic_folder(folder, owned=FILES) as staging:
        for name, table in trend_outputs(comparison).items():
            write_csv(staging / name, table)
        if plots is not None:
            (staging / "plots").mkdir()
            plots(staging / "plots")
        description = manifest(kind="horizon/trend", inputs=comparison.inputs, settings=settings)
        extra = {"converged": not comparison.unconverged, "notes": list(comparison.notes)}
        write_json(staging / "manifest.json", {**description, **extra})


def trends_text(comparison: TrendComparison) -> str:
    """Return the shapes with their scores, doubling times and dates, for a terminal."""
    lines = [
        f"{'shape':<10} {'doubling time (months)':>28} {'weight':>7} {'unseen agents':>16} "
        f"{'future agents':>16} {'1 work week at 50 %':>21}"
    ]
    rows = {row["shape"]: row for row in shapes_table(comparison).to_dict("records")}
    for name, trends, weights in _mixtures(comparison):
        summary = summarise_trend(trends, weights)
        scores = " " * 41
        if row := rows.get(name):
            scores = f"{row['weight']:>7.2f} {_gap_text(row, 'elpd')} "
            scores += _gap_text(row, "future_elpd")
        lines.append(f"{name:<10} {months_text(summary):>28} {scores} {_week_text(summary):>21}")
    lines.append("unseen, future: log score less the best shape's, ± its standard error")
    return "\n".join(lines)


def _gap_text(row: Mapping[Any, Any], name: str) -> str:
    gap, error = row[f"{name}_difference"], row[f"{name}_difference_se"]
    return f"{'best' if gap == 0 else f'{gap:.1f} ± {error:.1f}':>16}"


def months_text(summary: TrendSummary) -> str:
    """Return the doubling time with its interval, in months; ``none`` from a century on."""

    def say(months: float) -> str:
        return f"{months:.1f}" if months <= _CENTURY_MONTHS else "none"

    middle, low, high = map(say, summary.doubling_months)
    return f"{middle} ({low} to {high})"


def _week_text(summary: TrendSummary) -> str:
    week = next(r for r in summary.reaches if r.name == "1 work week" and r.success == 0.5)
    return day_text(week.day.median, summary)
