"""The ridge regression at data that no finite slope fits (see also methods/test_regression)."""

from __future__ import annotations

import numpy as np

from tidegauge.engine.logistic import logistic_ridge


def test_gradient_vanishes_at_separated_data() -> None:
    x = np.array([0.0, 1.0, 2.0, 3.0])
    won, lost = np.array([[1.0, 1.0, 0.0, 0.0]]), np.array([[0.0, 0.0, 1.0, 1.0]])
    fits = logistic_ridge(x, won, lost, ridge=1e-5)
    p = 1 / (1 + np.exp(-(fits.intercept[0] + fits.slope[0] * x)))
    residual = won[0] - p
    assert abs(residual.sum()) < 1e-8
    assert abs((residual * x).sum() - 1e-5 * fits.slope[0]) < 1e-8
    assert fits.slope[0] < -5
