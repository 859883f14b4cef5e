"""Charts of trends: fans of every shape, doubling times, and horizons at several success rates."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from tidegauge.arrays import FloatArray
from tidegauge.horizon.trend.comparison import AVERAGED, STACKED, TrendComparison
from tidegauge.horizon.trend.summary import FAN_LEVELS, NEXT_AGENT, TREND
from tidegauge.report.charts import ACCENT, PALETTE, chart_data
from tidegauge.report.durations import (
    CENTURY_MONTHS,
    SECONDS_PER_MINUTE,
    duration_axis,
    duration_scale,
    duration_text,
)
from tidegauge.report.horizon.headline import Band, Range, Size, trend_layers

DAY_MS = 86_400_000
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_BEYOND = 512.0  # times the longest horizon measured: what a fan says further up is cut
_BELOW = 16.0
_MOST_MONTHS = 60.0
WIDE, NARROW = Size(310, 220, columns=3), Size(250, 190, columns=1, narrow=True)


def trend_charts(comparison: TrendComparison) -> dict[str, Any]:
    """Return every chart of a comparison of trends by the name of its file."""
    tables = comparison.tables
    fan, trends, head = tables["trend_fan.csv"], tables["trends.csv"], comparison.headline
    return {
        "trends": fans_chart(fan, tables["agents.csv"], WIDE),
        "doubling": doubling_chart(trends, tables["shapes.csv"], Size(560, 180)),
        "surface": surface_chart(fan[fan["shape"] == head], Size(560, 320)),
        "reliability": reliability_chart(trends[trends["shape"] == head], Size(560, 180)),
    }


def fans_chart(fan: pd.DataFrame, agents: pd.DataFrame, size: Size) -> Any:
    """Draw every shape's fans of T50, with the horizons as they were measured without a trend."""
    own = fan[np.isclose(fan["success"], 0.5) & (fan["kind"] == "marginal")]
    log2, sd = agents["log2_p50"].to_numpy(), agents["log2_p50_sd"].to_numpy()
    limits = float(2 ** log2.min() / _BELOW), float(2 ** log2.max() * _BEYOND)
    dots = [
        {
            "date": milliseconds(day),
            "median": _seconds(log2[i], limits),
            "low": _seconds(log2[i] - 2 * sd[i], limits),
            "high": _seconds(log2[i] + 2 * sd[i], limits),
            "text": f"{agents['agent'].iloc[i]}, {day}: {duration_text(2 ** log2[i])}",
        }
        for i, day in enumerate(agents["release_date"])
    ]
    panels = [
        _fan_panel(own[own["shape"] == shape], dots, limits, size, title=shape)
        for shape in dict.fromkeys(own["shape"])
    ]
    return alt.concat(*panels, columns=size.columns)


def _fan_panel(
    fan: pd.DataFrame, dots: list[dict[str, Any]], limits: Range, size: Size, *, title: str
) -> Any:
    x = _date_axis(fan)
    scale, axis = duration_scale(*limits), duration_axis(*limits)
    base = alt.Chart(chart_data(dots)).encode(x=x)
    layers = [
        *trend_layers(band_of(fan), x, scale),
        base.mark_rule(color=ACCENT, strokeWidth=1.5, opacity=0.4, clip=True, aria=False).encode(
            y=alt.Y("low:Q", scale=scale, axis=axis, title=None), y2="high:Q"
        ),
        base.mark_circle(color=ACCENT, size=36, opacity=1).encode(
            y=alt.Y("median:Q", scale=scale), description="text:N"
        ),
    ]
    return alt.layer(*layers).properties(width=size.width, height=size.height, title=title)


def _date_axis(fan: pd.DataFrame) -> Any:
    days = [milliseconds(day) for day in fan["date"]]
    margin = 0.03 * (max(days) - min(days))
    return alt.X(
        "date:T",
        title=None,
        scale=alt.Scale(type="utc", domain=[min(days) - margin, max(days)], nice=False),
        axis=alt.Axis(grid=False, tickCount=4, labelOverlap="greedy"),
    )


def band_of(fan: pd.DataFrame) -> Band:
    """Return the fans of one horizon, the trend's and the next agent's, as they are drawn."""
    trend, agent = (_log2_fan(fan[fan["of"] == of]) for of in (TREND, NEXT_AGENT))
    own = fan[fan["of"] == TREND]
    days = np.array([datetime.date.fromisoformat(day).toordinal() for day in own["date"]], float)
    seen = ~own["extrapolated"].to_numpy(bool)
    last = float(days[seen].max()) if seen.any() else float(days.min())
    return Band(days, trend[2], trend[[0, 1, 3, 4]], last, agent[[0, 4]])


def _log2_fan(fan: pd.DataFrame) -> FloatArray:
    with np.errstate(divide="ignore"):
        log2: FloatArray = np.log2(fan[[f"q{level:g}" for level in FAN_LEVELS]].to_numpy().T)
    return log2


def surface_chart(fan: pd.DataFrame, size: Size) -> Any:
    """Draw the trend of T(q) over date for every success rate q, with its 50 % band."""
    own = fan[(fan["kind"] == "marginal") & (fan["of"] == TREND)]
    middle = own[own["success"] == 0.5]["q0.5"]
    shortest = own.groupby("success")["q0.5"].min()
    limits = float(max(shortest.min(), 1e-4)) / _BELOW, float(min(middle.max(), 1e9)) * _BELOW
    names = [success_text(rate) for rate in sorted(own["success"].unique())]
    rows: list[dict[str, Any]] = [
        {
            "date": milliseconds(row["date"]),
            "success": success_text(row["success"]),
            "median": _seconds(_log2(row["q0.5"]), limits),
            "low": _seconds(_log2(row["q0.25"]), limits),
            "high": _seconds(_log2(row["q0.75"]), limits),
            "extrapolated": bool(row["extrapolated"]),
        }
        for row in own.to_dict("records")
    ]
    last = max(row["date"] for row in rows if not row["extrapolated"])
    dashed = [{**row, "extrapolated": True} for row in rows if row["date"] == last]
    colour = alt.Color(
        "success:N",
        title="success",
        scale=alt.Scale(domain=names, range=[PALETTE[i % len(PALETTE)] for i in range(len(names))]),
        legend=alt.Legend(orient="top", columns=3 if size.narrow else 8, symbolOpacity=1),
    )
    scale, axis = duration_scale(*limits), duration_axis(*limits)
    base = alt.Chart(chart_data(rows)).encode(x=_date_axis(own), color=colour)
    meeting = alt.Chart(chart_data([*rows, *dashed])).encode(x=_date_axis(own), color=colour)
    y = alt.Y("median:Q", scale=scale, axis=axis, title=None)
    bands = base.mark_area(opacity=0.18, clip=True, aria=False).encode(
        y=alt.Y("low:Q", scale=scale), y2="high:Q"
    )
    lines = meeting.mark_line(strokeWidth=2, clip=True, aria=False).encode(
        y=y, strokeDash=alt.StrokeDash("extrapolated:N", legend=None)
    )
    return alt.layer(bands, lines).properties(width=size.width, height=size.height)


def reliability_chart(trends: pd.DataFrame, size: Size) -> Any:
    """Draw the doubling time of T(q) at the last release, by success rate q."""
    found = trends[trends["quantity"] == "doubling_months"]
    return _months_chart(
        [
            (f"{success_text(row['success'])} success", row["median"], row["low"], row["high"])
            for row in found.to_dict("records")
        ],
        size,
    )


def doubling_chart(trends: pd.DataFrame, shapes: pd.DataFrame, size: Size) -> Any:
    """Draw every shape's doubling time of T50 at the last release, with its two weights."""
    columns = (shapes["shape"], shapes["pseudo_bma"], shapes["weight"])
    weights = {
        shape: f" ({AVERAGED} {first:.2f}, {STACKED} {second:.2f})"
        for shape, first, second in zip(*columns, strict=True)
    }
    own = (trends["quantity"] == "doubling_months") & np.isclose(trends["success"], 0.5)
    return _months_chart(
        [
            (
                row["shape"] + ("" if size.narrow else weights.get(row["shape"], "")),
                *(row[end] for end in ("median", "low", "high")),
            )
            for row in trends[own].to_dict("records")
        ],
        size,
    )


def _months_chart(months: Sequence[tuple[str, float, float, float]], size: Size) -> Any:
    """Draw doubling times with their 95 % intervals, one line a name."""
    rows = [
        {
            "name": name,
            "middle": middle if middle <= _MOST_MONTHS else None,
            "low": min(low, _MOST_MONTHS),
            "high": min(high, _MOST_MONTHS),
            "cut": high > _MOST_MONTHS,
            "text": f"{name}: {months_text((middle, low, high))}",
        }
        for name, middle, low, high in months
    ]
    y = alt.Y(
        "name:N",
        sort=[row["name"] for row in rows],
        title=None,
        axis=alt.Axis(labelLimit=320),
    )
    base = alt.Chart(chart_data(rows)).encode(y=y)
    x = alt.X("low:Q", title="months to double", scale=alt.Scale(domainMin=0))
    bars = base.mark_rule(color=ACCENT, strokeWidth=2.5, opacity=0.45).encode(x=x, x2="high:Q")
    cut = base.transform_filter("datum.cut").mark_point(
        shape="triangle-right", color=ACCENT, filled=True, size=60, opacity=0.7, aria=False
    )
    dots = base.mark_circle(color=ACCENT, size=80, opacity=1).encode(
        x="middle:Q", description="text:N"
    )
    layers = alt.layer(bars, cut.encode(x="high:Q"), dots)
    return layers.properties(width=size.width, height=alt.Step(26))


def success_text(rate: float) -> str:
    """Return a success rate in per cent."""
    return f"{100 * rate:g} %"


def months_text(months: Sequence[float]) -> str:
    """Return a doubling time and the ends of its interval as people say them."""

    def say(value: float) -> str:
        if not np.isfinite(value):
            return "no doubling"
        return f"{value:.1f}" if value <= CENTURY_MONTHS else "over 100 years"

    middle, low, high = months
    if not np.isfinite(middle):
        return f"no doubling in most draws ({say(low)} to {say(high)} months)"
    return f"{say(middle)} months ({say(low)} to {say(high)})"


def milliseconds(day: str) -> int:
    """Return an ISO date as milliseconds since 1970."""
    return (datetime.date.fromisoformat(day).toordinal() - _EPOCH) * DAY_MS


def _log2(minutes: float) -> float:
    with np.errstate(divide="ignore"):
        return float(np.log2(minutes))


def _seconds(log2: float, limits: Range) -> float:
    low, high = np.log2(limits)
    return float(2.0 ** np.clip(log2, low, high)) * SECONDS_PER_MINUTE
