"""Charts of what stands beside a fit: methods side by side, and boxes over a multiverse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from tidegauge.arrays import FloatArray
from tidegauge.horizon.store.studies import StoredMultiverse
from tidegauge.report.charts import ACCENT, INK, MUTED, SECOND, chart_data
from tidegauge.report.durations import duration_axis, duration_scale
from tidegauge.report.horizon.headline import Bar, Size, bar_rows, minutes_range

PALETTE = (SECOND, "#2563eb", ACCENT, "#7c3aed", "#be123c", "#4d7c0f", INK, MUTED)
MOST_MONTHS = 60.0
_FACTORS = (1 / 64, 1 / 16, 1 / 4, 1 / 2, 1, 2, 4, 16, 64)


def methods_chart(table: pd.DataFrame, rate: str, size: Size, *, title: str) -> Any:
    """Draw every method's horizon of every agent, with 95 % intervals; the longest at the top."""
    methods = list(dict.fromkeys(table["method"]))
    bars = [
        Bar(row["agent"], row[rate], row[f"{rate}q0.025"], row[f"{rate}q0.975"])
        for row in table.to_dict("records")
    ]
    limits = minutes_range(bars)
    kept = [i for i, bar in enumerate(bars) if bar.is_drawable]
    rows = [
        {
            **row,
            "method": table["method"].iloc[i],
            "text": f"{table['method'].iloc[i]}: {row['text']}",
        }
        for i, row in zip(kept, bar_rows(bars, limits), strict=True)
    ]
    middle = table.groupby("agent")[rate].median().sort_values(ascending=False)
    shades = [PALETTE[i % len(PALETTE)] for i in range(len(methods))]
    base = alt.Chart(chart_data(rows)).encode(
        y=alt.Y("agent:N", sort=list(middle.index), title=None, axis=_names(size)),
        yOffset=alt.YOffset("method:N", sort=methods),
        color=alt.Color(
            "method:N",
            title=None,
            scale=alt.Scale(domain=methods, range=shades),
            legend=alt.Legend(orient="top", columns=2 if size.narrow else 6),
        ),
    )
    x = alt.X("low:Q", scale=duration_scale(*limits), axis=duration_axis(*limits), title=None)
    rules = base.mark_rule(strokeWidth=2.5, opacity=0.55).encode(x=x, x2="high:Q")
    dots = base.mark_circle(size=36, opacity=1).encode(x="median:Q", description="text:N")
    step = alt.Step(max(9, 30 // len(methods)))  # pixels a method
    return alt.layer(rules, dots).properties(width=size.width, height=step, title=title)


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
