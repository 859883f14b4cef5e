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

# Human work in minutes: a day of 8 h, a week of 40 h, a month of 167 h, a year of 2,000 h.
WORK_MINUTES = {
    "1 work day": 480.0,
    "1 work week": 2400.0,
    "1 work month": 10020.0,
    "1 work year": 120000.0,
}
LAST_YEAR = 2100  # what a trend does not reach by then it is said never to reach
LAST_DAY = float(datetime.date(LAST_YEAR, 1, 1).toordinal())
_EVERY = slice(None)
_STEP_YEARS = 0.05
_DRAWS_AT_ONCE = 500


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
    # What is costly and wanted by every mixture that the trend is in.
    _gaps: dict[tuple[float, str, bool], FloatArray] = field(default_factory=dict, repr=False)
    _days: dict[float, FloatArray] = field(default_factory=dict, repr=False)

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

    def days_reached(self, success: float = 0.5) -> FloatArray:
        """Return the ordinal day, shape (draw, length), of first reaching each of WORK_MINUTES.

        Minus infinity where the trend was there at the first release, infinity where it does not
        get there by LAST_YEAR.
        """
        if success not in self._days:
            soon = self.last_day + 12 * DAYS_PER_YEAR
            near = np.arange(self.first_day, min(soon, LAST_DAY), DAYS_PER_YEAR / 24)
            days = np.concatenate([near, np.arange(soon, LAST_DAY, DAYS_PER_YEAR / 4), [LAST_DAY]])
            targets = np.log2(list(WORK_MINUTES.values()))
            found = []
            for start in range(0, self.scatter.size, _DRAWS_AT_ONCE):
                part = slice(start, start + _DRAWS_AT_ONCE)
                value = self.log2(days, success=success, draws=part)
                reached = [_first_crossing(value, days, one) for one in targets]
                found.append(np.stack(reached, axis=1))
            self._days[success] = np.concatenate(found)
        return self._days[success]

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
