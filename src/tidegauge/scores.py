"""Proper and competition scores, over arrays. Higher is better unless the name says loss."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tidegauge.arrays import FloatArray

CONFIDENCE_FLOOR_ML = 70.0  # the scorer's floor: a smaller Confidence never pays
ERROR_CAP_ML = 1000.0


def laplace_log_likelihood(
    true_ml: ArrayLike, predicted_ml: ArrayLike, confidence_ml: ArrayLike
) -> FloatArray:
    """Score each forecast by OSIC's modified Laplace log likelihood.

    Parameters
    ----------
    true_ml, predicted_ml, confidence_ml : array_like
        Millilitres, of shapes that broadcast.

    Returns
    -------
    ndarray
        ``-sqrt(2) d / sigma - ln(sqrt(2) sigma)`` with ``sigma = max(confidence, 70)`` and
        ``d = min(|true - predicted|, 1000)``; average it for a submission's score.
    """
    sigma = np.maximum(np.asarray(confidence_ml, dtype=float), CONFIDENCE_FLOOR_ML)
    error = np.abs(np.asarray(true_ml, dtype=float) - np.asarray(predicted_ml, dtype=float))
    distance = np.minimum(error, ERROR_CAP_ML)
    score: FloatArray = -np.sqrt(2.0) * distance / sigma - np.log(np.sqrt(2.0) * sigma)
    return score


def brier_loss(probability: ArrayLike, successes: ArrayLike, attempts: ArrayLike) -> FloatArray:
    """Return the squared error of `probability`, summed over each cell's runs."""
    p = np.asarray(probability, dtype=float)
    k, n = np.asarray(successes, dtype=float), np.asarray(attempts, dtype=float)
    loss: FloatArray = k * (1 - p) ** 2 + (n - k) * p**2
    return loss


def log_score(probability: ArrayLike, successes: ArrayLike, attempts: ArrayLike) -> FloatArray:
    """Return the Bernoulli log score of `probability`, summed over each cell's runs."""
    p = np.asarray(probability, dtype=float)
    k, n = np.asarray(successes, dtype=float), np.asarray(attempts, dtype=float)
    with np.errstate(divide="ignore"):
        won = np.where(k > 0, k * np.log(p), 0.0)
        lost = np.where(n - k > 0, (n - k) * np.log1p(-p), 0.0)
    total: FloatArray = won + lost
    return total
