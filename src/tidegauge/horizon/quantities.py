"""Time horizons from success curves, over arrays of draws. Nothing is ever dropped."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class Interval(NamedTuple):
    """A median and the 95 % interval, one entry an agent."""

    median: FloatArray
    low: FloatArray
    high: FloatArray


def log2_horizon(alpha: FloatArray, beta: FloatArray, *, success: float) -> FloatArray:
    """Return the log2 minutes at which a curve falls to a success rate.

    Parameters
    ----------
    alpha, beta : ndarray
        Intercept and slope in logits per log2 minute, of equal shapes; slopes are negative.
    success : float
        Success rate strictly between 0 and 1.
    """
    logit = np.log(success) - np.log1p(-success)
    with np.errstate(divide="ignore", invalid="ignore"):
        log2: FloatArray = (logit - alpha) / beta
    # A curve that is flat to the last digit never falls to the rate, or was never above it.
    flat = beta == 0
    return np.where(flat, np.where(alpha > logit, np.inf, -np.inf), log2)


def minutes_interval(log2_draws: FloatArray) -> Interval:
    """Summarise draws (draw, agent) of a log2 horizon in minutes, over all draws.

    Quantiles are taken on the log scale, where neighbouring order statistics of a heavy tail can
    be interpolated; a horizon too long for a double is infinite.
    """
    bounded = np.clip(log2_draws, -1e6, 1e6)
    low, median, high = np.quantile(bounded, [0.025, 0.5, 0.975], axis=0)
    with np.errstate(over="ignore", under="ignore"):
        return Interval(median=np.exp2(median), low=np.exp2(low), high=np.exp2(high))


def share_beyond(log2_draws: FloatArray, *, longest_minutes: float) -> FloatArray:
    """Return the share of draws whose horizon is infinite or beyond the longest task."""
    share: FloatArray = np.mean(~(log2_draws <= np.log2(longest_minutes)), axis=0)
    return share
