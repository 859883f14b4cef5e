"""Draws of a trend of log2 horizons over release date."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.errors import InputError
from tidegauge.horizon.data.agents import DAYS_PER_YEAR
from tidegauge.horizon.model.trend_shapes import SHAPES, TREND_SHAPES, trend_slope, trend_value

if TYPE_CHECKING:
    from tidegauge.horizon.result import HorizonFit

Coefficients = Mapping[str, FloatArray]


@dataclass(frozen=True)
class Trend:
    """Draws of one shape of trend.

    Attributes
    ----------
    coefficients : mapping
        Of the shape, each of shape (draw,).
    scatter : ndarray, shape (draw,)
        Standard deviation of agents around the trend, log2 minutes (sigma_horizon).
    log2_gap80 : ndarray, shape (draw,)
        Log2 minutes from the 50 % down to the 80 % horizon of an agent with the typical slope:
        the median slope of the dated agents, in each draw.
    origin_day : float
        Ordinal day of year zero.
    first_day, last_day : float
        Ordinal days of the first and the last dated release.
    n_agents : int
        Agents in the trend.
    """

    shape: str
    coefficients: Coefficients
    scatter: FloatArray
    log2_gap80: FloatArray
    origin_day: float
    first_day: float
    last_day: float
    n_agents: int

    def log2(self, days: FloatArray, *, success: float = 0.5) -> FloatArray:
        """Return the horizon in log2 minutes, shape (draw, day), at ordinal days."""
        value = trend_value(self.shape, self.coefficients, self._years(days))
        return value - self.gap(success)[:, None]

    def slope(self, days: FloatArray) -> FloatArray:
        """Return doublings a year, shape (draw, day); the same for every success rate."""
        return trend_slope(self.shape, self.coefficients, self._years(days))

    def gap(self, success: float) -> FloatArray:
        """Return how far below the 50 % horizon that of another success rate is, log2 minutes."""
        if success == 0.5:  # also where a flat curve has an infinite gap
            return np.zeros_like(self.log2_gap80)
        gap: FloatArray = self.log2_gap80 * (_logit(success) / _logit(0.8))
        return gap

    def _years(self, days: FloatArray) -> FloatArray:
        return (np.asarray(days, dtype=float) - self.origin_day) / DAYS_PER_YEAR


def trend_of_fit(fit: HorizonFit) -> Trend:
    """Take the trend out of a fit that has one.

    Raises
    ------
    InputError
        The fit has no trend, or no agent has a date.
    """
    design, point, shape = fit.design, fit.point, fit.options.trend
    dated = np.isfinite(design.agent_years) if design.agent_years.size else np.zeros(0, dtype=bool)
    if shape not in SHAPES or not dated.any():
        raise InputError("no trend was fitted; name one (--trend linear) and give --release-dates")
    days = design.origin_day + DAYS_PER_YEAR * design.agent_years[dated]
    steepness = np.median(-point.beta.reshape(-1, len(design.agents))[:, dated], axis=1)
    with np.errstate(divide="ignore"):
        gap80 = _logit(0.8) / steepness
    names = (*TREND_SHAPES[shape].coefficients, "sigma_horizon")
    draws = {name: getattr(point, name).ravel() for name in names}
    return Trend(
        shape=shape,
        coefficients={name: draws[name] for name in TREND_SHAPES[shape].coefficients},
        scatter=draws["sigma_horizon"],
        log2_gap80=gap80,
        origin_day=design.origin_day,
        first_day=float(days.min()),
        last_day=float(days.max()),
        n_agents=int(dated.sum()),
    )


def _logit(share: float) -> float:
    return math.log(share) - math.log1p(-share)
