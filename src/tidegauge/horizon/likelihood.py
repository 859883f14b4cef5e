"""Pointwise log likelihoods and posterior predictive draws of a fitted model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln, log_ndtr

from tidegauge.horizon.design import Design
from tidegauge.horizon.options import HorizonOptions
from tidegauge.horizon.packing import Point

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)


@dataclass(frozen=True)
class Cells:
    """The (agent, task) pairs that were tried."""

    agent: IntArray
    task: IntArray
    attempts: FloatArray
    successes: FloatArray


def tried_cells(design: Design) -> Cells:
    """List the tried cells in the order of agents, then tasks."""
    agent, task = np.nonzero(design.attempts)
    return Cells(agent, task, design.attempts[agent, task], design.successes[agent, task])


def log_likelihoods(
    design: Design, options: HorizonOptions, point: Point, *, thin: int = 1
) -> dict[str, NDArray[np.float32]]:
    """Return the log likelihood of every observation, keeping each `thin`-th draw.

    Returns
    -------
    dict
        ``successes`` (chain, draw, cell), ``log2_duration`` (..., run), ``log2_estimate``
        (..., estimate) and, where failures are censored, ``log2_failed`` (..., failed); single
        precision, as they are large and only averaged.
    """
    mu_task = point.mu_task[:, ::thin]
    sigma_human = point.sigma_human[:, ::thin, None]
    sigma_estimate = point.sigma_estimate[:, ::thin, None]
    found = {"successes": _cell_log_likelihood(design, point, thin)}
    if design.run_task.size:
        found["log2_duration"] = _normal(
            design.run_log2, mu_task[..., design.run_task], sigma_human
        )
    if design.estimate_task.size:
        found["log2_estimate"] = _normal(
            design.estimate_log2, mu_task[..., design.estimate_task], sigma_estimate
        )
    if options.censors_failures and design.failed_task.size:
        z = (mu_task[..., design.failed_task] - design.failed_log2) / sigma_human
        found["log2_failed"] = log_ndtr(z).astype(np.float32)
    return found


def _cell_log_likelihood(design: Design, point: Point, thin: int) -> NDArray[np.float32]:
    cells = tried_cells(design)
    n, k = cells.attempts, cells.successes
    constant = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    chains, draws = point.alpha[:, ::thin].shape[:2]
    result = np.empty((chains, draws, n.size), dtype=np.float32)
    for chain in range(chains):  # one chain at a time: the doubles of all would not fit
        eta = cell_logits(point, cells, chain, thin)
        result[chain] = k * eta - n * np.logaddexp(0, eta) + constant
    return result


def cell_logits(point: Point, cells: Cells, chain: int, thin: int = 1) -> FloatArray:
    """Return the logit of success (draw, cell) of one chain."""
    alpha, beta = point.alpha[chain, ::thin], point.beta[chain, ::thin]
    mu_task = point.mu_task[chain, ::thin]
    logits: FloatArray = alpha[:, cells.agent] + beta[:, cells.agent] * mu_task[:, cells.task]
    return logits


def mean_success(design: Design, point: Point, *, thin: int = 1) -> FloatArray:
    """Return the posterior mean probability of success (agent, task), tried or not."""
    total = np.zeros(design.attempts.shape)
    chains, draws = point.alpha[:, ::thin].shape[:2]
    for chain in range(chains):
        for draw in range(draws):
            alpha, beta = point.alpha[chain, draw * thin], point.beta[chain, draw * thin]
            total += expit(alpha[:, None] + beta[:, None] * point.mu_task[chain, draw * thin])
    mean: FloatArray = total / (chains * draws)
    return mean


def _normal(value: FloatArray, mean: FloatArray, sd: FloatArray) -> NDArray[np.float32]:
    z = (value - mean) / sd
    logp: NDArray[np.float32] = (-0.5 * z * z - np.log(sd) - _HALF_LOG_2PI).astype(np.float32)
    return logp
