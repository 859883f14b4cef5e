"""Time horizons from success curves, over arrays of draws. Nothing is ever dropped.

An agent's success at length mu (log2 minutes) is ``(1 - lapse) * expit(alpha + beta * mu)`` on a
typical task. On a random new task of that length it is the average of ``(1 - lapse) *
expit(exp(d) * (alpha + beta * (mu + e)))`` over the residual e ~ Normal(0, residual_sd) and the log
discrimination d ~ Normal(0, discrimination_sd): a function of the logit ``alpha + beta * mu`` and
of the residual's sd in logits, inverted for each draw and agent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import expit

from tidegauge.arrays import FloatArray

# Infinite horizons count as this one where quantiles are interpolated or differences are taken.
FARTHEST_LOG2 = 1e6
# Horizons beyond 64 times the longest task, or short of a 64th of the shortest, count as that where
# they are regressed or their distributions compared: they are extrapolated, and would dominate.
EXTRAPOLATED_LOG2 = 6.0
_RESIDUAL_NODES, _SHARPNESS_NODES = 64, 12
_GRID = 1001
_AT_ONCE = 20_000  # draws of agents, whose nodes then take some hundred MB
_STEPS = 200
_CLOSE = 1e-12


class Interval(NamedTuple):
    """A median and the 95 % interval, one entry an agent."""

    median: FloatArray
    low: FloatArray
    high: FloatArray


def log2_horizon(
    alpha: FloatArray,
    beta: FloatArray,
    *,
    success: float,
    logit: FloatArray | None = None,
    longest_log2: float = 0.0,
) -> FloatArray:
    """Return the log2 minutes at which a curve falls to a success rate.

    A curve that does not fall has no such length: its horizon is infinite where it is above the
    rate at the longest task, and zero otherwise. A curve that is NaN has a horizon that is NaN.

    Parameters
    ----------
    alpha, beta : ndarray
        Intercept and slope in logits per log2 minute, of equal shapes.
    success : float
        Success rate strictly between 0 and 1.
    logit : ndarray or None
        The curve's logit at that rate where it is not the logistic's own: see `marginal_logit`.
    longest_log2 : float
        Log2 minutes of the longest task; it matters to curves that rise.
    """
    if logit is None:
        logit = np.asarray(logit_of(success))
    falls = beta < 0
    with np.errstate(invalid="ignore"):
        at_longest = alpha + np.where(falls, 0, beta) * longest_log2
        log2 = (logit - alpha) / np.where(falls, beta, -1.0)
        found = np.where(falls, log2, np.where(at_longest > logit, np.inf, -np.inf))
    return np.where(np.isnan(alpha), np.nan, found)


def logit_of(share: float) -> float:
    """Return the log odds of a share."""
    return float(np.log(share) - np.log1p(-share))


def typical_logit(success: float, *, lapse: FloatArray) -> FloatArray:
    """Return the logit at which a typical task is solved at a rate; infinite if it never is.

    Of a curve whose highest success, 1 - lapse, is below the rate there is no horizon: the length
    at which it falls to the rate is zero.
    """
    reached = success < 1 - lapse
    share = np.where(reached, success / (1 - lapse), 0.5)
    return np.where(reached, np.log(share) - np.log1p(-share), np.inf)


def marginal_logit(
    success: float,
    *,
    residual_sd: FloatArray,
    discrimination_sd: FloatArray | None = None,
    lapse: FloatArray | None = None,
) -> FloatArray:
    """Return the logit at which a random new task is solved at a rate.

    Success is averaged over a residual ~ Normal(0, residual_sd) in logits and a log discrimination
    ~ Normal(0, discrimination_sd); by symmetry the logit is zero at one half without lapses.

    Parameters
    ----------
    success : float
        Success rate strictly between 0 and 1.
    residual_sd, discrimination_sd, lapse : ndarray
        Spread of new tasks about the typical one, logits and logs, and the share of lapses; of
        shapes that broadcast to that of `residual_sd`.
    """
    shape = residual_sd.shape
    if lapse is None and success == 0.5:
        return np.zeros(shape)
    if lapse is None and discrimination_sd is None:
        # One function of one variable: its values on a grid, and a spline between them.
        grid = np.linspace(0, max(float(residual_sd.max()), _CLOSE), _GRID)
        return np.asarray(CubicSpline(grid, _average_logit(success, grid))(residual_sd))
    sharp = 0.0 if discrimination_sd is None else discrimination_sd
    sds = [np.broadcast_to(part, shape).ravel() for part in (residual_sd, sharp)]
    rate = np.full(shape, success) if lapse is None else success / (1 - lapse)
    rates = np.broadcast_to(rate, shape).ravel()
    found = np.full(rates.size, np.inf)  # never reached: see `typical_logit`
    for part in np.array_split(np.flatnonzero(rates < 1), 1 + rates.size // _AT_ONCE):
        found[part] = _average_logit(rates[part], sds[0][part], sds[1][part])
    return found.reshape(shape)


def _average_logit(
    success: FloatArray | float,
    residual_sd: FloatArray,
    discrimination_sd: FloatArray | None = None,
) -> FloatArray:
    e, e_weight = _gauss_hermite(_RESIDUAL_NODES)
    if discrimination_sd is None or not discrimination_sd.any():
        return average_level(residual_sd[:, None] * e, e_weight, success=success)
    d, d_weight = _gauss_hermite(_SHARPNESS_NODES)
    return average_level(
        np.tile(residual_sd[:, None] * e, (1, d.size)),
        np.outer(d_weight, e_weight).ravel(),
        success=success,
        sharpness=np.exp(np.repeat(discrimination_sd[:, None] * d, e.size, axis=1)),
    )


def average_level(
    shifts: FloatArray,
    weights: FloatArray,
    *,
    success: FloatArray | float,
    sharpness: FloatArray | float = 1.0,
) -> FloatArray:
    """Return the u at which the average of ``expit(sharpness * (u + shifts))`` is the rate.

    Parameters
    ----------
    shifts : ndarray, shape (draw, part)
        Logits that each part adds.
    weights : ndarray, shape (part,)
        Positive; they need not sum to one.
    success : float or ndarray, shape (draw,)
        Strictly between 0 and 1.
    sharpness : ndarray, shape (draw, part), or float
        Positive factors of each part's logit.

    Returns
    -------
    ndarray, shape (draw,)
    """
    share = weights / weights.sum()
    # The average lies between its parts, so the root lies between theirs.
    rate = np.asarray(success, dtype=float)
    roots = (np.log(rate) - np.log1p(-rate))[..., None] / sharpness - shifts
    low, high = roots.min(axis=1), roots.max(axis=1)
    level: FloatArray = roots @ share
    for _ in range(_STEPS):
        chances = expit(sharpness * (level[:, None] + shifts))
        miss = chances @ share - rate
        low, high = np.where(miss < 0, level, low), np.where(miss > 0, level, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = level - miss / ((sharpness * chances * (1 - chances)) @ share)
        inside = (step >= low) & (step <= high)  # also refuses NaN
        # Newton where it stays between the two, halving where not.
        moved: FloatArray = np.where(inside, step, 0.5 * (low + high))
        if np.all(np.abs(moved - level) <= _CLOSE * (1 + np.abs(level))):
            return moved
        level = moved
    return level


def _gauss_hermite(nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights for the mean over a standard normal."""
    node, weight = np.polynomial.hermite_e.hermegauss(nodes)
    return node, weight / weight.sum()


def minutes_interval(log2_draws: FloatArray) -> Interval:
    """Summarise draws (draw, agent) of a log2 horizon in minutes, over all draws.

    Quantiles are taken on the log scale, where neighbouring order statistics of a heavy tail can
    be interpolated; a horizon too long for a double is infinite.
    """
    ends = np.quantile(bounded(log2_draws), [0.5, 0.025, 0.975], axis=0)
    return Interval(*minutes_of(ends))


def bounded(log2: FloatArray) -> FloatArray:
    """Return log2 horizons with infinite ones at `FARTHEST_LOG2`."""
    return np.clip(log2, -FARTHEST_LOG2, FARTHEST_LOG2)


def extrapolation_limits(log2_minutes: FloatArray) -> tuple[float, float]:
    """Return the shortest and longest log2 horizons that count, given the lengths of the tasks."""
    ends = float(log2_minutes.min()), float(log2_minutes.max())
    return ends[0] - EXTRAPOLATED_LOG2, ends[1] + EXTRAPOLATED_LOG2


def minutes_of(log2: FloatArray) -> FloatArray:
    """Return minutes; a horizon too long for a double is infinite, one too short is zero."""
    with np.errstate(over="ignore", under="ignore"):
        minutes: FloatArray = np.exp2(log2)
    return minutes


def share_beyond(
    log2_draws: FloatArray, *, longest_minutes: float, weight: FloatArray | None = None
) -> FloatArray:
    """Return the share of draws whose horizon is infinite or beyond the longest task."""
    share: FloatArray = np.average(
        ~(log2_draws <= np.log2(longest_minutes)), axis=0, weights=weight
    )
    return share
