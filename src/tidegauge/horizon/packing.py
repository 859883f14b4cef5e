"""Where everything lies: the parameter vector and the data buffer of the compiled functions.

The parameter vector is PyMC's unconstrained one (logs of the scales, log of -beta). The buffer is
one float64 array: a header of sizes and prior parameters, then the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, log_ndtr

from tidegauge.engine.priors import Prior
from tidegauge.horizon.design import Design
from tidegauge.horizon.options import HorizonOptions, HorizonPriors

FloatArray = NDArray[np.float64]

# Positions of the scalars in the parameter vector; vectors follow in the order of Layout.
MU_GLOBAL, LOG_SIGMA_GLOBAL, LOG_SIGMA_FAMILY, LOG_SIGMA_HUMAN, LOG_SIGMA_ESTIMATE = range(5)
N_SCALARS = 5

# Positions in the buffer's header.
SIZES = slice(0, 4)  # agents, tasks, families, failed human runs
CONSTANT = 4
PRIORS = 5  # mean, sd and kind of seven priors
HEADER = 5 + 3 * 7

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_KINDS = {"normal": 0.0, "truncated_normal": 0.0, "half_normal": 0.0, "half_cauchy": 1.0}


class Layout(NamedTuple):
    """Where each vector lies in the parameter vector."""

    mu_family: slice
    mu_task: slice
    alpha: slice
    log_slope: slice
    size: int


def layout_of(design: Design) -> Layout:
    """Return the places of the vectors for this design."""
    family = N_SCALARS + len(design.families)
    task = family + len(design.tasks)
    alpha = task + len(design.agents)
    size = alpha + len(design.agents)
    return Layout(
        mu_family=slice(N_SCALARS, family),
        mu_task=slice(family, task),
        alpha=slice(task, alpha),
        log_slope=slice(alpha, size),
        size=size,
    )


def pack_data(design: Design, priors: HorizonPriors, options: HorizonOptions) -> FloatArray:
    """Lay out everything the compiled functions need in one buffer.

    Returns
    -------
    ndarray
        Header; then per family the index of its first task (one more entry closes the last);
        per task the number, mean and sum of squares about it of human logs, and the number and
        mean of estimates; the agents x tasks attempts and successes; the failed runs' tasks and
        logs.
    """
    n_tasks = len(design.tasks)
    count, mean, square = _moments(design.run_task, design.run_log2, n_tasks)
    n_estimates, estimate, estimate_square = _moments(
        design.estimate_task, design.estimate_log2, n_tasks
    )
    first_task = np.searchsorted(design.task_family, np.arange(len(design.families) + 1))
    keeps_failed = options.censors_failures
    failed_task = design.failed_task if keeps_failed else design.failed_task[:0]
    failed_log2 = design.failed_log2 if keeps_failed else design.failed_log2[:0]
    header = np.zeros(HEADER)
    header[SIZES] = len(design.agents), n_tasks, len(design.families), failed_task.size
    header[CONSTANT] = _constants(design, priors)
    for i, prior in enumerate(_prior_list(priors)):
        header[PRIORS + 3 * i : PRIORS + 3 * i + 3] = prior.mu, prior.sd, _KINDS[prior.kind]
    arrays = (
        *(header, first_task, count, mean, square, n_estimates, estimate, estimate_square),
        *(design.attempts, design.successes, failed_task, failed_log2),
    )
    return np.concatenate([np.ravel(array).astype(float) for array in arrays])


def _prior_list(priors: HorizonPriors) -> list[Prior]:
    return [
        *(priors.mu_global, priors.sigma_global, priors.sigma_family, priors.sigma_human),
        *(priors.sigma_estimate, priors.alpha, priors.beta),
    ]


def _moments(
    task: NDArray[np.int64], log2: FloatArray, n_tasks: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    count: FloatArray = np.bincount(task, minlength=n_tasks).astype(float)
    total: FloatArray = np.bincount(task, weights=log2, minlength=n_tasks).astype(float)
    mean = total / np.maximum(count, 1)
    square = np.bincount(task, weights=(log2 - mean[task]) ** 2, minlength=n_tasks)
    return count, mean, square.astype(float)


def _constants(design: Design, priors: HorizonPriors) -> float:
    """Sum what does not depend on the parameters: normalisers and binomial coefficients."""
    n, k = design.attempts, design.successes
    constant = float(np.sum(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)))
    n_agents = len(design.agents)
    copies = [1, 1, 1, 1, 1, n_agents, n_agents]
    for prior, number in zip(_prior_list(priors), copies, strict=True):
        constant += number * _log_normaliser(prior)
    n_normals = len(design.families) + len(design.tasks)
    n_normals += design.run_task.size + design.estimate_task.size
    return constant - n_normals * _HALF_LOG_2PI


def _log_normaliser(prior: Prior) -> float:
    match prior.kind:
        case "half_cauchy":
            return math.log(2 / math.pi / prior.sd)
        case "half_normal":
            return math.log(2) - _HALF_LOG_2PI - math.log(prior.sd)
        case "truncated_normal":
            inside = float(log_ndtr((prior.upper - prior.mu) / prior.sd))
            return -_HALF_LOG_2PI - math.log(prior.sd) - inside
        case _:
            return -_HALF_LOG_2PI - math.log(prior.sd)


@dataclass(frozen=True)
class Point:
    """A parameter vector, unpacked; arrays may have leading (chain, draw) dimensions."""

    mu_global: FloatArray
    sigma_global: FloatArray
    sigma_family: FloatArray
    sigma_human: FloatArray
    sigma_estimate: FloatArray
    mu_family: FloatArray
    mu_task: FloatArray
    alpha: FloatArray
    beta: FloatArray


def unpack(x: FloatArray, layout: Layout) -> Point:
    """Name and constrain the entries of one vector, or of draws (..., size)."""
    return Point(
        mu_global=x[..., MU_GLOBAL],
        sigma_global=np.exp(x[..., LOG_SIGMA_GLOBAL]),
        sigma_family=np.exp(x[..., LOG_SIGMA_FAMILY]),
        sigma_human=np.exp(x[..., LOG_SIGMA_HUMAN]),
        sigma_estimate=np.exp(x[..., LOG_SIGMA_ESTIMATE]),
        mu_family=x[..., layout.mu_family],
        mu_task=x[..., layout.mu_task],
        alpha=x[..., layout.alpha],
        beta=-np.exp(x[..., layout.log_slope]),
    )
