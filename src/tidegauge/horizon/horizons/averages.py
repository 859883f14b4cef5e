"""Success averaged over several curves of one agent, and where the average reaches a rate.

An agent's logit at length mu is u + s, with u = alpha + beta * mu and s what a task adds. Where the
average over s equals a rate is a matter of u and s alone, so it is solved once for all agents.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from tidegauge.arrays import FloatArray

_STEPS = 200
_CLOSE = 1e-12


def average_level(
    shifts: FloatArray,
    weights: FloatArray,
    *,
    success: float,
    sharpness: FloatArray | float = 1.0,
) -> FloatArray:
    """Return the u at which the average of ``expit(sharpness * (u + shifts))`` is the rate.

    Parameters
    ----------
    shifts : ndarray, shape (draw, part)
        Logits that each part adds.
    weights : ndarray, shape (part,)
        Positive; they need not sum to one.
    success : float
        Strictly between 0 and 1.
    sharpness : ndarray, shape (draw, part), or float
        Positive factors of each part's logit.

    Returns
    -------
    ndarray, shape (draw,)
    """
    share = weights / weights.sum()
    logit = np.log(success) - np.log1p(-success)
    # The average lies between its parts, so the root lies between theirs.
    roots = logit / sharpness - shifts
    low, high = roots.min(axis=1), roots.max(axis=1)
    level: FloatArray = roots @ share
    for _ in range(_STEPS):
        chances = expit(sharpness * (level[:, None] + shifts))
        miss = chances @ share - success
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
