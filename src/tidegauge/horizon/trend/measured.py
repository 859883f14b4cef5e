"""Agents' horizons as a fit without a trend measured them: medians with their whole covariance.

Agents are measured by the same tasks, so their errors are alike: a task that is thought too long
makes every agent look better. Their covariance is

    Sigma = D R D,   D = half of the central 68 % of each agent's draws,
                     R = correlation of the draws' normal scores

Both rest on ranks alone: of a normal posterior this is the covariance, and a draw that is extreme
or infinite is no more than the first or last of its agent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from tidegauge.arrays import BoolArray, FloatArray, IntArray
from tidegauge.horizon.horizons.quantities import bounded, extrapolation_limits

if TYPE_CHECKING:
    from tidegauge.horizon.result import HorizonFit

# A median of some thousand draws is not known better; agents with equal draws are told apart by it.
LEAST_SD = 0.01
MOST_SD = 100.0  # doublings: nothing is known of such an agent, and more would cost digits
_CENTRAL_68 = (0.1587, 0.5, 0.8413)


@dataclass(frozen=True)
class Measured:
    """One number per agent, with the covariance of the errors.

    Attributes
    ----------
    years : ndarray, shape (agent,)
        From the mean date of the agents in the trend.
    value : ndarray, shape (agent,)
        Log2 T50 in minutes, or the log of the steepness -beta.
    cov : ndarray, shape (agent, agent)
        Of the errors of measurement.
    """

    agents: tuple[str, ...]
    years: FloatArray
    value: FloatArray
    cov: FloatArray

    @property
    def sd(self) -> FloatArray:
        """Standard deviations of the errors, shape (agent,)."""
        sd: FloatArray = np.sqrt(np.diagonal(self.cov))
        return sd

    def part(self, chosen: BoolArray) -> Measured:
        """Return some of the agents."""
        names = tuple(name for name, keep in zip(self.agents, chosen, strict=True) if keep)
        cov = self.cov[np.ix_(chosen, chosen)]
        return Measured(names, self.years[chosen], self.value[chosen], cov)


def dated_agents(fit: HorizonFit) -> IntArray:
    """Return the indices of the agents in the trend."""
    return np.flatnonzero(np.isfinite(fit.design.agent_years))


def measured_horizons(fit: HorizonFit) -> Measured:
    """Take each dated agent's log2 T50 out of a fit without a trend.

    Beyond 64 times any task nothing was measured: a median out there counts as that limit, with an
    error no smaller than what was cut off.
    """
    design, dated = fit.design, dated_agents(fit)
    draws = bounded(fit.estimate.log2_horizons(0.5, kind="typical")[:, dated])
    median, sd = centre_and_sd(draws)
    value = np.clip(median, *extrapolation_limits(design.log2_minutes))
    sd = np.minimum(np.maximum(sd, np.abs(median - value)), MOST_SD)
    names = tuple(design.agents[a] for a in dated)
    return Measured(names, design.agent_years[dated], value, covariance(sd, normal_scores(draws)))


def centre_and_sd(draws: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return each column's median, and half of its central 68 %."""
    low, median, high = np.quantile(draws, _CENTRAL_68, axis=0)
    return median, (high - low) / 2


def normal_scores(draws: FloatArray) -> FloatArray:
    """Return draws (draw, agent) as the standard normal quantiles of their ranks."""
    scores: FloatArray = ndtri((rankdata(draws, axis=0) - 0.5) / len(draws))
    return scores


def covariance(sd: FloatArray, scores: FloatArray) -> FloatArray:
    """Return the covariance of columns with these standard deviations and normal scores."""
    length = np.sqrt((scores**2).sum(axis=0))
    unit = scores / np.where(length > 0, length, 1.0)  # equal draws are correlated with nothing
    correlation = unit.T @ unit
    np.fill_diagonal(correlation, 1.0)
    cov: FloatArray = correlation * np.outer(sd, sd) + LEAST_SD**2 * np.eye(sd.size)
    return cov
