"""A straight line through horizons over release dates: a description, not the joint trend model."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.horizon.data.agents import DAYS_PER_YEAR

LEVELS = (0.025, 0.25, 0.75, 0.975)
_FEWEST_AGENTS = 3
_GRID = 41


@dataclass(frozen=True)
class Trendline:
    """Least squares of log2 horizons on release date.

    Attributes
    ----------
    days : ndarray, shape (grid,)
        Ordinal days from the first release to the last.
    log2 : ndarray, shape (grid,)
        The line through the medians, log2 minutes.
    fan : ndarray, shape (4, grid), or None
        Quantiles LEVELS of the lines through the posterior draws, one line a draw.
    doubling_months : float
        Of the line through the medians; infinite if flat, negative if it falls.
    fastest_months, slowest_months : float or None
        95 % of the draws' doubling times; the slowest is infinite where the slope may be zero.
    rising_share : float or None
        Share of draws whose line rises.
    n_agents : int
        Agents with a date.
    """

    days: FloatArray
    log2: FloatArray
    fan: FloatArray | None
    doubling_months: float
    fastest_months: float | None
    slowest_months: float | None
    rising_share: float | None
    n_agents: int

    @property
    def ends_log2(self) -> tuple[float, float]:
        """The lowest and the highest that the line, or its fan, reaches."""
        drawn = self.log2 if self.fan is None else self.fan
        return float(drawn.min()), float(drawn.max())


def fit_trendline(
    dates: Sequence[datetime.date | None],
    log2_medians: FloatArray,
    log2_draws: FloatArray | None = None,
    *,
    limits_log2: tuple[float, float],
) -> Trendline | None:
    """Regress medians, and each draw (draw, agent) by itself, on release date.

    Agents without a date or without a horizon are left out; None if fewer than three or all of
    one day are left.
    Horizons outside `limits_log2` count as the limit: such values are pure extrapolation and would
    dominate the regression.
    """
    day_of = np.array([np.nan if day is None else day.toordinal() for day in dates])
    dated = ~np.isnan(day_of) & ~np.isnan(log2_medians)
    days = day_of[dated]
    if days.size < _FEWEST_AGENTS or np.ptp(days) == 0:
        return None
    years = days / DAYS_PER_YEAR
    centred = years - years.mean()
    weights = centred / (centred @ centred)
    grid_days = np.linspace(days.min(), days.max(), _GRID)
    grid = grid_days / DAYS_PER_YEAR - years.mean()
    medians = np.clip(log2_medians[dated], *limits_log2)
    slope = float(medians @ weights)
    fan = fastest = slowest = rising = None
    if log2_draws is not None:
        draws = np.clip(log2_draws[:, dated], *limits_log2)
        slopes = draws @ weights
        lines = draws.mean(axis=1)[:, None] + slopes[:, None] * grid
        fan = np.quantile(lines, LEVELS, axis=0)
        low, high = np.quantile(slopes, [0.025, 0.975])
        fastest, slowest = _months(float(max(high, 0))), _months(float(max(low, 0)))
        rising = float(np.mean(slopes > 0))
    return Trendline(
        days=grid_days,
        log2=medians.mean() + slope * grid,
        fan=fan,
        doubling_months=_months(slope),
        fastest_months=fastest,
        slowest_months=slowest,
        rising_share=rising,
        n_agents=int(dated.sum()),
    )


def _months(doublings_per_year: float) -> float:
    return 12 / doublings_per_year if doublings_per_year else float("inf")
