"""Draws of a trend over release date: of log2 T50, and with it of T(q) at any success rate."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from tidegauge.arrays import FloatArray
from tidegauge.errors import InputError
from tidegauge.horizon.data.agents import DAYS_PER_YEAR
from tidegauge.horizon.model.trend_shapes import SHAPES, TREND_SHAPES, trend_slope, trend_value
from tidegauge.horizon.trend.measured import dated_agents
from tidegauge.horizon.trend.steepness import Steepness, steepness_of_fit

if TYPE_CHECKING:
    from tidegauge.horizon.result import HorizonFit

Coefficients = Mapping[str, FloatArray]

LAST_YEAR = 2100  # what a trend does not reach by then it is said never to reach
LAST_DAY = float(datetime.date(LAST_YEAR, 1, 1).toordinal())
_EVERY = slice(None)
_STEP_YEARS = 0.05


@dataclass(frozen=True, eq=False)
class Trend:
    """Draws of one shape of trend.

    Attributes
    ----------
    coefficients : mapping
        Of the shape, each of shape (draw,).
    scatter : ndarray, shape (draw,)
        Standard deviation of agents around the trend, log2 minutes (sigma_horizon).
    steepness : Steepness
        Of the agents' success curves over date, in the same draws.
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
    steepness: Steepness
    origin_day: float
    first_day: float
    last_day: float
    n_agents: int
    _gaps: dict[tuple[float, str, bool], FloatArray] = field(default_factory=dict, repr=False)

    def log2(
        self,
        days: FloatArray,
        *,
        success: float = 0.5,
        kind: str = "marginal",
        next_agent: bool = False,
        draws: slice = _EVERY,
    ) -> FloatArray:
        """Return the horizon in log2 minutes, shape (draw, day), at ordinal days.

        Parameters
        ----------
        kind : str
            ``marginal`` is for a random task of that length, ``typical`` for one without residual.
        next_agent : bool
            Of an agent released then, off the trend by the scatter of horizons and slopes, rather
            than of the trend itself.
        draws : slice
            Only these draws.
        """
        chosen = {name: values[draws] for name, values in self.coefficients.items()}
        value = trend_value(self.shape, chosen, self._years(days))
        if next_agent:
            value = value + (self.scatter * _even_normals(self.scatter.size, 1))[draws, None]
        # The gap changes slowly with date and is costly to invert: a few dates tell it.
        knots = self._knots()
        between = np.stack([np.interp(days, knots, row) for row in np.eye(knots.size)])
        return value + self._gap_at_knots(success, kind, next_agent)[draws] @ between

    def slope(self, day: float, *, success: float = 0.5, kind: str = "marginal") -> FloatArray:
        """Return doublings a year at an ordinal day, shape (draw,)."""
        year = self._years(np.array([day]))
        ends = year + np.array([-_STEP_YEARS, _STEP_YEARS])
        gap = self.steepness.gap(ends, success=success, kind=kind)
        return trend_slope(self.shape, self.coefficients, year)[:, 0] + (gap[:, 1] - gap[:, 0]) / (
            2 * _STEP_YEARS
        )

    def _gap_at_knots(self, success: float, kind: str, next_agent: bool) -> FloatArray:
        key = (success, kind, next_agent)
        if key not in self._gaps:
            off = _even_normals(self.scatter.size, 2) if next_agent else 0.0
            years = self._years(self._knots())
            self._gaps[key] = self.steepness.gap(years, success=success, kind=kind, off=off)
        return self._gaps[key]

    def _knots(self) -> FloatArray:
        """Ordinal days: close together up to two years beyond the last release, then wider."""
        near = np.linspace(self.first_day, self.last_day + 2 * DAYS_PER_YEAR, 10)
        after = np.geomspace(DAYS_PER_YEAR, max(LAST_DAY - near[-1], 2 * DAYS_PER_YEAR), 7)
        return np.concatenate([near, near[-1] + after])

    def _years(self, days: FloatArray) -> FloatArray:
        return (np.asarray(days, dtype=float) - self.origin_day) / DAYS_PER_YEAR


def _even_normals(size: int, seed: int) -> FloatArray:
    """Return standard normal quantiles at even levels, in a random order."""
    places = (np.arange(size) + 0.5) / size
    normals: FloatArray = ndtri(np.random.default_rng(seed).permutation(places))
    return normals


def trend_of_fit(fit: HorizonFit) -> Trend:
    """Take the trend out of a fit that has one.

    Raises
    ------
    InputError
        The fit has no trend, or no agent has a date.
    """
    design, point, shape = fit.design, fit.point, fit.options.trend
    dated = dated_agents(fit)
    if shape not in SHAPES or not dated.size:
        raise InputError("no trend was fitted; name one (--trend linear) and give --release-dates")
    days = design.origin_day + DAYS_PER_YEAR * design.agent_years[dated]
    coefficients = TREND_SHAPES[shape].coefficients
    draws = {name: getattr(point, name).ravel() for name in (*coefficients, "sigma_horizon")}
    return Trend(
        shape=shape,
        coefficients={name: draws[name] for name in coefficients},
        scatter=draws["sigma_horizon"],
        steepness=steepness_of_fit(fit),
        origin_day=design.origin_day,
        first_day=float(days.min()),
        last_day=float(days.max()),
        n_agents=dated.size,
    )
