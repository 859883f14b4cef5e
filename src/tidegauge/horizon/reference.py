"""The reference that shapes the whitened coordinates: a second-order look at the agents' runs.

It is computed twice per fit, from a ridge regression and from a pilot run; a poor one costs
speed, never correctness.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import expit

from tidegauge.horizon.design import Design
from tidegauge.horizon.options import HorizonPriors

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Reference:
    """The point that shapes the coordinates; an agent's pair is (logit at pivot, s of its slope).

    Attributes
    ----------
    precision, location : ndarray, shape (task,)
        What the agents' runs say of each task's difficulty there, as a Gaussian.
    pull : ndarray, shape (task, 2 agents)
        How `location` moves with the agents' pairs (all logits, then all s).
    pivot : ndarray, shape (agent,)
        Difficulty at which an agent's runs are informative, log2 minutes.
    center : ndarray, shape (2 agents,)
        The pairs at the reference.
    spread : ndarray, shape (2 agents, 2 agents)
        Square root of the pairs' marginal covariance, upper triangular.
    log_scales : ndarray, shape (4,)
        Logs of sigma_global, sigma_family, sigma_human, sigma_estimate: where chains start.
    """

    precision: FloatArray
    location: FloatArray
    pull: FloatArray
    pivot: FloatArray
    center: FloatArray
    spread: FloatArray
    log_scales: FloatArray


def reference_at(
    design: Design,
    priors: HorizonPriors,
    *,
    mu_task: FloatArray,
    alpha: FloatArray,
    beta: FloatArray,
    log_scales: FloatArray,
) -> Reference:
    """Expand the agents' likelihood to second order about a point."""
    slope = beta[:, None]
    win = expit(alpha[:, None] + slope * mu_task)
    weight = design.attempts * win * (1 - win)
    total = weight.sum(axis=1)
    typical = np.full(total.size, mu_task.mean())
    pivot = np.divide(weight @ mu_task, total, out=typical, where=total > 1e-9)
    steepening = -np.expm1(beta)  # derivative of -beta by s, at beta = -log(1 + exp(s))
    by_s = -steepening[:, None] * (mu_task - pivot[:, None])  # derivative of a logit by s
    precision = (slope**2 * weight).sum(axis=0)
    cross = np.concatenate([weight * slope, weight * slope * by_s]).T
    residual = (slope * (design.successes - design.attempts * win)).sum(axis=0)
    # One Newton step, but never further than two log2 minutes: it is only a shape.
    step = np.clip(residual / np.maximum(precision, 1e-9), -2, 2)
    own = _agent_precision(weight, by_s, steepening, pivot, priors)
    informed = cross / np.maximum(precision, 1e-9)[:, None]
    marginal = own - cross.T @ _solve_tasks(design, priors, precision, log_scales, cross)
    return Reference(
        precision=precision,
        location=mu_task + step,
        pull=-informed,
        pivot=pivot,
        center=np.concatenate([alpha + beta * pivot, -beta + np.log(steepening)]),
        spread=_inverse_root(marginal),
        log_scales=log_scales,
    )


def _agent_precision(
    weight: FloatArray,
    by_s: FloatArray,
    steepening: FloatArray,
    pivot: FloatArray,
    priors: HorizonPriors,
) -> FloatArray:
    """Return the precision of the agents' pairs, given the tasks: runs and priors."""
    n = pivot.size
    precision = np.zeros((2 * n, 2 * n))
    logit, s = np.arange(n), np.arange(n, 2 * n)
    of_alpha, of_beta = priors.alpha.sd**-2, priors.beta.sd**-2
    shift = steepening * pivot  # derivative of alpha = logit - beta * pivot by s
    precision[logit, logit] = weight.sum(axis=1) + of_alpha
    precision[logit, s] = precision[s, logit] = (weight * by_s).sum(axis=1) + of_alpha * shift
    precision[s, s] = (weight * by_s**2).sum(axis=1) + of_alpha * shift**2
    precision[s, s] += of_beta * steepening**2 + 0.1  # never flat, however flat the curve
    return precision


def _solve_tasks(
    design: Design,
    priors: HorizonPriors,
    precision: FloatArray,
    log_scales: FloatArray,
    right: FloatArray,
) -> FloatArray:
    """Apply the covariance of the difficulties (tasks in families, with data) to columns."""
    var_global, var_family = np.exp(2 * log_scales[:2])
    human, estimate = np.exp(-2 * log_scales[2:])
    n_tasks, n_families = len(design.tasks), len(design.families)
    runs = np.bincount(design.run_task, minlength=n_tasks)
    estimates = np.bincount(design.estimate_task, minlength=n_tasks)
    data = (runs * human + estimates * estimate + precision)[:, None]
    shrink = 1 / (1 + var_family * data)
    q, h = np.zeros((n_families, 1)), np.zeros((n_families, right.shape[1]))
    np.add.at(q, design.task_family, data * shrink)
    np.add.at(h, design.task_family, right * shrink)
    shrink_family = 1 / (1 + var_global * q)
    total = priors.mu_global.sd**-2 + (q * shrink_family).sum()
    mu_global = (h * shrink_family).sum(axis=0) / total
    mu_family = shrink_family * (mu_global + var_global * h)
    solved: FloatArray = shrink * (mu_family[design.task_family] + var_family * right)
    return solved


def _inverse_root(precision: FloatArray) -> FloatArray:
    """Return an upper triangular R with R R' = inverse; rounding cannot make it fail."""
    scale = 1 / np.sqrt(np.diag(precision))
    scaled = precision * scale * scale[:, None]
    values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
    positive = vectors * np.maximum(values, 1e-10) @ vectors.T
    root = np.linalg.cholesky((positive + positive.T) / 2 + 1e-12 * np.eye(scale.size))
    inverse: FloatArray = solve_triangular(root, np.eye(scale.size), lower=True).T * scale[:, None]
    return inverse
