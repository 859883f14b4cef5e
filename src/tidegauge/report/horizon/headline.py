"""The headline chart: horizons with their intervals, over release date or by agent."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import altair as alt
import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.horizon.result import HorizonResult
from tidegauge.report.charts import ACCENT, MUTED, PALETTE, SECOND, chart_data
from tidegauge.report.durations import (
    SECONDS_PER_MINUTE,
    duration_axis,
    duration_scale,
    duration_text,
)

Range = tuple[float, float]

_DAY_MS = 86_400_000
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_LEAST_SPAN = 16.0  # horizons that hardly differ should look so
_CHARACTER_PX, _LINE_PX, _GAP_PX, _OUTSIDE_PX = 6.8, 14.0, 7, 100
# Side (1 right) and pixels below: a rising line passes above right and below left of its dots.
_PLACES = ((1, 10), (-1, -10), (1, 0), (-1, 0), (1, -10), (-1, 10))


@dataclass(frozen=True)
class Size:
    """Width and height of a chart's plotting area, in pixels; `columns` of small ones."""

    width: int
    height: int
    columns: int = 1
    narrow: bool = False


@dataclass(frozen=True)
class Bar:
    """One agent's horizon in minutes, with its 95 % interval and, perhaps, a release date."""

    agent: str
    median: float
    low: float
    high: float
    date: datetime.date | None = None

    @property
    def is_drawable(self) -> bool:
        """Whether all three are numbers, be they zero or infinite."""
        return not np.isnan([self.median, self.low, self.high]).any()

    @property
    def text(self) -> str:
        """Text on hovering, and of a screen reader."""
        ends = f"{duration_text(self.low)} to {duration_text(self.high)}"
        day = f", {self.date.isoformat()}" if self.date else ""
        return f"{self.agent}{day}: {duration_text(self.median)} ({ends})"


def result_bars(result: HorizonResult, success: float, kind: str) -> list[Bar]:
    """Return every agent's horizon of a result."""
    found, dates = result.estimate.interval(success, kind=kind), result.runs.release_dates
    return [
        Bar(agent, float(median), float(low), float(high), dates.get(agent))
        for agent, median, low, high in zip(result.design.agents, *found, strict=True)
    ]


@dataclass(frozen=True)
class Band:
    """A trend as it is drawn: a line and, perhaps, a fan.

    `log2` (day,) are log2 minutes at ordinal `days`; `fan` (4, day) holds the ends of its 95 and
    50 % bands from the lowest to the highest; beyond `last_day` all is extrapolated.
    `agent` (2, day), where there is one, holds the ends of the next agent's 95 % band.
    """

    days: FloatArray
    log2: FloatArray
    fan: FloatArray | None
    last_day: float
    agent: FloatArray | None = None

    @property
    def ends_log2(self) -> Range:
        """The lowest and the highest that the line, or its fan, reaches where there are agents."""
        drawn = self.log2[None] if self.fan is None else self.fan
        seen = drawn[:, self.days <= self.last_day]
        return float(seen.min()), float(max(seen.max(), self.log2.max()))


def minutes_range(bars: Sequence[Bar], trends: Sequence[Band] = ()) -> Range:
    """Return the axis that shows every median and as much of the intervals as still tells."""
    bars = [bar for bar in bars if bar.is_drawable]
    medians = np.array([bar.median for bar in bars])
    usable = medians[np.isfinite(medians) & (medians > 0)]
    middle = np.clip(usable if usable.size else np.array([1.0, 60.0]), 1e-4, 1e9)
    least, most = middle.min(), middle.max()
    fans = [_seconds(end) / SECONDS_PER_MINUTE for one in trends for end in one.ends_log2]
    lows = [*fans, *(bar.low for bar in bars if bar.low > 0)]
    highs = [*fans, *(bar.high for bar in bars if np.isfinite(bar.high))]
    # An interval that runs far off is cut and marked: the table has its end.
    low = max(min([*lows, least]), least / 30)
    high = min(max([*highs, most]), most * 30)
    margin = max(1.3, np.sqrt(_LEAST_SPAN / (high / low)))
    return float(low / margin), float(high * margin)


def date_chart(
    bars: Sequence[Bar], trend: Band | None, limits: Range, size: Size, *, title: str
) -> Any:
    """Draw dated horizons with their intervals over a trend and its fan."""
    rows = bar_rows([bar for bar in bars if bar.date], limits)
    days = [row["date"] for row in rows]
    if trend is not None:
        days.append(_day_milliseconds(float(trend.days.max())))
    margin = max(0.04 * (max(days) - min(days)), 30 * _DAY_MS)
    ends = [min(days) - margin, max(days) + margin]
    x = alt.X(
        "date:T",
        title="release date",
        scale=alt.Scale(type="utc", domain=ends, nice=False),
        axis=alt.Axis(grid=False, tickCount=4 if size.narrow else 10, labelOverlap="greedy"),
    )
    scale, axis = duration_scale(*limits), duration_axis(*limits)
    base = alt.Chart(chart_data(rows)).encode(x=x)
    layers = [
        *(trend_layers(trend, x, scale) if trend else []),
        base.mark_rule(color=ACCENT, strokeWidth=2.5, opacity=0.45).encode(
            y=alt.Y("low:Q", scale=scale, axis=axis, title=None), y2="high:Q"
        ),
        _cut_mark(base, "low", "triangle-down", color=ACCENT).encode(y=alt.Y("low:Q", scale=scale)),
        _cut_mark(base, "high", "triangle-up", color=ACCENT).encode(y=alt.Y("high:Q", scale=scale)),
        _dots(base, color=ACCENT).encode(y=alt.Y("median:Q", scale=scale)),
    ]
    if not size.narrow:
        for (side, below), shown in _placed_labels(rows, trend, ends, limits, size).items():
            labels = alt.Chart(chart_data(shown)).mark_text(
                align="left" if side > 0 else "right",
                dx=_GAP_PX * side,
                dy=below,
                fontSize=12,
                aria=False,
            )
            layers.append(labels.encode(x=x, y=alt.Y("median:Q", scale=scale), text="agent:N"))
    return alt.layer(*layers).properties(width=size.width, height=size.height, title=title)


def interval_chart(
    bars: Mapping[str, Sequence[Bar]], limits: Range, size: Size, *, title: str
) -> Any:
    """Draw horizons with their intervals by agent, the longest at the top.

    Parameters
    ----------
    bars : mapping
        Method to its horizons; the methods of an agent lie below each other.
    """
    methods = list(bars)
    rows = [
        {**row, "method": method, "text": f"{method}: {row['text']}" if method else row["text"]}
        for method, own in bars.items()
        for row in bar_rows(own, limits)
    ]
    base = alt.Chart(chart_data(rows)).encode(
        y=alt.Y(
            "agent:N",
            sort=_longest_first(rows),
            title=None,
            axis=alt.Axis(labelLimit=size.width // 2),
        )
    )
    if len(methods) > 1:
        base = base.encode(
            yOffset=alt.YOffset("method:N", sort=methods),
            color=method_colour(methods, columns=2 if size.narrow else 6),
        )
    layers = interval_layers(base, limits, single=len(methods) == 1)
    step = alt.Step(24 if len(methods) == 1 else max(9, 30 // len(methods)))  # pixels a method
    return alt.layer(*layers).properties(width=size.width, height=step, title=title)


def interval_layers(base: Any, limits: Range, *, single: bool = False) -> list[Any]:
    """Return bars, arrows where a bar goes on beyond the axis, and dots; minutes on the x axis."""
    scale, mark = duration_scale(*limits), {"color": ACCENT} if single else {}
    x = alt.X("low:Q", scale=scale, axis=duration_axis(*limits), title=None)
    return [
        base.mark_rule(strokeWidth=2.5, opacity=0.45, **mark).encode(x=x, x2="high:Q"),
        _cut_mark(base, "low", "triangle-left", **mark).encode(x=alt.X("low:Q", scale=scale)),
        _cut_mark(base, "high", "triangle-right", **mark).encode(x=alt.X("high:Q", scale=scale)),
        _dots(base, size=80 if single else 36, **mark).encode(x=alt.X("median:Q", scale=scale)),
    ]


def method_colour(methods: Sequence[str], *, columns: int = 6, legend: bool = True) -> alt.Color:
    """Give every method one colour in all charts; the baseline is grey."""
    models = [name for name in methods if name != "climatology"]
    colours = {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(models)}
    scale = alt.Scale(domain=list(methods), range=[colours.get(name, MUTED) for name in methods])
    shown = alt.Legend(orient="top", columns=columns) if legend else None
    return alt.Color("method:N", title=None, scale=scale, legend=shown)


def _longest_first(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    medians: dict[str, list[float]] = {}
    for row in rows:
        medians.setdefault(row["agent"], []).append(row["median"])
    return sorted(medians, key=lambda agent: -float(np.median(medians[agent])))


def bar_rows(bars: Sequence[Bar], limits: Range) -> list[dict[str, Any]]:
    """Return those that can be drawn as chart data in seconds, cut at the limits."""

    def seconds(minutes: float) -> float:
        return float(np.clip(minutes, *limits)) * SECONDS_PER_MINUTE

    return [
        {
            "agent": bar.agent,
            "date": _day_milliseconds(bar.date.toordinal()) if bar.date else None,
            "median": seconds(bar.median),
            "low": seconds(bar.low),
            "high": seconds(bar.high),
            "cut_low": bool(bar.low < limits[0]),
            "cut_high": bool(bar.high > limits[1]),
            "text": bar.text,
        }
        for bar in bars
        if bar.is_drawable
    ]


def _day_milliseconds(day: float) -> int:
    return round((day - _EPOCH_DAY) * _DAY_MS)


def _dots(base: Any, *, size: int = 80, **mark: Any) -> Any:
    dots = base.mark_circle(size=size, opacity=1, stroke="white", strokeWidth=1, **mark)
    return dots.encode(description="text:N")


def _cut_mark(base: Any, end: str, shape: str, **mark: Any) -> Any:
    """Draw an arrow where an interval goes on beyond the axis."""
    cut = base.transform_filter(f"datum.cut_{end}")
    return cut.mark_point(shape=shape, filled=True, size=60, opacity=0.7, aria=False, **mark)


def trend_layers(trend: Band, x: Any, scale: Any) -> list[Any]:
    """Draw a trend: its bands, the next agent's dotted, its line, dashed where extrapolated."""
    rows = []
    for i, day in enumerate(trend.days):
        row = {"date": _day_milliseconds(float(day)), "line": _seconds(trend.log2[i])}
        if trend.fan is not None:
            row |= {f"q{k}": _seconds(value) for k, value in enumerate(trend.fan[:, i])}
        if trend.agent is not None:
            row |= {f"agent{k}": _seconds(value) for k, value in enumerate(trend.agent[:, i])}
        rows.append(row)
    base = alt.Chart(chart_data(rows)).encode(x=x)
    layers = []
    if trend.fan is not None:
        for low, high in (("q0", "q3"), ("q1", "q2")):
            band = base.mark_area(color=SECOND, opacity=0.13, clip=True, aria=False)
            layers.append(band.encode(y=alt.Y(f"{low}:Q", scale=scale), y2=f"{high}:Q"))
    if trend.agent is not None:
        edge = base.mark_line(color=SECOND, strokeWidth=1, strokeDash=[2, 3], clip=True, aria=False)
        layers += [edge.encode(y=alt.Y(f"agent{k}:Q", scale=scale)) for k in (0, 1)]
    seen = int((trend.days <= trend.last_day).sum())
    for part, dash in ((rows[:seen], [1, 0]), (rows[max(seen - 1, 0) :], [5, 4])):
        line = alt.Chart(chart_data(part)).mark_line(
            color=SECOND, strokeWidth=2, strokeDash=dash, clip=True, aria=False
        )
        layers.append(line.encode(x=x, y=alt.Y("line:Q", scale=scale)))
    return layers if seen < len(rows) else layers[:-1]


def _seconds(log2_minutes: float) -> float:
    # A log scale has neither zero nor infinity; beyond these nothing is drawn anyway.
    return float(np.exp2(np.clip(log2_minutes, -60, 60))) * SECONDS_PER_MINUTE


def _placed_labels(
    rows: Sequence[dict[str, Any]],
    trend: Band | None,
    ends: Sequence[float],
    limits: Range,
    size: Size,
) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """Choose the names that can stand beside their dots without touching another, and where.

    The longest horizons choose first, where possible a place off the trend's line; names without a
    place are shown on hovering.
    """
    low, high = (np.log(limit * SECONDS_PER_MINUTE) for limit in limits)

    def across(date: float) -> float:
        return float((date - ends[0]) / (ends[1] - ends[0]) * size.width)

    def down(seconds: float) -> float:
        return float((high - np.log(seconds)) / (high - low) * size.height)

    line = []  # left, right, top, bottom of small pieces
    if trend is not None:
        days = np.linspace(trend.days.min(), trend.days.max(), size.width // 4)
        for day, log2 in zip(days, np.interp(days, trend.days, trend.log2), strict=True):
            x, y = across(_day_milliseconds(float(day))), down(_seconds(log2))
            line.append((x - 2, x + 2, y - 2, y + 2))
    # Dots and intervals are in the way from the start.
    taken = [
        (across(r["date"]) - 5, across(r["date"]) + 5, down(r["high"]), down(r["low"]))
        for r in rows
    ]
    shown: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: -row["median"]):
        width = _CHARACTER_PX * len(row["agent"])
        for avoided, (side, below) in product([line, []], _PLACES):
            near = across(row["date"]) + _GAP_PX * side
            left, right = sorted((near, near + width * side))
            middle = down(row["median"]) + below
            top, bottom = middle - _LINE_PX / 2, middle + _LINE_PX / 2
            free = not any(
                left < b and a < right and top < d and c < bottom for a, b, c, d in taken + avoided
            )
            if free and left > 0 and right < size.width + _OUTSIDE_PX:
                taken.append((left, right, top, bottom))
                shown.setdefault((side, below), []).append(row)
                break
    return shown
