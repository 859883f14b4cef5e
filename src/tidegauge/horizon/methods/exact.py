"""The exact posterior of each agent alone, taking human_minutes as the truth.

Two parameters, so it is summed on a grid: no sampler, no Monte Carlo error. The grid lies in
(logit at the agent's pivot, log of -beta), where the posterior is nearly round, and grows until
its edge carries no mass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from tidegauge.arrays import FloatArray
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.horizons.estimate import Estimate
from tidegauge.horizon.methods.base import Effort
from tidegauge.horizon.model.options import DEFAULT_PRIORS, HorizonPriors
from tidegauge.progress import SILENT, Progress

_COARSE, _FINE = 41, 121  # points an axis while looking for the mass, and over it
_EDGE_MASS = 1e-6


@dataclass(frozen=True)
class AgentGrid:
    """One agent's posterior: weights that sum to one over curves."""

    alpha: FloatArray
    beta: FloatArray
    weight: FloatArray


@dataclass(frozen=True)
class Exact:
    """Each agent's exact posterior: the mean curve at the file's own human_minutes."""

    name: str = "exact"

    @property
    def settings(self) -> dict[str, Any]:
        """The priors, which are those of the core model."""
        return {"priors": {name: getattr(DEFAULT_PRIORS, name) for name in ("alpha", "beta")}}

    def fit(
        self,
        design: Design,
        *,
        effort: Effort = Effort.FULL,
        seed: int = 1,
        progress: Progress = SILENT,
    ) -> Estimate:
        """Sum the posteriors; there is nothing to make quicker, and nothing is random."""
        with progress.step("summing each agent's posterior"):
            return fit_exact(design)


def fit_exact(design: Design, *, priors: HorizonPriors = DEFAULT_PRIORS) -> Estimate:
    """Return each agent's exact posterior under the core model's priors of alpha and beta."""
    grids = [
        agent_grid(design.log2_minutes, design.successes[a], design.attempts[a], priors)
        for a in range(len(design.agents))
    ]
    return Estimate(
        method="exact",
        agents=design.agents,
        alpha=np.stack([grid.alpha for grid in grids], axis=1),
        beta=np.stack([grid.beta for grid in grids], axis=1),
        weight=np.stack([grid.weight for grid in grids], axis=1),
        success=np.stack([_mean_success(grid, design.log2_minutes) for grid in grids]),
        longest_minutes=float(design.human_minutes.max()),
    )


def _mean_success(grid: AgentGrid, x: FloatArray) -> FloatArray:
    heavy = grid.weight > 1e-9 * grid.weight.max()  # the rest is not worth its exponentials
    curves = expit(grid.alpha[heavy, None] + grid.beta[heavy, None] * x)
    mean: FloatArray = grid.weight[heavy] @ curves / grid.weight[heavy].sum()
    return mean


def agent_grid(
    x: FloatArray, successes: FloatArray, attempts: FloatArray, priors: HorizonPriors
) -> AgentGrid:
    """Sum one agent's posterior; `x` is log2 minutes per task."""
    tried = attempts > 0
    x, successes, attempts = x[tried], successes[tried], attempts[tried]
    pivot = float(np.average(x, weights=attempts))
    # Wide enough for any data these priors allow; each round cuts to where the mass is.
    ability, log_slope = (-80.0, 80.0), (-12.0, 2.5)
    for _ in range(40):
        grid = _evaluate(x, successes, attempts, priors, pivot, ability, log_slope, _COARSE)
        rows, columns = grid[2].sum(axis=1), grid[2].sum(axis=0)
        cut_ability, cut_slope = _occupied(grid[0], rows), _occupied(grid[1], columns)
        same = _width(cut_ability) > 0.7 * _width(ability) and (
            _width(cut_slope) > 0.7 * _width(log_slope)
        )
        if same:
            break
        ability, log_slope = cut_ability, cut_slope
    grid = _evaluate(x, successes, attempts, priors, pivot, ability, log_slope, _FINE)
    a, s = np.meshgrid(grid[0], grid[1], indexing="ij")
    beta = -np.exp(s)
    weight = grid[2]
    return AgentGrid((a - beta * pivot).ravel(), beta.ravel(), weight.ravel())


def _evaluate(
    x: FloatArray,
    successes: FloatArray,
    attempts: FloatArray,
    priors: HorizonPriors,
    pivot: float,
    ability: tuple[float, float],
    log_slope: tuple[float, float],
    points: int,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return both axes and the normalised posterior mass on their grid."""
    a = np.linspace(*ability, points)
    s = np.linspace(*log_slope, points)
    beta = -np.exp(s)
    logp = np.zeros((points, points))
    for xt, k, n in zip(x - pivot, successes, attempts, strict=True):
        eta = a[:, None] + beta * xt
        logp += k * eta - n * np.logaddexp(0, eta)
    alpha = a[:, None] - beta * pivot
    logp += priors.alpha.log_kernel(alpha)
    logp += priors.beta.log_kernel(beta)
    logp += s  # Jacobian: the grid is even in the log of the slope
    mass = np.exp(logp - logp.max())
    return a, s, mass / mass.sum()


def _occupied(axis: FloatArray, mass: FloatArray) -> tuple[float, float]:
    """Return the part of an axis that holds all but a millionth of the mass, with a margin."""
    cumulative = np.cumsum(mass)
    first = int(np.searchsorted(cumulative, _EDGE_MASS / 2))
    last = int(np.searchsorted(cumulative, 1 - _EDGE_MASS / 2))
    margin = max(3, (last - first) // 10)
    low, high = max(first - margin, 0), min(last + margin, axis.size - 1)
    return float(axis[low]), float(axis[high])


def _width(ends: tuple[float, float]) -> float:
    return ends[1] - ends[0]
