"""One small protocol for every forecaster: fit on a cohort, forecast questions as draws.

A predictive distribution is `DRAWS` sorted values of equal weight, one row a question. Draws can
be decided on exactly, averaged, stretched and counted, whatever model they came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tidegauge.arrays import FloatArray
from tidegauge.fvc.data.cohort import Baselines, Cohort, Questions

DRAWS = 100
Array = NDArray[Any]
State = Mapping[str, Array]


class Fitted(Protocol):
    """A forecaster that has seen its training cohort."""

    def forecast(self, baselines: Baselines, questions: Questions) -> FloatArray:
        """Return predictive draws in ml, sorted within each row, shape (questions, DRAWS)."""

    def state(self) -> dict[str, Array]:
        """Return everything that `Forecaster.restore` needs, as plain arrays."""


class Forecaster(Protocol):
    """A way to forecast, not yet fitted."""

    @property
    def name(self) -> str:
        """The name under which scores are reported and models saved."""

    def fit(self, cohort: Cohort, *, seed: int) -> Fitted:
        """Learn from full histories; the same seed gives the same result."""

    def restore(self, state: State) -> Fitted:
        """Rebuild a fitted forecaster from its state."""


def _laplace_shape() -> FloatArray:
    """Return bin means of a Laplace with mean absolute deviation 1: its draws keep that exactly."""
    edge = np.linspace(0.0, 1.0, DRAWS // 2 + 1)  # tail probability of |x| at the bin edges
    # The integral of -ln(p) is p - p ln(p), and 0 at p = 0.
    integral = edge - np.where(edge > 0, edge * np.log(np.where(edge > 0, edge, 1.0)), 0.0)
    upper = (np.diff(integral) / np.diff(edge))[::-1]
    return np.concatenate([-upper[::-1], upper])


LAPLACE_SHAPE = _laplace_shape()


def laplace_draws(median_ml: FloatArray, confidence_ml: FloatArray) -> FloatArray:
    """Return Laplace draws whose median and score-optimal Confidence are those given."""
    mean_error = confidence_ml / np.sqrt(2.0)
    draws: FloatArray = median_ml[:, None] + mean_error[:, None] * LAPLACE_SHAPE
    return draws


def reduce_draws(draws_ml: FloatArray) -> FloatArray:
    """Return `DRAWS` sorted values standing for more: means of equal shares of the sorted draws."""
    n = draws_ml.shape[1] // DRAWS * DRAWS
    ordered = np.sort(draws_ml[:, :n], axis=1)
    means: FloatArray = ordered.reshape(len(draws_ml), DRAWS, -1).mean(axis=2)
    return means
