"""Simulation-based calibration: ranks of the truth among posterior draws, and their uniformity."""

from __future__ import annotations

import numpy as np
from scipy import stats

from tidegauge.arrays import FloatArray, IntArray


def rank_among(draws: FloatArray, truth: FloatArray, *, kept: int) -> IntArray:
    """Return how many of `kept` evenly thinned draws lie below the truth.

    Parameters
    ----------
    draws : ndarray, shape (chain, draw, ...)
    truth : ndarray, shape (...)

    Returns
    -------
    ndarray of int
        0 to `kept`; uniform when the posterior is right.
    """
    flat = draws.reshape(-1, *draws.shape[2:])
    chosen = flat[np.linspace(0, flat.shape[0] - 1, kept).astype(int)]
    ranks: IntArray = (chosen < truth).sum(axis=0)
    return ranks


def uniformity_p_value(ranks: IntArray, *, kept: int, bins: int = 20) -> float:
    """Return the chi-square p-value of ranks 0 to `kept` being uniform.

    Raises
    ------
    ValueError
        The number of possible ranks is not a multiple of the bins.
    """
    if (kept + 1) % bins:
        raise ValueError(f"{kept + 1} possible ranks do not fill {bins} equal bins")
    counts = np.bincount(ranks * bins // (kept + 1), minlength=bins)
    return float(stats.chisquare(counts).pvalue)
