"""What a trend says as tables: doubling time and dates, and its fan."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.horizon.trend.summary import (
    FAN_LEVELS,
    LAST_YEAR,
    RATES,
    Estimate,
    Fan,
    TrendSummary,
    summarise_trend,
    trend_fan,
)

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.horizon.trend.draws import Trend

COLUMNS = ("quantity", "median", "low", "high", "detail")


def trend_files(
    trends: Sequence[Trend], weights: Sequence[float] = (1.0,)
) -> dict[str, pd.DataFrame]:
    """Return ``trend.csv`` and ``trend_fan.csv`` of a trend, or of several stacked."""
    summary = summarise_trend(trends, weights)
    fans = [trend_fan(trends, weights, success=success) for success in RATES]
    return {"trend.csv": trend_table(summary), "trend_fan.csv": fan_table(fans)}


def trend_table(summary: TrendSummary) -> pd.DataFrame:
    """Return one row a quantity: its median, its interval, and what it is; all of them texts.

    Months may be ``inf`` (no doubling); days are ISO dates, ``before ...`` the first release or
    ``never by 2100``.
    """
    import pandas as pd

    return pd.DataFrame(list(_rows(summary)), columns=list(COLUMNS))


def _rows(summary: TrendSummary) -> Iterator[tuple[str, ...]]:
    share = f"{summary.interval:.0%} interval"
    last = day_text(summary.last_day, summary)
    at = f"{summary.shape} trend of {summary.n_agents} agents, at the last release ({last})"
    yield ("doubling_months", *_numbers(summary.doubling_months), f"{at}; {share}")
    yield ("doublings_per_year", *_numbers(summary.doublings_per_year), f"{at}; {share}")
    yield ("rising_share", f"{summary.rising:.6g}", "", "", "share of draws that rise there")
    scatter = "standard deviation of agents around the trend, log2 minutes"
    yield ("scatter_log2", *_numbers(summary.scatter), f"{scatter}; {share}")
    for reach in summary.reaches:
        name = f"{reach.name.replace(' ', '_')}_p{reach.success * 100:.0f}"
        what = f"{reach.name} ({reach.minutes / 60:,.0f} h) at {reach.success:.0%} success"
        days = (day_text(end, summary) for end in reach.day)
        yield (f"date_{name}", *days, f"first day the trend reaches {what}; {share}")
        detail = f"share of draws that do not reach {what} by {LAST_YEAR}"
        yield (f"never_{name}", f"{reach.never:.6g}", "", "", detail)


def _numbers(estimate: Estimate) -> Iterator[str]:
    return (f"{value:.6g}" for value in estimate)


def day_text(day: float, summary: TrendSummary) -> str:
    """Return an ordinal day as an ISO date, or as what is known of it."""
    if math.isinf(day):
        first = datetime.date.fromordinal(round(summary.first_day))
        return f"never by {LAST_YEAR}" if day > 0 else f"before {first.isoformat()}"
    return datetime.date.fromordinal(round(day)).isoformat()


def fan_table(fans: Sequence[Fan]) -> pd.DataFrame:
    """Return the fans in minutes, one row a date and success rate."""
    import pandas as pd

    tables = []
    for fan in fans:
        with np.errstate(over="ignore", under="ignore"):
            minutes = np.exp2(fan.log2)
        days = [datetime.date.fromordinal(round(day)).isoformat() for day in fan.days]
        columns = {f"q{level:g}": row for level, row in zip(FAN_LEVELS, minutes, strict=True)}
        head = {"date": days, "success": fan.success, "extrapolated": fan.days > fan.last_day}
        tables.append(pd.DataFrame({**head, **columns}))
    return pd.concat(tables, ignore_index=True)
