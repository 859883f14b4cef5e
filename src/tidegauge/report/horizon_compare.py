"""Charts of a comparison: horizons side by side, held-out scores, calibration, misfitted tasks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import altair as alt
import numpy as np
import pandas as pd

from tidegauge.horizon.compare import Comparison
from tidegauge.horizon.standings import calibration_table, scores_table, tasks_table
from tidegauge.report.charts import ACCENT, INK, MUTED, SECOND, save_chart

_PALETTE = (SECOND, "#2563eb", ACCENT, "#7c3aed", "#be123c", "#4d7c0f")
_SHOWN_TASKS = 20
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
            "tasks": tasks_chart(tasks_table(cells), comparison.options.contenders[-1].name),
        }.items():
            save_chart(chart, folder / name)

    return save


def horizons_chart(table: pd.DataFrame) -> alt.VConcatChart:
    """Draw every method's 50 % and 80 % horizon of each agent, with 95 % intervals."""
    charts = []
    methods = list(dict.fromkeys(table["method"]))
    medians = table.groupby("agent")["p50"].median().sort_values(ascending=False)
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
        base = alt.Chart(data).encode(
            y=alt.Y("agent:N", sort=list(medians.index), title=None, axis=_WHOLE_NAMES),
            yOffset=alt.YOffset("method:N", sort=methods),
            color=_colour(methods),
        )
        ticks = alt.Axis(values=[10.0**k for k in range(-3, 8)], format="~g")
        x = alt.X("low:Q", scale=alt.Scale(type="log"), axis=ticks, title="minutes of human work")
        bars = base.mark_rule(strokeWidth=2.5, opacity=0.6).encode(x=x, x2="high:Q")
        dots = base.mark_circle(size=35, opacity=1).encode(x="middle:Q")
        title = f"Time horizon at {percent} % success, 95 % interval"
        charts.append((bars + dots).properties(width=560, height=alt.Step(11), title=title))
    return alt.vconcat(*charts)


def scores_chart(table: pd.DataFrame) -> alt.HConcatChart:
    """Draw held-out log score and Brier loss of every method, plus and minus a standard error."""
    methods = list(dict.fromkeys(table["method"]))
    charts = []
    for score, title in (("log_score", "Log score per run (higher)"), ("brier", "Brier (lower)")):
        data = table[["by", "method"]].assign(
            mean=table[score],
            low=table[score] - table[f"{score}_se"].fillna(0),
            high=table[score] + table[f"{score}_se"].fillna(0),
        )
        base = alt.Chart(data).encode(
            y=alt.Y("by:N", sort=list(dict.fromkeys(table["by"])), title="held out by"),
            yOffset=alt.YOffset("method:N", sort=methods),
            color=_colour(methods),
        )
        x = alt.X("low:Q", scale=alt.Scale(zero=False), title=f"{title}, ± 1 standard error")
        bars = base.mark_rule(strokeWidth=2.5, opacity=0.6).encode(x=x, x2="high:Q")
        dots = base.mark_circle(size=45, opacity=1).encode(x="mean:Q")
        charts.append((bars + dots).properties(width=300, height=alt.Step(16)))
    return alt.hconcat(*charts).properties(title="Predicting runs that were held out")


def calibration_chart(table: pd.DataFrame) -> alt.HConcatChart:
    """Draw how often runs succeeded against how often they were said to; size is their number."""
    methods = list(dict.fromkeys(table["method"]))
    error = 2 * table["seen_se"].fillna(0)
    data = table[["by", "method", "predicted", "seen", "runs"]].assign(
        low=(table["seen"] - error).clip(0, 1), high=(table["seen"] + error).clip(0, 1)
    )
    percent, unit = alt.Axis(format="%"), alt.Scale(domain=[0, 1])
    diagonal = (
        alt.Chart(pd.DataFrame({"predicted": [0, 1], "seen": [0, 1]}))
        .mark_line(color=INK, strokeDash=[4, 4], strokeWidth=1)
        .encode(x="predicted:Q", y="seen:Q")
    )
    charts = []
    for by in dict.fromkeys(table["by"]):
        base = alt.Chart(data[data["by"] == by]).encode(
            x=alt.X("predicted:Q", axis=percent, scale=unit, title="predicted success"),
            color=_colour(methods),
        )
        y = alt.Y("seen:Q", axis=percent, scale=unit, title="seen")
        lines = base.mark_line(strokeWidth=1.5).encode(y=y)
        bars = base.mark_rule(opacity=0.35).encode(y="low:Q", y2="high:Q")
        dots = base.mark_circle(opacity=0.9).encode(
            y="seen:Q", size=alt.Size("runs:Q", title="runs", scale=alt.Scale(range=[10, 220]))
        )
        panel = (diagonal + bars + lines + dots).properties(width=260, height=260)
        charts.append(panel.properties(title=f"held out by {by}"))
    return alt.hconcat(*charts)


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


def _colour(methods: list[str]) -> alt.Color:
    """Give every method one colour in all charts; the baseline is grey."""
    models = [name for name in methods if name != "climatology"]
    colours = {name: _PALETTE[i % len(_PALETTE)] for i, name in enumerate(models)}
    shades = [colours.get(name, MUTED) for name in methods]
    return alt.Color("method:N", title=None, scale=alt.Scale(domain=methods, range=shades))
