"""METR's analysis: one weighted logistic regression per agent, and a hierarchical bootstrap.

A replicate draws families, then tasks within them, then runs within those, with replacement. By
counts that is two multinomials and a binomial, so all replicates are drawn and fitted at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from tidegauge.arrays import FloatArray
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.data.weights import run_weights
from tidegauge.horizon.horizons.estimate import Curves, Estimate
from tidegauge.progress import SILENT, Progress

DEFAULT_REGULARISATION = 1e-5  # METR's TH1.1; their first paper used 0.1
_MAX_STEPS = 60
_REPLICATES_AT_ONCE = 100


@dataclass(frozen=True, kw_only=True)
class RegressionOptions:
    """Choices of the regression: task weights, ridge on the slope, bootstrap replicates."""

    weighting: str = "invsqrt"
    regularisation: float = DEFAULT_REGULARISATION
    replicates: int = 1000
    seed: int = 1


DEFAULT_REGRESSION = RegressionOptions()


@dataclass(frozen=True)
class LogisticFits:
    """Fitted curves: intercept and slope in logits per log2 minute, one a row."""

    intercept: FloatArray
    slope: FloatArray


def fit_regression(
    design: Design,
    *,
    options: RegressionOptions = DEFAULT_REGRESSION,
    progress: Progress = SILENT,
) -> Estimate:
    """Regress success on log2 human_minutes for each agent, with bootstrap replicates."""
    weights = run_weights(design, options.weighting)
    x = design.log2_minutes
    point = logistic_ridge(
        x,
        weights * design.successes,
        weights * (design.attempts - design.successes),
        ridge=options.regularisation,
    )
    rng = np.random.default_rng(options.seed)
    intercepts, slopes = [], []
    with progress.step("bootstrap replicates", total=options.replicates) as step:
        for begin in range(0, options.replicates, _REPLICATES_AT_ONCE):
            n = min(_REPLICATES_AT_ONCE, options.replicates - begin)
            attempts, successes = resample(design, n, rng)
            fits = logistic_ridge(
                x,
                weights * successes,
                weights * (attempts - successes),
                ridge=options.regularisation,
            )
            intercepts.append(fits.intercept)
            slopes.append(fits.slope)
            step.update(begin + n)
    return bootstrap_estimate(
        design, point, LogisticFits(np.concatenate(intercepts), np.concatenate(slopes))
    )


def bootstrap_estimate(design: Design, point: LogisticFits, replicates: LogisticFits) -> Estimate:
    """Return the estimate of a point fit (agent,) and its replicates (replicate, agent).

    A replicate without a run of the agent has no curve (NaN): it counts as the point fit.
    """
    alpha, beta = point.intercept, point.slope
    missing = np.isnan(replicates.intercept)
    with np.errstate(invalid="ignore"):  # an agent that always succeeds: infinity times zero
        eta = alpha[:, None] + beta[:, None] * design.log2_minutes
    return Estimate(
        method="regression",
        agents=design.agents,
        alpha=np.where(missing, alpha, replicates.intercept),
        beta=np.where(missing, beta, replicates.slope),
        success=expit(eta),
        longest_minutes=float(design.human_minutes.max()),
        point=Curves(alpha, beta),
    )


def resample(design: Design, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Draw n hierarchical bootstrap replicates; return attempts and successes (n, agent, task)."""
    n_families = len(design.families)
    families = rng.multinomial(n_families, np.full(n_families, 1 / n_families), size=n)
    tasks = np.zeros((n, len(design.tasks)), dtype=np.int64)
    for f in range(n_families):
        members = np.flatnonzero(design.task_family == f)
        tasks[:, members] = rng.multinomial(
            families[:, f] * members.size, np.full(members.size, 1 / members.size)
        )
    attempts = tasks[:, None, :] * design.attempts.astype(np.int64)
    rate = np.divide(
        design.successes,
        design.attempts,
        out=np.zeros_like(design.successes),
        where=design.attempts > 0,
    )
    return attempts.astype(float), rng.binomial(attempts, rate).astype(float)


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
