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
    chains, draws = point.alpha.shape[:2]
    result = np.empty((chains, draws, n.size), dtype=np.float32)
    for chain in range(chains):  # one chain at a time: the doubles of all would not fit
        one = point.chosen((np.full(draws, chain), np.arange(draws)))
        result[chain] = log_probability(k, n, one, cells)
    return result


def log_probability(k: FloatArray, n: FloatArray, point: Point, cells: Cells) -> FloatArray:
    """Return the log probability (draw, cell) of k successes in n runs, from draws (draw, ...)."""
    log_ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    eta = _cell_logits(point, cells)
    lapse = np.zeros(1) if point.logit_lapse is None else expit(point.logit_lapse[:, cells.agent])
    if point.phi is None:
        with np.errstate(divide="ignore"):  # without lapses
            success = np.log1p(-lapse) - np.logaddexp(0, -eta)
            failure = np.logaddexp(np.log(lapse), np.log1p(-lapse) - np.logaddexp(0, eta))
        found: FloatArray = k * success + (n - k) * failure + log_ways
        return found
    phi = point.phi[:, None]
    a, b = phi * (1 - lapse) * expit(eta), phi * (lapse + (1 - lapse) * expit(-eta))
    rising = gammaln(a + k) - gammaln(a) + gammaln(b + n - k) - gammaln(b)
    return rising - gammaln(phi + n) + gammaln(phi) + log_ways


def draw_successes(
    p: FloatArray,
    n: FloatArray,
    phi: FloatArray | float | None,
    rng: np.random.Generator,
    size: tuple[int, ...] | None = None,
) -> FloatArray:
    """Draw successes in n runs of mean probability p, alike by the precision phi if finite."""
    if phi is not None and np.isfinite(phi).all():
        least = np.finfo(float).tiny
        p = rng.beta(np.maximum(phi * p, least), np.maximum(phi * (1 - p), least), size)
    return rng.binomial(np.asarray(n).astype(np.int64), p, size).astype(float)


def _cell_logits(point: Point, cells: Cells) -> FloatArray:
    """Return the logit (draw, cell), lapses aside."""
    length = point.equivalent_length[:, cells.task]
    logits: FloatArray = point.alpha[:, cells.agent] + point.beta[:, cells.agent] * length
    if point.log_discrimination is not None:
        logits *= np.exp(point.log_discrimination[:, cells.task])
    return logits


def agent_success(point: Point, agent: int) -> FloatArray:
    """Return one agent's probability of success (draw, task) from draws (draw, ...)."""
    alpha, beta = point.alpha[:, agent, None], point.beta[:, agent, None]
    logits: FloatArray = alpha + beta * point.equivalent_length
    if point.log_discrimination is not None:
        logits *= np.exp(point.log_discrimination)
    success: FloatArray = expit(logits)
    if point.logit_lapse is not None:
        success *= expit(-point.logit_lapse[:, agent, None])
    return success


def mean_success(point: Point, *, thin: int = 1) -> FloatArray:
    """Return the posterior mean probability of success (agent, task), tried or not."""
    kept = point.flat(thin)
    return np.stack([agent_success(kept, a).mean(axis=0) for a in range(kept.alpha.shape[1])])


def _normal(value: FloatArray, mean: FloatArray, sd: FloatArray) -> NDArray[np.float32]:
    z = (value - mean) / sd
    logp: NDArray[np.float32] = (-0.5 * z * z - np.log(sd) - _HALF_LOG_2PI).astype(np.float32)
    return logp
