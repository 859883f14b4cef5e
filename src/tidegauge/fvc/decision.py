"""From a predictive distribution to the FVC and Confidence that maximise the expected score.

For a forecast m and Confidence s the expected score is ``-sqrt(2) D(m) / s - ln(sqrt(2) s)`` with
``D(m) = E min(|y - m|, 1000)``. Whatever s is, the best m minimises D; then the best s is
``sqrt(2) D(m)``, or the floor of 70 where that is larger (the score falls on both sides of it).
For draws of equal weight D is piecewise linear and bends upwards at the draws only, so one of the
draws minimises it exactly. Where no two draws are 1,000 ml apart that draw is the median.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.scores import CONFIDENCE_FLOOR_ML, ERROR_CAP_ML

_BLOCK_ROWS = 200


class Decision(NamedTuple):
    """What is submitted: millilitres, one value a question."""

    fvc_ml: FloatArray
    confidence_ml: FloatArray


def decide(draws_ml: FloatArray) -> Decision:
    """Return the forecast with the highest expected score under each row's draws.

    Parameters
    ----------
    draws_ml : ndarray of shape (questions, draws)
        Predictive draws of equal weight, in any order.
    """
    draws = np.sort(draws_ml, axis=1)
    fvc = np.median(draws, axis=1)
    loss = np.minimum(np.abs(draws - fvc[:, None]), ERROR_CAP_ML).mean(axis=1)
    # Only where the cap can be reached may another draw do better than the median.
    wide = np.flatnonzero(draws[:, -1] - draws[:, 0] > ERROR_CAP_ML)
    for start in range(0, len(wide), _BLOCK_ROWS):
        rows = wide[start : start + _BLOCK_ROWS]
        block = draws[rows]
        losses = np.minimum(np.abs(block[:, :, None] - block[:, None, :]), ERROR_CAP_ML).mean(1)
        best = losses.argmin(axis=1)
        least = np.take_along_axis(losses, best[:, None], axis=1)[:, 0]
        better = least < loss[rows] * (1 - 1e-9)  # a tie keeps the median
        fvc[rows[better]] = np.take_along_axis(block, best[:, None], axis=1)[better, 0]
        loss[rows[better]] = least[better]
    return Decision(fvc, np.maximum(np.sqrt(2.0) * loss, CONFIDENCE_FLOOR_ML))
