"""What the full horizon model has beyond the core one, as a truth to simulate from."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, roots_hermitenorm

from tidegauge.arrays import FloatArray, IntArray

_NODES, _WEIGHTS = roots_hermitenorm(80)
_SCORE_CONCENTRATION = 4.0  # of continuous scores around the chance of success
_LEAST_CHANCE = 1e-9


@dataclass(frozen=True)
class Beyond:
    """Parameters of the full model that the core one lacks.

    Attributes
    ----------
    residual : ndarray, shape (task,)
        Difficulty beyond length, log2 minutes: a family part and a task part.
    phi : float
        Two runs of one agent at one task have the correlation 1 / (1 + phi).
    delta_estimate : float
        Estimates are too long by this many log2 minutes.
    """

    residual: FloatArray
    sigma_residual_family: float = 1.0
    sigma_residual_task: float = 1.2
    phi: float = 4.0
    delta_estimate: float = 0.5

    @property
    def sigma_residual(self) -> float:
        """Standard deviation of a new task's residual, log2 minutes."""
        return math.hypot(self.sigma_residual_family, self.sigma_residual_task)

    def marginal_log2(self, success: float, alpha: float, beta: float) -> float:
        """Return the log2 minutes at which success averaged over new tasks is `success`."""

        def excess(log2: float) -> float:
            rates = expit(alpha + beta * (log2 + self.sigma_residual * _NODES))
            return float(rates @ _WEIGHTS / _WEIGHTS.sum()) - success

        return float(brentq(excess, -200, 200))

    def cell_chances(self, chance: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw the probability of success that the runs of each cell share."""
        chance = np.clip(chance, _LEAST_CHANCE, 1 - _LEAST_CHANCE)
        return rng.beta(self.phi * chance, self.phi * (1 - chance))


def draw_beyond(task_family: IntArray, rng: np.random.Generator) -> Beyond:
    """Draw the residual of each task."""
    usual = Beyond(residual=np.zeros(task_family.size))
    family = usual.sigma_residual_family * rng.normal(size=int(task_family.max()) + 1)
    task = usual.sigma_residual_task * rng.normal(size=task_family.size)
    return Beyond(residual=family[task_family] + task)


def draw_continuous_scores(
    chance: FloatArray, success: NDArray[np.bool_], rng: np.random.Generator
) -> FloatArray:
    """Draw scores from 0 to 1, given which runs count as a success.

    A score is Beta around the run's chance of success, and then decides the success: both have
    that chance as their mean. Given the success, the score is again Beta.
    """
    chance = np.clip(chance, _LEAST_CHANCE, 1 - _LEAST_CHANCE)
    won = _SCORE_CONCENTRATION * chance + success
    lost = _SCORE_CONCENTRATION * (1 - chance) + ~success
    return rng.beta(won, lost)
