"""A trend in numbers and tables: doubling time, dates reached, fan. Nothing is ever dropped.

A draw whose trend does not rise has an infinite doubling time, one that does not reach a length by
LAST_YEAR reaches it never; both stay in every median and interval.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.horizon.data.agents import DAYS_PER_YEAR
from tidegauge.horizon.model.trend_shapes import trend_value
from tidegauge.horizon.trend.draws import Trend

if TYPE_CHECKING:
    import pandas as pd

# Human work in minutes: a day of 8 h, a week of 40 h, a month of 167 h, a year of 2,000 h.
WORK_MINUTES = {
    "1 work day": 480.0,
    "1 work week": 2400.0,
    "1 work month": 10020.0,
    "1 work year": 120000.0,
}
RATES = (0.5, 0.8)
LAST_YEAR = 2100
FAN_LEVELS = (0.025, 0.25, 0.5, 0.75, 0.975)
EXTRAPOLATED_YEARS = 2.0
COLUMNS = ("quantity", "median", "low", "high", "detail")
_FAN_DATES = 61
_STEP_DAYS = DAYS_PER_YEAR / 24
_DRAWS_AT_ONCE = 500
_LAST_DAY = float(datetime.date(LAST_YEAR, 1, 1).toordinal())


class CentralInterval(NamedTuple):
    """A median and the ends of a central interval."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Reach:
    """When the trend reaches a length of human work.

    `day` is an ordinal day, minus infinity for draws already there at the first release and
    infinity for those that do not get there by LAST_YEAR; `never` is the share of the latter.
    """

    name: str
    minutes: float
    success: float
    day: CentralInterval
    never: float


@dataclass(frozen=True)
class TrendSummary:
    """A trend, or a mixture of several, in numbers.

    Attributes
    ----------
    interval : float
        Share of the draws that every interval holds.
    doubling_months : CentralInterval
        At `last_day`; infinite where the trend does not rise.
    doublings_per_year : CentralInterval
        The slope at `last_day`.
    rising : float
        Share of draws whose slope at `last_day` is above zero.
    scatter : CentralInterval
        Of agents around the trend, log2 minutes.
    reaches : tuple of Reach
        For every length of WORK_MINUTES at every rate of RATES.
    """

    shape: str
    interval: float
    n_agents: int
    first_day: float
    last_day: float
    doubling_months: CentralInterval
    doublings_per_year: CentralInterval
    rising: float
    scatter: CentralInterval
    reaches: tuple[Reach, ...]


def doubling_months(
    trends: Sequence[Trend], weights: Sequence[float] = (1.0,), *, interval: float = 0.95
) -> CentralInterval:
    """Return the doubling time at the last release; infinite where the trend does not rise."""
    slope = _last_slopes(trends)
    months = np.divide(12, slope, out=np.full(slope.size, np.inf), where=slope > 0)
    return _central(months, _draw_weights(trends, weights), interval)


def summarise_trend(
    trends: Sequence[Trend], weights: Sequence[float] = (1.0,), *, interval: float = 0.95
) -> TrendSummary:
    """Summarise a trend, or a mixture of several over the same agents by their weights."""
    first, share = trends[0], _draw_weights(trends, weights)
    slope = _last_slopes(trends)
    reaches = []
    for success in RATES:
        days = np.concatenate([_days_reached(one, success) for one in trends])
        for (name, minutes), column in zip(WORK_MINUTES.items(), days.T, strict=True):
            never = float(share[np.isposinf(column)].sum())
            reaches.append(Reach(name, minutes, success, _central(column, share, interval), never))
    return TrendSummary(
        shape=first.shape if len(trends) == 1 else "stacked",
        interval=interval,
        n_agents=first.n_agents,
        first_day=first.first_day,
        last_day=first.last_day,
        doubling_months=doubling_months(trends, weights, interval=interval),
        doublings_per_year=_central(slope, share, interval),
        rising=float(share[slope > 0].sum()),
        scatter=_central(np.concatenate([one.scatter for one in trends]), share, interval),
        reaches=tuple(reaches),
    )


@dataclass(frozen=True)
class Fan:
    """Quantiles FAN_LEVELS of a trend, `log2` of shape (level, day), at ordinal `days`."""

    days: FloatArray
    log2: FloatArray
    success: float
    last_day: float


def trend_fan(
    trends: Sequence[Trend],
    weights: Sequence[float] = (1.0,),
    *,
    success: float = 0.5,
    beyond_years: float = EXTRAPOLATED_YEARS,
) -> Fan:
    """Return the fan from the first release to some years beyond the last: of the trend itself.

    How agents scatter around the trend is not in it.
    """
    first, share = trends[0], _draw_weights(trends, weights)
    end = first.last_day + beyond_years * DAYS_PER_YEAR
    days = np.unique(np.append(np.linspace(first.first_day, end, _FAN_DATES), first.last_day))
    log2 = np.concatenate([one.log2(days, success=success) for one in trends])
    return Fan(days, weighted_order_statistics(log2, FAN_LEVELS, share), success, first.last_day)


def weighted_order_statistics(
    values: FloatArray, levels: Sequence[float], weights: FloatArray
) -> FloatArray:
    """Return quantiles over the first axis; infinite values are values like others."""
    found: FloatArray = np.quantile(
        values, np.array(levels), axis=0, weights=weights, method="inverted_cdf"
    )
    return found


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


def _numbers(interval: CentralInterval) -> Iterator[str]:
    return (f"{value:.6g}" for value in interval)


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


def _central(values: FloatArray, share: FloatArray, interval: float) -> CentralInterval:
    levels = (0.5, 0.5 - interval / 2, 0.5 + interval / 2)
    return CentralInterval(
        *(float(end) for end in weighted_order_statistics(values, levels, share))
    )


def _last_slopes(trends: Sequence[Trend]) -> FloatArray:
    return np.concatenate([one.slope(np.array([one.last_day]))[:, 0] for one in trends])


def _draw_weights(trends: Sequence[Trend], weights: Sequence[float]) -> FloatArray:
    """Give every draw its share: a shape's weight, spread over its draws."""
    pairs = zip(trends, weights, strict=True)
    parts = [np.full(trend.scatter.size, weight / trend.scatter.size) for trend, weight in pairs]
    shares: FloatArray = np.concatenate(parts) / float(sum(weights))
    return shares


def _days_reached(trend: Trend, success: float) -> FloatArray:
    """Return the ordinal day, shape (draw, length), of first reaching each of WORK_MINUTES."""
    grid = np.append(np.arange(trend.first_day, _LAST_DAY, _STEP_DAYS), _LAST_DAY)
    targets = np.log2(list(WORK_MINUTES.values()))
    found = np.empty((trend.scatter.size, targets.size))
    for start in range(0, trend.scatter.size, _DRAWS_AT_ONCE):
        part = slice(start, start + _DRAWS_AT_ONCE)
        chosen = {name: values[part] for name, values in trend.coefficients.items()}
        years = (grid - trend.origin_day) / DAYS_PER_YEAR
        value = trend_value(trend.shape, chosen, years) - trend.gap(success)[part, None]
        found[part] = np.stack([_first_crossing(value, grid, one) for one in targets], axis=1)
    return found


def _first_crossing(value: FloatArray, grid: FloatArray, target: float) -> FloatArray:
    """Return where each row first reaches the target, straight between the points of the grid."""
    above = value >= target
    at, row = above.argmax(axis=1), np.arange(len(value))
    before = np.maximum(at - 1, 0)
    low, high = value[row, before], value[row, at]
    with np.errstate(invalid="ignore"):  # a row that is nowhere finite never gets there
        part = (target - low) / np.where(high > low, high - low, 1.0)
        inside = grid[before] + (grid[at] - grid[before]) * part
    day: FloatArray = np.where(at == 0, -np.inf, inside)
    return np.where(above.any(axis=1), day, np.inf)
