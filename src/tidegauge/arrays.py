"""Types of the arrays that every part of the package passes around, and their quantiles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def weighted_quantiles(
    values: FloatArray, weight: FloatArray, probabilities: Sequence[float]
) -> FloatArray:
    """Return quantiles of a weighted sample, interpolated between midpoints of its steps."""
    order = np.argsort(values)
    values, weight = values[order], weight[order]
    cumulative = np.cumsum(weight) - 0.5 * weight
    quantiles: FloatArray = np.interp(probabilities, cumulative / weight.sum(), values)
    return quantiles
