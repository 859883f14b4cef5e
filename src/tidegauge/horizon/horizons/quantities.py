"""Time horizons from success curves, over arrays of draws. Nothing is ever dropped."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.horizon.horizons.averages import average_level

_RESIDUAL_NODES, _SHARPNESS_NODES = 64, 12


class Interval(NamedTuple):
    """A median and the 95 % interval, one entry an agent."""

    median: FloatArray
    low: FloatArray
    high: FloatArray


def log2_horizon(
    alpha: FloatArray, beta: FloatArray, *, success: float, logit: FloatArray | None = None
) -> FloatArray:
    """Return the log2 minutes at which a curve falls to a success rate.

    Parameters
    ----------
    alpha, beta : ndarray
        Intercept and slope in logits per log2 minute, of equal shapes; slopes are negative.
    success : float
        Success rate strictly between 0 and 1.
    logit : ndarray or None
        The curve's logit at that rate where it is not the logistic's own: see `marginal_logit`.
    """
    if logit is None:
        logit = np.asarray(np.log(success) - np.log1p(-success))
    with np.errstate(divide="ignore", invalid="ignore"):
        log2: FloatArray = (logit - alpha) / beta
    # A curve that is flat to the last digit never falls to the rate, or was never above it.
    flat = beta == 0
    return np.where(flat, np.where(alpha > logit, np.inf, -np.inf), log2)


def marginal_logit(
    success: float, *, residual_sd: FloatArray, discrimination_sd: FloatArray
) -> FloatArray:
    """Return the logit at which a random new task is solved at a rate, per draw.

    Success averaged over a residual ~ Normal(0, residual_sd) and a log discrimination ~ Normal(0,
    discrimination_sd) is a function of the logit alone, so it is inverted once per draw and serves
    every agent; by symmetry it is zero at one half.

    Parameters
    ----------
    success : float
        Success rate strictly between 0 and 1.
    residual_sd, discrimination_sd : ndarray, shape (draw,)
        Spread of new tasks about the typical one, logits and logs.
    """
    if success == 0.5 or not (residual_sd.any() or discrimination_sd.any()):
        return np.full(residual_sd.shape, np.log(success) - np.log1p(-success))
    e, e_weight = _gauss_hermite(_RESIDUAL_NODES)
    d, d_weight = _gauss_hermite(_SHARPNESS_NODES if discrimination_sd.any() else 1)
    return average_level(
        np.tile(residual_sd[:, None] * e, (1, d.size)),
        np.outer(d_weight, e_weight).ravel(),
        success=success,
        sharpness=np.exp(np.repeat(discrimination_sd[:, None] * d, e.size, axis=1)),
    )


def _gauss_hermite(nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights for the mean over a standard normal."""
    node, weight = np.polynomial.hermite_e.hermegauss(nodes)
    return node, weight / weight.sum()


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
