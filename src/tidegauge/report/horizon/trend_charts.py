"""Charts of trends: fans of every shape, and their doubling times side by side."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from tidegauge.horizon.trend.comparison import TrendComparison, trend_outputs
from tidegauge.horizon.trend.summary import FAN_LEVELS
from tidegauge.report.charts import ACCENT, chart_data
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
    tables = trend_outputs(comparison)
    fan, agents = tables["trend_fan.csv"], tables["agents.csv"]
    return {
        "trends": fans_chart(fan, agents, WIDE),
        "doubling": doubling_chart(tables["trends.csv"], tables["shapes.csv"], Size(560, 180)),
    }


def fans_chart(fan: pd.DataFrame, agents: pd.DataFrame, size: Size, success: float = 0.5) -> Any:
    """Draw every shape's fan by itself, with the horizons as they were measured without one."""
    own = fan[np.isclose(fan["success"].astype(float), success)]
    log2, sd = agents["log2_p50"].to_numpy(float), agents["log2_p50_sd"].to_numpy(float)
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
    days = [milliseconds(day) for day in fan["date"]]
    margin = 0.03 * (max(days) - min(days))
    x = alt.X(
        "date:T",
        title=None,
        scale=alt.Scale(type="utc", domain=[min(days) - margin, max(days)], nice=False),
        axis=alt.Axis(grid=False, tickCount=4, labelOverlap="greedy"),
    )
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


def band_of(fan: pd.DataFrame, *, shift_log2: float = 0.0) -> Band:
    """Return a fan's rows (date, extrapolated, q0.025 to q0.975 in minutes) as it is drawn."""
    days = np.array([datetime.date.fromisoformat(day).toordinal() for day in fan["date"]], float)
    seen = ~fan["extrapolated"].astype(str).str.lower().eq("true").to_numpy()
    with np.errstate(divide="ignore"):
        log2 = np.log2(fan[[f"q{level:g}" for level in FAN_LEVELS]].to_numpy(float).T) + shift_log2
    last = float(days[seen].max()) if seen.any() else float(days.min())
    return Band(days, log2[2], log2[[0, 1, 3, 4]], last)


def doubling_chart(trends: pd.DataFrame, shapes: pd.DataFrame, size: Size) -> Any:
    """Draw every shape's doubling time at the last release, with its 95 % interval and weight."""
    weights = dict(zip(shapes["shape"], shapes["weight"].astype(float), strict=True))
    found = trends[trends["quantity"] == "doubling_months"]
    rows = []
    for row in found.to_dict("records"):
        middle, low, high = (float(row[name]) for name in ("median", "low", "high"))
        weight = f" (weight {weights[row['shape']]:.2f})" if row["shape"] in weights else ""
        rows.append(
            {
                "shape": f"{row['shape']}{weight}",
                "middle": middle if middle <= _MOST_MONTHS else None,
                "low": min(low, _MOST_MONTHS),
                "high": min(high, _MOST_MONTHS),
                "cut": high > _MOST_MONTHS,
                "text": f"{row['shape']}: {months_text((middle, low, high))}",
            }
        )
    y = alt.Y(
        "shape:N",
        sort=[row["shape"] for row in rows],
        title=None,
        axis=alt.Axis(labelLimit=200),
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


def _seconds(log2: float, limits: Range) -> float:
    return float(np.clip(2.0**log2, *limits)) * SECONDS_PER_MINUTE
