"""Lengths of human work, from milliseconds to work years, as people say them."""

from __future__ import annotations

import math
from typing import Any

import altair as alt

# Seconds, so that the ticks are whole numbers. Work: a week of 40 h, a year of 2,000 h.
TICKS: dict[float, str] = {
    0.001: "1 ms",
    0.01: "10 ms",
    0.1: "0.1 s",
    1: "1 s",
    4: "4 s",
    15: "15 s",
    60: "1 min",
    240: "4 min",
    900: "15 min",
    3600: "1 h",
    14400: "4 h",
    28800: "8 h",
    144000: "1 week",
    600000: "1 month",
    7200000: "1 year",
    72000000: "10 years",
    720000000: "100 years",
    7200000000: "1000 years",
}
_BETWEEN: dict[float, str] = {
    0.003: "3 ms",
    0.03: "30 ms",
    0.3: "0.3 s",
    2: "2 s",
    8: "8 s",
    30: "30 s",
    120: "2 min",
    480: "8 min",
    1800: "30 min",
    7200: "2 h",
    57600: "16 h",
    288000: "2 weeks",
    1800000: "3 months",
    3600000: "6 months",
}
_FEWEST_TICKS = 4
WORK_UNITS = "A week is 40 hours of work, a month 167 and a year 2,000."
SECONDS_PER_MINUTE = 60.0
CENTURY_MONTHS = 1200.0  # a longer doubling time is shown as that


def duration_text(minutes: float) -> str:
    """Return minutes as "45 s", "12 min", "2.4 h"; what no clock shows as a bound."""
    if math.isnan(minutes):
        return "–"
    if math.isinf(minutes):
        return "unbounded"
    seconds = minutes * SECONDS_PER_MINUTE
    if seconds < 0.001:
        return "under 1 ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    if minutes < 59.95:
        return f"{minutes:.3g} min"
    if minutes < 1e6 * 60:
        hours = minutes / 60
        return f"{hours:.3g} h" if hours < 999.5 else f"{hours:,.0f} h"
    return "over a million h"


def duration_scale(low_minutes: float, high_minutes: float) -> alt.Scale:
    """Return a log scale in seconds over a range of minutes."""
    ends = [low_minutes * SECONDS_PER_MINUTE, high_minutes * SECONDS_PER_MINUTE]
    return alt.Scale(type="log", domain=ends, nice=False)


def duration_axis(low_minutes: float, high_minutes: float, **options: Any) -> alt.Axis:
    """Return an axis in seconds whose ticks are lengths people know."""
    low, high = low_minutes * SECONDS_PER_MINUTE, high_minutes * SECONDS_PER_MINUTE
    shown = {tick: label for tick, label in TICKS.items() if low <= tick <= high}
    if len(shown) < _FEWEST_TICKS:
        between = {tick: label for tick, label in _BETWEEN.items() if low <= tick <= high}
        shown = dict(sorted({**shown, **between}.items()))
    names = ", ".join(f"'{tick}': '{label}'" for tick, label in shown.items())
    return alt.Axis(
        values=list(shown),
        labelExpr=f"({{{names}}})[datum.value]",
        labelOverlap="greedy",
        labelSeparation=6,
        **options,
    )
