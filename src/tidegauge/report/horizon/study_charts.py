"""Charts of studies: methods side by side, held-out scores, calibration, boxes of a multiverse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from tidegauge.arrays import FloatArray
from tidegauge.horizon.store.studies import StoredMultiverse
from tidegauge.horizon.studies.compare import Comparison
from tidegauge.horizon.studies.scores import calibration_table, scores_table, tasks_table
from tidegauge.report.charts import ACCENT, INK, PALETTE, SECOND, chart_data
from tidegauge.report.horizon.headline import (
    Bar,
    Range,
    Size,
    bar_rows,
    interval_chart,
    interval_layers,
    method_colour,
    minutes_range,
)

MOST_MONTHS = 60.0
_SHOWN_TASKS = 20
_COLUMNS = 3  # of panels
_SCORES = {
    "log_score": "Log score per run (higher)",
    "fractional_log_score": "Fractional log score (higher)",
    "brier": "Brier (lower)",
}
_WHOLE_NAMES = alt.Axis(labelLimit=320)
_FACTORS = (1 / 64, 1 / 16, 1 / 4, 1 / 2, 1, 2, 4, 16, 64)


def methods_chart(table: pd.DataFrame, rate: str, size: Size, *, title: str) -> Any:
    """Draw every method's horizon of every agent, with 95 % intervals; the longest at the top."""
    bars = {
        str(method): [
            Bar(row["agent"], row[rate], row[f"{rate}q0.025"], row[f"{rate}q0.975"])
            for row in own.to_dict("records")
        ]
        for method, own in table.groupby("method", sort=False)
    }
    limits = minutes_range([bar for own in bars.values() for bar in own])
    if len(bars) > len(PALETTE):
        return _panel_per_agent(bars, limits).properties(title=title)
    return interval_chart(bars, limits, size, title=title)


def _panel_per_agent(bars: Mapping[str, Sequence[Bar]], limits: Range) -> Any:
    """Name the methods beside their bars: there are more than colours."""
    methods = list(bars)
    rows = [{**row, "method": name} for name, own in bars.items() for row in bar_rows(own, limits)]
    base = alt.Chart().encode(y=_methods_axis(methods), color=method_colour(methods, legend=False))
    layers = alt.layer(*interval_layers(base, limits), data=chart_data(rows))
    panel = layers.properties(width=260, height=alt.Step(11))
    return panel.facet(alt.Facet("agent:N", title=None), columns=_COLUMNS)


@dataclass(frozen=True)
class Box:
    """Smallest, quartiles and largest of an answer over the universes that made one choice."""

    label: str
    low: float
    q1: float
    median: float
    q3: float
    high: float
    text: str = ""


def horizon_boxes(found: StoredMultiverse) -> list[Box]:
    """Summarise 50 % horizons by choice, as factors of each agent's median over all universes."""
    p50 = found.horizons["p50"].clip(1e-6, 1e9)
    middle = p50.groupby(found.horizons["agent"]).transform("median")
    log2 = np.log2(p50.to_numpy(float) / middle.to_numpy(float))
    return _boxes(found.horizons, log2, found.choices, power=True)


def doubling_boxes(found: StoredMultiverse) -> list[Box]:
    """Summarise doubling times in months by choice; those that do not rise count as the longest."""
    if found.doubling is None:
        return []
    months = found.doubling["doubling_months"].to_numpy(float)
    rising = np.where((months > 0) & (months < MOST_MONTHS), months, MOST_MONTHS)
    return _boxes(found.doubling, rising, found.choices, power=False)


def _boxes(
    table: pd.DataFrame, values: FloatArray, choices: Sequence[str], *, power: bool
) -> list[Box]:
    boxes = []
    for choice in choices:
        for level in dict.fromkeys(table[choice]):
            own = values[(table[choice] == level).to_numpy()]
            if not level or not own.size:  # the choice does not apply to these universes
                continue
            ends = np.quantile(own, [0, 0.25, 0.5, 0.75, 1])
            low, q1, middle, q3, high = (float(end) for end in (2**ends if power else ends))
            unit = "times the agent's median" if power else "months"
            text = f"{choice} {level}: {middle:.2f} {unit}, middle half {q1:.2f} to {q3:.2f}"
            boxes.append(Box(f"{choice}: {level}", low, q1, middle, q3, high, text))
    return boxes


def boxes_chart(boxes: Sequence[Box], size: Size, *, title: str, axis: str, log: bool) -> Any:
    """Draw one box a choice: a line from the smallest to the largest, a bar for the middle half."""
    base = alt.Chart(chart_data([asdict(box) for box in boxes])).encode(
        y=alt.Y("label:N", sort=[box.label for box in boxes], title=None, axis=_names(size))
    )
    if log:
        ends = min(box.low for box in boxes) / 1.1, max(box.high for box in boxes) * 1.1
        ends = max(min(ends[0], 0.5), _FACTORS[0]), min(max(ends[1], 2.0), _FACTORS[-1])
        scale = alt.Scale(type="log", domain=list(ends), nice=False)
        ticks = alt.Axis(values=list(_FACTORS), labelExpr=_FACTOR_LABELS, labelOverlap="greedy")
    else:
        scale, ticks = alt.Scale(zero=True), alt.Axis(tickCount=5)
    x = alt.X("low:Q", scale=scale, axis=ticks, title=axis)
    lines = base.mark_rule(color=ACCENT, strokeWidth=1.5, opacity=0.6, clip=True)
    bars = base.mark_rule(color=ACCENT, strokeWidth=9, opacity=0.35, clip=True, aria=False)
    dots = base.mark_circle(color=INK, size=36, opacity=1, clip=True)
    layers = alt.layer(
        lines.encode(x=x, x2="high:Q"),
        bars.encode(x=alt.X("q1:Q", scale=scale), x2="q3:Q"),
        dots.encode(x=alt.X("median:Q", scale=scale), description="text:N"),
    )
    return layers.properties(width=size.width, height=alt.Step(18), title=title)


_FACTOR_LABELS = "datum.value < 1 ? '÷' + format(1 / datum.value, '~g') : '×' + datum.label"


def _names(size: Size) -> alt.Axis:
    return alt.Axis(labelLimit=150 if size.narrow else 300)


def change_text(log2_change: float) -> str:
    """Return a change of a horizon as a factor."""
    return "–" if not np.isfinite(log2_change) else f"× {2**log2_change:.2f}"


def comparison_charts(comparison: Comparison) -> dict[str, Any]:
    """Return every chart of a comparison of methods by the name of its file."""
    cells, size = comparison.held_out.cells, Size(560, 0)
    panels = [
        methods_chart(comparison.horizons, f"p{p}", size, title=f"{p} % horizon, 95 % interval")
        for p in (50, 80)
    ]
    return {
        "horizons": alt.vconcat(*panels),
        "scores": scores_chart(scores_table(cells)),
        "calibration": calibration_chart(calibration_table(cells)),
        "tasks": tasks_chart(tasks_table(cells), comparison.options.chosen[-1].name),
    }


def scores_chart(table: pd.DataFrame) -> alt.VConcatChart:
    """Draw every method's held-out scores, plus and minus a standard error."""
    methods = list(dict.fromkeys(table["method"]))
    rows = []
    for by in dict.fromkeys(table["by"]):
        own = table[table["by"] == by]
        charts: list[alt.LayerChart] = []
        for score, title in _SCORES.items():
            data = own[["method"]].assign(
                mean=own[score],
                low=own[score] - own[f"{score}_se"].fillna(0),
                high=own[score] + own[f"{score}_se"].fillna(0),
            )
            y = _methods_axis(methods, shown=not charts)
            base = alt.Chart(data).encode(y=y, color=method_colour(methods, legend=False))
            x = alt.X("low:Q", scale=alt.Scale(zero=False), title=title)
            bars = base.mark_rule(strokeWidth=2.5, opacity=0.6).encode(x=x, x2="high:Q")
            dots = base.mark_circle(size=45, opacity=1).encode(x="mean:Q")
            charts.append((bars + dots).properties(width=260, height=alt.Step(16)))
        heading = f"Predicting runs that were held out by {by}, ± 1 standard error"
        rows.append(alt.hconcat(*charts, title=heading))
    return alt.vconcat(*rows)


def calibration_chart(table: pd.DataFrame) -> alt.ConcatChart:
    """Draw how often runs succeeded against the predicted probability; size is their number."""
    methods = list(dict.fromkeys(table["method"]))
    error = 2 * table["seen_se"].fillna(0)
    data = table[["by", "method", "predicted", "seen", "runs"]].assign(
        low=(table["seen"] - error).clip(0, 1), high=(table["seen"] + error).clip(0, 1)
    )
    many = len(methods) > len(PALETTE)
    colour = method_colour(methods, legend=not many)
    charts = []
    for by in dict.fromkeys(table["by"]):
        own, title = data[data["by"] == by], f"held out by {by}"
        if many:  # a panel each, where colours would repeat
            charts += [
                _calibration_panel(own[own["method"] == method], colour, f"{method}, {title}")
                for method in methods
            ]
        else:
            charts.append(_calibration_panel(own, colour, title))
    return alt.concat(*charts, columns=_COLUMNS)


def _calibration_panel(data: pd.DataFrame, colour: alt.Color, title: str) -> alt.LayerChart:
    percent, unit = alt.Axis(format="%"), alt.Scale(domain=[0, 1])
    diagonal = (
        alt.Chart(pd.DataFrame({"predicted": [0, 1], "seen": [0, 1]}))
        .mark_line(color=INK, strokeDash=[4, 4], strokeWidth=1)
        .encode(x="predicted:Q", y="seen:Q")
    )
    x = alt.X("predicted:Q", axis=percent, scale=unit, title="predicted success")
    base = alt.Chart(data).encode(x=x, color=colour)
    y = alt.Y("seen:Q", axis=percent, scale=unit, title="seen")
    lines = base.mark_line(strokeWidth=1.5).encode(y=y)
    bars = base.mark_rule(opacity=0.35).encode(y="low:Q", y2="high:Q")
    size = alt.Size("runs:Q", title="runs", scale=alt.Scale(range=[10, 220]))
    dots = base.mark_circle(opacity=0.9).encode(y="seen:Q", size=size)
    return (diagonal + bars + lines + dots).properties(width=260, height=260, title=title)


def tasks_chart(table: pd.DataFrame, method: str) -> alt.HConcatChart:
    """Draw the tasks that one method predicts worst: successes seen against expected."""
    charts = []
    for by in dict.fromkeys(table["by"]):
        own = table[(table["by"] == by) & (table["method"] == method)].head(_SHOWN_TASKS)
        data = pd.DataFrame(
            {
                "task": own["task_id"],
                "seen": own["seen"] / own["runs"],
                "expected": own["expected"] / own["runs"],
                "sign": np.where(
                    own["residual"] > 0, "easier than predicted", "harder than predicted"
                ),
            }
        )
        colour = alt.Color(
            "sign:N",
            title=None,
            scale=alt.Scale(
                domain=["easier than predicted", "harder than predicted"], range=[ACCENT, SECOND]
            ),
        )
        base = alt.Chart(data).encode(
            y=alt.Y("task:N", sort=list(data["task"]), title=None, axis=_WHOLE_NAMES)
        )
        x = alt.X(
            "expected:Q",
            axis=alt.Axis(format="%"),
            scale=alt.Scale(domain=[0, 1]),
            title="success expected (tick) and seen (dot)",
        )
        bars = base.mark_rule(opacity=0.6).encode(x=x, x2="seen:Q", color=colour)
        ticks = base.mark_tick(color=INK, thickness=2).encode(x="expected:Q")
        dots = base.mark_circle(size=45, opacity=1).encode(x="seen:Q", color=colour)
        title = f"{method}: worst fitted tasks, held out by {by}"
        charts.append((bars + ticks + dots).properties(width=260, height=alt.Step(14), title=title))
    return alt.hconcat(*charts)


def _methods_axis(methods: list[str], *, shown: bool = True) -> alt.Y:
    return alt.Y("method:N", sort=methods, title=None, axis=_WHOLE_NAMES if shown else None)
