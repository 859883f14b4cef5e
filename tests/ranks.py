"""Simulation-based calibration: ranks of the truth among posterior draws, and their uniformity."""

from __future__ import annotations

import numpy as np
from scipy import stats

from tidegauge.arrays import FloatArray, IntArray

SIMULATED = 20_000  # sets of uniform ranks: p-values down to 5e-5


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


def uniformity_p_value(ranks: IntArray, *, kept: int) -> float:
    """Return the p-value of ranks 0 to `kept` being uniform, by their empirical distribution.

    The statistic is the least of the two-sided binomial tail probabilities of the empirical
    distribution function over all its points [1]_: what a simultaneous confidence band of it
    rests on. Its own distribution is simulated.

    References
    ----------
    .. [1] Sailynoja, Buerkner and Vehtari (2022), Statistics and Computing 32, 32.
    """
    rng, n = np.random.default_rng(0), ranks.size
    uniform = rng.multinomial(n, np.full(kept + 1, 1 / (kept + 1)), size=SIMULATED)
    counts = np.concatenate([np.bincount(ranks, minlength=kept + 1)[None], uniform])
    below = counts.cumsum(axis=1)[:, :-1]
    # Tail probabilities of all counts that a point may have, looked up.
    at = np.arange(1, kept + 1) / (kept + 1)
    seen = np.arange(n + 1)[:, None]
    tails = 2 * np.minimum(stats.binom.cdf(seen, n, at), stats.binom.sf(seen - 1, n, at))
    least = tails[below, np.arange(kept)].min(axis=1)
    return float((1 + (least[1:] <= least[0]).sum()) / (1 + SIMULATED))
