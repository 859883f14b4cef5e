"""Many weighted logistic regressions on one predictor at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from tidegauge.arrays import FloatArray

_MAX_STEPS = 60


@dataclass(frozen=True)
class LogisticFits:
    """Fitted curves: intercept and slope in logits per log2 minute, one a row."""

    intercept: FloatArray
    slope: FloatArray


def logistic_ridge(
    x: FloatArray, won: FloatArray, lost: FloatArray, *, ridge: float
) -> LogisticFits:
    """Fit many weighted logistic regressions on one predictor at once, by damped Newton.

    Minimises ``-sum(won * log p + lost * log(1 - p)) + ridge / 2 * slope**2`` (the intercept is
    free, as in scikit-learn).

    Parameters
    ----------
    x : ndarray, shape (task,)
    won, lost : ndarray, shape (..., task)
        Weights of successes and failures.

    Returns
    -------
    LogisticFits
        Shapes (...). Where every run succeeds or fails the slope is 0 and the intercept infinite;
        where there is no run at all both are NaN.
    """
    shape = won.shape[:-1]
    won, lost = won.reshape(-1, x.size), lost.reshape(-1, x.size)
    total = won + lost
    weight = total.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        center = total @ x / weight
        intercept = np.log(won.sum(axis=1)) - np.log(lost.sum(axis=1))
    slope = np.zeros(weight.size)
    mixed = np.flatnonzero(np.isfinite(intercept))
    if mixed.size:
        centred = x - center[mixed, None]
        fitted = _newton(centred, won[mixed], total[mixed], intercept[mixed], ridge)
        slope[mixed] = fitted[1]
        intercept[mixed] = fitted[0] - fitted[1] * center[mixed]
    slope[weight == 0] = np.nan
    return LogisticFits(intercept.reshape(shape), slope.reshape(shape))


def _newton(
    x: FloatArray, won: FloatArray, total: FloatArray, intercept: FloatArray, ridge: float
) -> tuple[FloatArray, FloatArray]:
    """Iterate all rows together; rows that have converged take no more steps."""
    a, b = intercept.copy(), np.zeros_like(intercept)
    loss = _loss(x, won, total, a, b, ridge)
    active = np.arange(a.size)
    for _ in range(_MAX_STEPS):
        xs, p = x[active], expit(a[active, None] + b[active, None] * x[active])
        residual = won[active] - total[active] * p
        curvature = total[active] * p * (1 - p)
        gradient_a = residual.sum(axis=1)
        gradient_b = (residual * xs).sum(axis=1) - ridge * b[active]
        h_aa = curvature.sum(axis=1) + 1e-300
        h_ab = (curvature * xs).sum(axis=1)
        h_bb = (curvature * xs * xs).sum(axis=1) + ridge
        determinant = np.maximum(h_aa * h_bb - h_ab * h_ab, 1e-300)
        step_a = (h_bb * gradient_a - h_ab * gradient_b) / determinant
        step_b = (h_aa * gradient_b - h_ab * gradient_a) / determinant
        size = np.ones(active.size)
        for _ in range(30):  # halve where the full step overshoots
            trial = _loss(
                xs,
                won[active],
                total[active],
                a[active] + size * step_a,
                b[active] + size * step_b,
                ridge,
            )
            worse = ~(trial <= loss[active] + 1e-15 * np.abs(loss[active]))
            if not worse.any():
                break
            size[worse] /= 2
        a[active] += size * step_a
        b[active] += size * step_b
        gain = loss[active] - trial
        loss[active] = trial
        decrement = gradient_a * step_a + gradient_b * step_b
        active = active[(decrement > 1e-14 * (1 + np.abs(trial))) & (gain > 0)]
        if not active.size:
            break
    return a, b


def _loss(
    x: FloatArray,
    won: FloatArray,
    total: FloatArray,
    a: FloatArray,
    b: FloatArray,
    ridge: float,
) -> FloatArray:
    eta = a[:, None] + b[:, None] * x
    loss: FloatArray = (total * np.logaddexp(0, eta) - won * eta).sum(axis=1) + ridge / 2 * b * b
    return loss
