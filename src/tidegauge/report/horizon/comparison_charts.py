"""Charts of a comparison: horizons side by side, held-out scores, calibration, misfitted tasks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import altair as alt
import numpy as np
import pandas as pd

from tidegauge.horizon.studies.compare import Comparison
from tidegauge.horizon.studies.scores import calibration_table, scores_table, tasks_table
from tidegauge.report.charts import ACCENT, INK, MUTED, SECOND, save_chart

_PALETTE = (SECOND, "#2563eb", ACCENT, "#7c3aed", "#be123c", "#4d7c0f")
_SHOWN_TASKS = 20
_COLUMNS = 3  # of panels
_SCORES = {
    "log_score": "Log score per run (higher)",
    "fractional_log_score": "Fractional log score (higher)",
    "brier": "Brier (lower)",
}
_WHOLE_NAMES = alt.Axis(labelLimit=320)
_LEAST_MINUTES, _MOST_MINUTES = 1e-3, 1e7  # a bar that runs off any axis is cut; the table is not


def comparison_plots(comparison: Comparison) -> Callable[[Path], None]:
    """Return a function that saves every chart of the comparison into a folder."""

    def save(folder: Path) -> None:
        cells = comparison.held_out.cells
        for name, chart in {
            "horizons": horizons_chart(comparison.horizons),
            "scores": scores_chart(scores_table(cells)),
            "calibration": calibration_chart(calibration_table(cells)),
            "tasks": tasks_chart(tasks_table(cells), comparison.options.chosen[-1].name),
        }.items():
            save_chart(chart, folder / name)

    return save


def horizons_chart(table: pd.DataFrame) -> alt.VConcatChart:
    """Draw every method's 50 % and 80 % horizon of each agent, with 95 % intervals."""
    methods = list(dict.fromkeys(table["method"]))
    medians = table.groupby("agent")["p50"].median().sort_values(ascending=False)
    charts = []
    for name, percent in (("p50", 50), ("p80", 80)):
        data = pd.DataFrame(
            {
                "agent": table["agent"],
                "method": table["method"],
                "middle": table[name].clip(_LEAST_MINUTES, _MOST_MINUTES),
                "low": table[f"{name}q0.025"].clip(_LEAST_MINUTES, _MOST_MINUTES),
                "high": table[f"{name}q0.975"].clip(_LEAST_MINUTES, _MOST_MINUTES),
            }
        )
        if len(methods) > len(_PALETTE):
            drawn = _panel_per_agent(data, methods, list(medians.index))
        else:
            y = alt.Y("agent:N", sort=list(medians.index), title=None, axis=_WHOLE_NAMES)
            offset = alt.YOffset("method:N", sort=methods)
            base = alt.Chart(data).encode(y=y, yOffset=offset, color=_colour(methods))
            drawn = _intervals(base).properties(width=560, height=alt.Step(11))
        charts.append(drawn.properties(title=f"Time horizon at {percent} % success, 95 % interval"))
    return alt.vconcat(*charts)


def _panel_per_agent(data: pd.DataFrame, methods: list[str], agents: list[str]) -> alt.FacetChart:
    """Name the methods beside their bars: there are more than colours."""
    base = alt.Chart(data).encode(y=_names(methods), color=_colour(methods, legend=False))
    panel = _intervals(base).properties(width=260, height=alt.Step(11))
    return panel.facet(alt.Facet("agent:N", sort=agents, title=None), columns=_COLUMNS)


def _intervals(base: alt.Chart) -> alt.LayerChart:
    ticks = alt.Axis(values=[10.0**k for k in range(-3, 8)], format="~g", labelOverlap=True)
    x = alt.X("low:Q", scale=alt.Scale(type="log"), axis=ticks, title="minutes of human work")
    bars = base.mark_rule(strokeWidth=2.5, opacity=0.6).encode(x=x, x2="high:Q")
    return bars + base.mark_circle(size=35, opacity=1).encode(x="middle:Q")


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
            y = _names(methods, shown=not charts)
            base = alt.Chart(data).encode(y=y, color=_colour(methods, legend=False))
            x = alt.X("low:Q", scale=alt.Scale(zero=False), title=title)
            bars = base.mark_rule(strokeWidth=2.5, opacity=0.6).encode(x=x, x2="high:Q")
            dots = base.mark_circle(size=45, opacity=1).encode(x="mean:Q")
            charts.append((bars + dots).properties(width=260, height=alt.Step(16)))
        heading = f"Predicting runs that were held out by {by}, ± 1 standard error"
        rows.append(alt.hconcat(*charts, title=heading))
    return alt.vconcat(*rows)


def _names(methods: list[str], *, shown: bool = True) -> alt.Y:
    return alt.Y("method:N", sort=methods, title=None, axis=_WHOLE_NAMES if shown else None)


def calibration_chart(table: pd.DataFrame) -> alt.ConcatChart:
    """Draw how often runs succeeded against how often they were said to; size is their number."""
    methods = list(dict.fromkeys(table["method"]))
    error = 2 * table["seen_se"].fillna(0)
    data = table[["by", "method", "predicted", "seen", "runs"]].assign(
        low=(table["seen"] - error).clip(0, 1), high=(table["seen"] + error).clip(0, 1)
    )
    many = len(methods) > len(_PALETTE)
    colour = _colour(methods, legend=not many)
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
                "sign": np.where(own["residual"] > 0, "easier than said", "harder than said"),
            }
        )
        colour = alt.Color(
            "sign:N",
            title=None,
            scale=alt.Scale(
                domain=["easier than said", "harder than said"], range=[ACCENT, SECOND]
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


def _colour(methods: list[str], *, legend: bool = True) -> alt.Color:
    """Give every method one colour in all charts; the baseline is grey."""
    models = [name for name in methods if name != "climatology"]
    colours = {name: _PALETTE[i % len(_PALETTE)] for i, name in enumerate(models)}
    scale = alt.Scale(domain=methods, range=[colours.get(name, MUTED) for name in methods])
    if legend:
        return alt.Color("method:N", title=None, scale=scale)
    return alt.Color("method:N", legend=None, scale=scale)
