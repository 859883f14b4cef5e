"""Shapes of the trend of log2 horizons over release date, and draws of one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from tidegauge.arrays import FloatArray
from tidegauge.errors import InputError
from tidegauge.horizon.data.agents import DAYS_PER_YEAR
from tidegauge.horizon.model.options import HINGE_YEARS
from tidegauge.horizon.model.parameters import TREND_TERMS

if TYPE_CHECKING:
    from tidegauge.horizon.result import HorizonFit

Coefficients = Mapping[str, FloatArray]

COEFFICIENTS: Mapping[str, tuple[str, ...]] = {
    shape: ("trend_level", *terms) for shape, terms in TREND_TERMS.items() if terms
}
SHAPES = tuple(COEFFICIENTS)


def trend_value(shape: str, coefficients: Coefficients, years: FloatArray) -> FloatArray:
    """Return the trend in log2 minutes, shape (..., year), from coefficients of shape (...).

    Parameters
    ----------
    shape : str
        One of SHAPES.
    years : ndarray, shape (year,)
        Years from the mean date of the design.
    """
    c = {name: np.asarray(coefficients[name])[..., None] for name in COEFFICIENTS[shape]}
    level, rate = c["trend_level"], c["trend_rate"]
    found: FloatArray
    if shape == "logistic":
        height = np.exp(c["trend_log_height"])
        steepness = 4 * rate / height
        rise = expit(steepness * (years - c["trend_middle"]))
        found = level + height * (rise - expit(-steepness * c["trend_middle"]))
        return found
    found = level + rate * years
    if shape == "quadratic":
        found = found + 0.5 * c["trend_bend"] * years**2
    elif shape == "kink":
        found = found + c["trend_change"] * hinge(years - c["trend_kink"])
    return found


def trend_slope(shape: str, coefficients: Coefficients, years: FloatArray) -> FloatArray:
    """Return the derivative of `trend_value`: doublings a year."""
    c = {name: np.asarray(coefficients[name])[..., None] for name in COEFFICIENTS[shape]}
    slope: FloatArray = c["trend_rate"] + 0.0 * years
    if shape == "quadratic":
        slope = slope + c["trend_bend"] * years
    elif shape == "kink":
        slope = slope + c["trend_change"] * expit((years - c["trend_kink"]) / HINGE_YEARS)
    elif shape == "logistic":
        steepness = 4 * c["trend_rate"] / np.exp(c["trend_log_height"])
        done = expit(steepness * (years - c["trend_middle"]))
        slope = slope * 4 * done * (1 - done)
    return slope


def hinge(years: FloatArray) -> FloatArray:
    """Return max(years, 0) with its corner rounded over HINGE_YEARS."""
    found: FloatArray = HINGE_YEARS * np.logaddexp(0, years / HINGE_YEARS)
    return found


@dataclass(frozen=True)
class Trend:
    """Draws of one shape of trend.

    Attributes
    ----------
    coefficients : mapping
        Of COEFFICIENTS, each of shape (draw,).
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
    if shape not in COEFFICIENTS or not dated.any():
        raise InputError("no trend was fitted; name one (--trend linear) and give --release-dates")
    days = design.origin_day + DAYS_PER_YEAR * design.agent_years[dated]
    steepness = np.median(-point.beta.reshape(-1, len(design.agents))[:, dated], axis=1)
    with np.errstate(divide="ignore"):
        gap80 = _logit(0.8) / steepness
    names = (*COEFFICIENTS[shape], "sigma_horizon")
    draws = {name: getattr(point, name).ravel() for name in names}
    return Trend(
        shape=shape,
        coefficients={name: draws[name] for name in COEFFICIENTS[shape]},
        scatter=draws["sigma_horizon"],
        log2_gap80=gap80,
        origin_day=design.origin_day,
        first_day=float(days.min()),
        last_day=float(days.max()),
        n_agents=int(dated.sum()),
    )


def _logit(share: float) -> float:
    return math.log(share) - math.log1p(-share)
