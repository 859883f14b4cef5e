"""A trend in numbers and tables: doubling time, dates reached, fans. Nothing is ever dropped.

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
from tidegauge.horizon.horizons.estimate import KINDS
from tidegauge.horizon.horizons.quantities import minutes_of
from tidegauge.horizon.trend.draws import LAST_YEAR, WORK_MINUTES, Trend

if TYPE_CHECKING:
    import pandas as pd

RATES = (0.5, 0.8)
FAN_LEVELS = (0.025, 0.25, 0.5, 0.75, 0.975)
EXTRAPOLATED_YEARS = 2.0
TREND, NEXT_AGENT = "trend", "next agent"  # what a fan is of
COLUMNS = ("quantity", "success", "median", "low", "high", "detail")
DATE_COLUMNS = ("work", "minutes", "success", "median", "low", "high", "never_share")
_FAN_DATES = 41


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
    day: CentralInterval
    never: float


@dataclass(frozen=True)
class RateSummary:
    """The trend of T(q) at one success rate q, for a random task of that length.

    Attributes
    ----------
    doubling_months : CentralInterval
        At the last release; infinite where the trend does not rise.
    doublings_per_year : CentralInterval
        The slope at the last release.
    rising : float
        Share of draws whose slope is above zero there.
    minutes, next_minutes : CentralInterval
        At the last release: of the trend itself, and of an agent released then, which is off it
        by the scatter.
    reaches : tuple of Reach
        For every length of WORK_MINUTES.
    """

    success: float
    doubling_months: CentralInterval
    doublings_per_year: CentralInterval
    rising: float
    minutes: CentralInterval
    next_minutes: CentralInterval
    reaches: tuple[Reach, ...]


@dataclass(frozen=True)
class TrendSummary:
    """A trend, or a mixture of several, in numbers.

    Attributes
    ----------
    interval : float
        Share of the draws that every interval holds.
    scatter : CentralInterval
        Of agents around the trend, log2 minutes.
    rates : tuple of RateSummary
        One a success rate.
    """

    shape: str
    interval: float
    n_agents: int
    first_day: float
    last_day: float
    scatter: CentralInterval
    rates: tuple[RateSummary, ...]

    def at(self, success: float) -> RateSummary:
        """Return the trend of T(success)."""
        return next(rate for rate in self.rates if rate.success == success)


def doubling_months(
    trends: Sequence[Trend],
    weights: Sequence[float] = (1.0,),
    *,
    success: float = 0.5,
    interval: float = 0.95,
) -> CentralInterval:
    """Return the doubling time at the last release; infinite where the trend does not rise."""
    slope = _last_slopes(trends, success)
    months = np.divide(12, slope, out=np.full(slope.size, np.inf), where=slope > 0)
    return _central(months, _draw_weights(trends, weights), interval)


def summarise_trend(
    trends: Sequence[Trend],
    weights: Sequence[float] = (1.0,),
    *,
    rates: Sequence[float] = RATES,
    interval: float = 0.95,
    name: str | None = None,
) -> TrendSummary:
    """Summarise a trend, or a mixture of several over the same agents by their weights."""
    first, share = trends[0], _draw_weights(trends, weights)
    return TrendSummary(
        shape=name or first.shape,
        interval=interval,
        n_agents=first.n_agents,
        first_day=first.first_day,
        last_day=first.last_day,
        scatter=_central(np.concatenate([one.scatter for one in trends]), share, interval),
        rates=tuple(_at_rate(trends, weights, rate, interval) for rate in rates),
    )


def _at_rate(
    trends: Sequence[Trend], weights: Sequence[float], success: float, interval: float
) -> RateSummary:
    share, last = _draw_weights(trends, weights), np.array([trends[0].last_day])
    slope = _last_slopes(trends, success)
    days = np.concatenate([one.days_reached(success) for one in trends])
    reaches = [
        Reach(
            name=name,
            minutes=minutes,
            day=_central(column, share, interval),
            never=float(share[np.isposinf(column)].sum()),
        )
        for (name, minutes), column in zip(WORK_MINUTES.items(), days.T, strict=True)
    ]

    def minutes_at_last(*, next_agent: bool) -> CentralInterval:
        log2 = [one.log2(last, success=success, next_agent=next_agent)[:, 0] for one in trends]
        return _central(minutes_of(np.concatenate(log2)), share, interval)

    return RateSummary(
        success=success,
        doubling_months=doubling_months(trends, weights, success=success, interval=interval),
        doublings_per_year=_central(slope, share, interval),
        rising=float(share[slope > 0].sum()),
        minutes=minutes_at_last(next_agent=False),
        next_minutes=minutes_at_last(next_agent=True),
        reaches=tuple(reaches),
    )


@dataclass(frozen=True)
class Fan:
    """Quantiles FAN_LEVELS, `log2` of shape (level, day), at ordinal `days`.

    `of` is TREND for the trend itself, NEXT_AGENT for an agent released then.
    """

    days: FloatArray
    log2: FloatArray
    success: float
    kind: str
    of: str
    last_day: float


def trend_fan(
    trends: Sequence[Trend],
    weights: Sequence[float] = (1.0,),
    *,
    success: float = 0.5,
    kind: str = "marginal",
    of: str = TREND,
    beyond_years: float = EXTRAPOLATED_YEARS,
) -> Fan:
    """Return the fan from the first release to some years beyond the last."""
    first, share = trends[0], _draw_weights(trends, weights)
    end = first.last_day + beyond_years * DAYS_PER_YEAR
    days = np.unique(np.append(np.linspace(first.first_day, end, _FAN_DATES), first.last_day))
    drawn = [
        one.log2(days, success=success, kind=kind, next_agent=of == NEXT_AGENT) for one in trends
    ]
    log2 = weighted_order_statistics(np.concatenate(drawn), FAN_LEVELS, share)
    return Fan(days, log2, success, kind, of, first.last_day)


def weighted_order_statistics(
    values: FloatArray, levels: Sequence[float], weights: FloatArray
) -> FloatArray:
    """Return quantiles over the first axis; infinite values are values like others."""
    found: FloatArray = np.quantile(
        values, np.array(levels), axis=0, weights=weights, method="inverted_cdf"
    )
    return found


def trend_files(
    summary: TrendSummary, trends: Sequence[Trend], weights: Sequence[float] = (1.0,)
) -> dict[str, pd.DataFrame]:
    """Return ``trend.csv``, ``trend_dates.csv`` and ``trend_fan.csv`` of a trend or a mixture."""
    fans = [
        trend_fan(trends, weights, success=rate.success, kind=kind, of=of)
        for rate in summary.rates
        for kind in KINDS
        for of in (TREND, NEXT_AGENT)
    ]
    return {
        "trend.csv": trend_table(summary),
        "trend_dates.csv": dates_table(summary),
        "trend_fan.csv": fan_table(fans),
    }


def trend_table(summary: TrendSummary) -> pd.DataFrame:
    """Return one row a quantity and success rate: its median, its interval, and what it is.

    Months may be infinite (no doubling); a share has no interval.
    """
    import pandas as pd

    return pd.DataFrame(list(_rows(summary)), columns=list(COLUMNS))


def _rows(summary: TrendSummary) -> Iterator[tuple[object, ...]]:
    share = f"{summary.interval:.0%} interval"
    last = day_text(summary.last_day, summary.first_day)
    nothing = float("nan")
    for rate in summary.rates:
        q = rate.success
        at = (
            f"{summary.shape} trend of {summary.n_agents} agents, at the last release ({last}), "
            f"{100 * q:g} % success"
        )
        yield ("doubling_months", q, *rate.doubling_months, f"{at}; {share}")
        yield ("doublings_per_year", q, *rate.doublings_per_year, f"{at}; {share}")
        yield ("rising_share", q, rate.rising, nothing, nothing, f"share of draws that rise: {at}")
        yield ("trend_minutes", q, *rate.minutes, f"horizon of the trend itself: {at}; {share}")
        detail = f"horizon of an agent released then, which scatters around the {at}; {share}"
        yield ("next_agent_minutes", q, *rate.next_minutes, detail)
    detail = f"standard deviation of agents around the trend, log2 minutes; {share}"
    yield ("scatter_log2", 0.5, *summary.scatter, detail)


def dates_table(summary: TrendSummary) -> pd.DataFrame:
    """Return when the trend reaches each of WORK_MINUTES, one row a length and success rate.

    Days are ISO dates, ``before ...`` the first release or ``never by 2100``.
    """
    import pandas as pd

    rows = [
        (
            *(reach.name, reach.minutes, rate.success),
            *(day_text(end, summary.first_day) for end in reach.day),
            reach.never,
        )
        for rate in summary.rates
        for reach in rate.reaches
    ]
    return pd.DataFrame(rows, columns=list(DATE_COLUMNS))


def day_text(day: float, first_day: float) -> str:
    """Return an ordinal day as an ISO date, or as what is known of it."""
    if math.isinf(day):
        first = datetime.date.fromordinal(round(first_day))
        return f"never by {LAST_YEAR}" if day > 0 else f"before {first.isoformat()}"
    return datetime.date.fromordinal(round(day)).isoformat()


def fan_table(fans: Sequence[Fan]) -> pd.DataFrame:
    """Return the fans in minutes, one row a date of each."""
    import pandas as pd

    tables = []
    for fan in fans:
        minutes = minutes_of(fan.log2)
        days = [datetime.date.fromordinal(round(day)).isoformat() for day in fan.days]
        columns = {f"q{level:g}": row for level, row in zip(FAN_LEVELS, minutes, strict=True)}
        head = {
            "date": days,
            "success": fan.success,
            "kind": fan.kind,
            "of": fan.of,
            "extrapolated": fan.days > fan.last_day,
        }
        tables.append(pd.DataFrame({**head, **columns}))
    return pd.concat(tables, ignore_index=True)


def _central(values: FloatArray, share: FloatArray, interval: float) -> CentralInterval:
    levels = (0.5, 0.5 - interval / 2, 0.5 + interval / 2)
    return CentralInterval(
        *(float(end) for end in weighted_order_statistics(values, levels, share))
    )


def _last_slopes(trends: Sequence[Trend], success: float) -> FloatArray:
    return np.concatenate([one.slope(one.last_day, success=success) for one in trends])


def _draw_weights(trends: Sequence[Trend], weights: Sequence[float]) -> FloatArray:
    """Give every draw its share: a shape's weight, spread over its draws."""
    pairs = zip(trends, weights, strict=True)
    parts = [np.full(trend.scatter.size, weight / trend.scatter.size) for trend, weight in pairs]
    shares: FloatArray = np.concatenate(parts) / float(sum(weights))
    return shares
