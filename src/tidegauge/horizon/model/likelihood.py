"""Pointwise log likelihoods and posterior predictive draws of a fitted model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln

from tidegauge.arrays import FloatArray, IntArray
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.model.human_noise import duration_log_likelihood, failed_log_likelihood
from tidegauge.horizon.model.observations import scored_successes
from tidegauge.horizon.model.options import HorizonOptions
from tidegauge.horizon.model.parameters import Point

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
    kept = point.thinned(thin)
    found = {"successes": _cell_log_likelihood(design, options, kept)}
    if design.run_task.size:
        found["log2_duration"] = duration_log_likelihood(design, options, kept).astype(np.float32)
    if design.estimate_task.size:
        mean = kept.mu_task[..., design.estimate_task]
        if kept.delta_estimate is not None:
            mean = mean + kept.delta_estimate[..., None]
        found["log2_estimate"] = _normal(design.estimate_log2, mean, kept.sigma_estimate[..., None])
    if options.censors_failures and design.failed_task.size:
        found["log2_failed"] = failed_log_likelihood(design, options, kept).astype(np.float32)
    return found


def _cell_log_likelihood(
    design: Design, options: HorizonOptions, point: Point
) -> NDArray[np.float32]:
    cells = tried_cells(design)
    n, k = cells.attempts, scored_successes(design, options)[cells.agent, cells.task]
    constant = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    chains, draws = point.alpha.shape[:2]
    result = np.empty((chains, draws, n.size), dtype=np.float32)
    for chain in range(chains):  # one chain at a time: the doubles of all would not fit
        eta = cell_logits(point, cells, chain)
        result[chain] = k * eta - n * np.logaddexp(0, eta) + constant
    return result


def cell_logits(point: Point, cells: Cells, chain: int) -> FloatArray:
    """Return the logit of success (draw, cell) of one chain."""
    alpha, beta = point.alpha[chain][:, cells.agent], point.beta[chain][:, cells.agent]
    logits: FloatArray = alpha + beta * point.mu_task[chain][:, cells.task]
    if point.residual is not None:
        logits += point.residual[chain][:, cells.task]
    if point.log_discrimination is not None:
        logits *= np.exp(point.log_discrimination[chain][:, cells.task])
    return logits


def agent_logits(point: Point, agent: int) -> FloatArray:
    """Return the logit of one agent's success (draw, task) from draws (draw, ...)."""
    logits: FloatArray = point.alpha[:, agent, None] + point.beta[:, agent, None] * point.mu_task
    if point.residual is not None:
        logits += point.residual
    if point.log_discrimination is not None:
        logits *= np.exp(point.log_discrimination)
    return logits


def mean_success(point: Point, *, thin: int = 1) -> FloatArray:
    """Return the posterior mean probability of success (agent, task), tried or not."""
    kept = point.flat(thin)
    agents = range(kept.alpha.shape[1])
    return np.stack([expit(agent_logits(kept, agent)).mean(axis=0) for agent in agents])


def _normal(value: FloatArray, mean: FloatArray, sd: FloatArray) -> NDArray[np.float32]:
    z = (value - mean) / sd
    logp: NDArray[np.float32] = (-0.5 * z * z - np.log(sd) - _HALF_LOG_2PI).astype(np.float32)
    return logp
