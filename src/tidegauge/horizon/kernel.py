"""The core model's log density and gradient, fused into one pass over the data.

The parameter vector is PyMC's unconstrained one (logs of the scales, log of -beta), so that the
value and gradient can be compared with `model` entry by entry. Everything lives in one float64
buffer: a header of sizes and prior parameters, then the arrays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numba
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
_SIZES = slice(0, 4)  # agents, tasks, families, failed human runs
_CONSTANT = 4
_PRIORS = 5  # mean, sd and kind of seven priors
HEADER = 5 + 3 * 7

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_KINDS = {"normal": 0.0, "truncated_normal": 0.0, "half_normal": 0.0, "half_cauchy": 1.0}

jit = numba.njit(cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
jit_exact = numba.njit(cache=True, error_model="numpy", fastmath={"contract"})  # order matters

_ROUNDING = 1.5 * 2.0**52  # added to a double, leaves the nearest whole number in its low bits
_LOG2_E = 1 / math.log(2)
_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")  # its products with whole powers are exact
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")


class Layout(NamedTuple):
    """Where each vector lies in the parameter vector."""

    mu_family: slice
    mu_task: slice
    alpha: slice
    log_slope: slice
    size: int


def layout_of(design: Design) -> Layout:
    """Return the places of the vectors for this design."""
    ends = np.cumsum(
        [N_SCALARS, len(design.families), len(design.tasks), len(design.agents), len(design.agents)]
    ).tolist()
    slices = [slice(begin, end) for begin, end in zip(ends, ends[1:], strict=False)]
    return Layout(*slices, size=ends[-1])


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
    header[_SIZES] = len(design.agents), n_tasks, len(design.families), failed_task.size
    header[_CONSTANT] = _constants(design, priors)
    for i, prior in enumerate(_prior_list(priors)):
        header[_PRIORS + 3 * i : _PRIORS + 3 * i + 3] = prior.mu, prior.sd, _KINDS[prior.kind]
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
    count = np.bincount(task, minlength=n_tasks).astype(float)
    mean = np.bincount(task, weights=log2, minlength=n_tasks) / np.maximum(count, 1)
    square = np.bincount(task, weights=(log2 - mean[task]) ** 2, minlength=n_tasks)
    return count, mean, square


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


@jit
def _prior(value, buffer, i):  # type: ignore[no-untyped-def]
    """Return the i-th prior's log density at a value, without its constant, and the slope."""
    mu, sd, kind = buffer[_PRIORS + 3 * i], buffer[_PRIORS + 3 * i + 1], buffer[_PRIORS + 3 * i + 2]
    scaled = (value - mu) / sd
    if kind == 1.0:  # half Cauchy
        return -math.log1p(scaled * scaled), -2 * scaled / sd / (1 + scaled * scaled)
    return -0.5 * scaled * scaled, -scaled / sd


@jit
def _log_scale_prior(log_sigma, buffer, i):  # type: ignore[no-untyped-def]
    """Return the same for a scale by its logarithm, Jacobian included."""
    sigma = math.exp(log_sigma)
    value, slope = _prior(sigma, buffer, i)
    return value + log_sigma, slope * sigma + 1


@jit
def _log_survival(z):  # type: ignore[no-untyped-def]
    """Return log P(Z > z) of a standard normal and its hazard, without underflow."""
    if z < 5:
        tail = 0.5 * math.erfc(z / math.sqrt(2.0))
        return math.log(tail), math.exp(-0.5 * z * z - _HALF_LOG_2PI) / tail
    # Continued fraction of the Mills ratio: six levels are exact to 1e-10 from here on.
    ratio = z
    for level in range(40, 0, -1):
        ratio = z + level / ratio
    return -0.5 * z * z - _HALF_LOG_2PI - math.log(ratio), ratio


@jit
def log_density(x, gradient, buffer):  # type: ignore[no-untyped-def]
    """Return the log density at `x` and write its gradient."""
    n_agents, n_tasks = int(buffer[0]), int(buffer[1])
    n_families, n_failed = int(buffer[2]), int(buffer[3])
    first_task = buffer[HEADER : HEADER + n_families + 1]
    at = HEADER + n_families + 1
    moments = buffer[at : at + 6 * n_tasks].reshape(6, n_tasks)
    at += 6 * n_tasks
    cells = buffer[at : at + 2 * n_agents * n_tasks].reshape(2, n_agents, n_tasks)
    failed = buffer[at + 2 * n_agents * n_tasks :].reshape(2, n_failed)
    end_family = N_SCALARS + n_families
    end_task = end_family + n_tasks
    mu_task, task_gradient = x[end_family:end_task], gradient[end_family:end_task]

    logp = buffer[_CONSTANT]
    gradient[:] = 0
    logp += _hierarchy(x, gradient, buffer, first_task, mu_task, task_gradient)
    logp += _lengths(x, gradient, moments, failed, mu_task, task_gradient)
    logp += _agents(
        x[end_task : end_task + n_agents],
        x[end_task + n_agents :],
        gradient[end_task : end_task + n_agents],
        gradient[end_task + n_agents :],
        buffer,
        cells,
        mu_task,
        task_gradient,
    )
    return logp


@jit
def _hierarchy(x, gradient, buffer, first_task, mu_task, task_gradient):  # type: ignore[no-untyped-def]
    """Add the priors of the scalars and the Normal layers of families and tasks."""
    logp, gradient[MU_GLOBAL] = _prior(x[MU_GLOBAL], buffer, 0)
    for i in range(1, N_SCALARS):
        value, gradient[i] = _log_scale_prior(x[i], buffer, i)
        logp += value
    n_families = first_task.size - 1
    precision_global = math.exp(-2 * x[LOG_SIGMA_GLOBAL])
    precision_family = math.exp(-2 * x[LOG_SIGMA_FAMILY])
    square_global, square_family = 0.0, 0.0
    for f in range(n_families):
        mu_family = x[N_SCALARS + f]
        distance = mu_family - x[MU_GLOBAL]
        square_global += distance * distance
        gradient[MU_GLOBAL] += distance * precision_global
        family_gradient = -distance * precision_global
        for t in range(int(first_task[f]), int(first_task[f + 1])):
            distance = mu_task[t] - mu_family
            square_family += distance * distance
            family_gradient += distance * precision_family
            task_gradient[t] -= distance * precision_family
        gradient[N_SCALARS + f] = family_gradient
    gradient[LOG_SIGMA_GLOBAL] += square_global * precision_global - n_families
    gradient[LOG_SIGMA_FAMILY] += square_family * precision_family - mu_task.size
    logp -= 0.5 * square_global * precision_global + n_families * x[LOG_SIGMA_GLOBAL]
    logp -= 0.5 * square_family * precision_family + mu_task.size * x[LOG_SIGMA_FAMILY]
    return logp


@jit
def _lengths(x, gradient, moments, failed, mu_task, task_gradient):  # type: ignore[no-untyped-def]
    """Add human runs and estimates by their sufficient statistics, and censored failures."""
    logp = 0.0
    for kind in range(2):
        log_sigma = x[LOG_SIGMA_HUMAN + kind]
        precision = math.exp(-2 * log_sigma)
        count, mean, square = moments[3 * kind], moments[3 * kind + 1], moments[3 * kind + 2]
        total, number = 0.0, 0.0
        for t in range(mu_task.size):
            distance = mean[t] - mu_task[t]
            total += square[t] + count[t] * distance * distance
            number += count[t]
            task_gradient[t] += count[t] * distance * precision
        gradient[LOG_SIGMA_HUMAN + kind] += total * precision - number
        logp -= 0.5 * total * precision + number * log_sigma
    inverse = math.exp(-x[LOG_SIGMA_HUMAN])
    for i in range(failed.shape[1]):
        t = int(failed[0, i])
        z = (failed[1, i] - mu_task[t]) * inverse
        value, hazard = _log_survival(z)
        logp += value
        task_gradient[t] += hazard * inverse
        gradient[LOG_SIGMA_HUMAN] += hazard * z
    return logp


@jit_exact
def _exp_series(x):  # type: ignore[no-untyped-def]
    """Return exp(x) for |x| < 0.35, as straight-line code: a loop would cost the lanes."""
    tail = 1 / 40320 + x * (1 / 362880 + x * (1 / 3628800 + x * (1 / 39916800 + x * (1 / 479001600))))
    tail = 1 / 24 + x * (1 / 120 + x * (1 / 720 + x * (1 / 5040 + x * tail)))
    return 1 + x * (1 + x * (1 / 2 + x * (1 / 6 + x * tail)))


@jit_exact
def _atanh_series(s):  # type: ignore[no-untyped-def]
    """Return atanh(r) / r by s = r**2, for s <= 1/9."""
    tail = 1 / 25 + s * (1 / 27 + s * (1 / 29 + s * (1 / 31 + s * (1 / 33))))
    tail = 1 / 17 + s * (1 / 19 + s * (1 / 21 + s * (1 / 23 + s * tail)))
    tail = 1 / 9 + s * (1 / 11 + s * (1 / 13 + s * (1 / 15 + s * tail)))
    return 1 + s * (1 / 3 + s * (1 / 5 + s * (1 / 7 + s * tail)))


@jit_exact
def logistic_terms(eta, won, softplus, small):  # type: ignore[no-untyped-def]
    """Write logistic(eta) and log(1 + exp(eta)), accurate to a few units in the last place.

    Written so that the compiler can do several at once, which it cannot with the library's exp:
    exp by splitting off the power of two (its exponent made in the bits of `small`), log1p by the
    series of the inverse hyperbolic tangent.
    """
    bits = small.view(np.int64)
    for i in range(eta.size):
        small[i] = _ROUNDING - min(abs(eta[i]), 700.0) * _LOG2_E
    for i in range(eta.size):
        power = small[i] - _ROUNDING
        rest = (-min(abs(eta[i]), 700.0) - power * _LN2_HIGH) - power * _LN2_LOW
        softplus[i] = _exp_series(rest)
    for i in range(eta.size):
        bits[i] = (bits[i] << 52) + (1023 << 52)
    for i in range(eta.size):
        below = softplus[i] * small[i]  # exp(-|eta|)
        won[i] = (1.0 if eta[i] > 0 else below) / (1 + below)
        ratio = below / (2 + below)
        softplus[i] = max(eta[i], 0.0) + 2 * ratio * _atanh_series(ratio * ratio)


@jit
def _agents(alpha, log_slope, alpha_gradient, slope_gradient, buffer, cells, mu_task, task_gradient):  # type: ignore[no-untyped-def]
    """Add the agents' priors and the binomial cells; the only part of size agents x tasks."""
    logp = 0.0
    eta, won = np.empty(mu_task.size), np.empty(mu_task.size)
    softplus, scratch = np.empty(mu_task.size), np.empty(mu_task.size)
    for a in range(alpha.size):
        beta = -math.exp(log_slope[a])
        value, prior_alpha = _prior(alpha[a], buffer, 5)
        logp += value
        value, prior_beta = _prior(beta, buffer, 6)
        logp += value + log_slope[a]  # Jacobian of the logarithm
        attempts, successes = cells[0, a], cells[1, a]
        for t in range(mu_task.size):
            eta[t] = alpha[a] + beta * mu_task[t]
        logistic_terms(eta, won, softplus, scratch)
        by_alpha, by_beta, fit = 0.0, 0.0, 0.0
        for t in range(mu_task.size):
            fit += successes[t] * eta[t] - attempts[t] * softplus[t]
            residual = successes[t] - attempts[t] * won[t]
            by_alpha += residual
            by_beta += residual * mu_task[t]
            task_gradient[t] += beta * residual
        logp += fit
        alpha_gradient[a] = prior_alpha + by_alpha
        slope_gradient[a] = beta * (prior_beta + by_beta) + 1
    return logp


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
        x[..., MU_GLOBAL],
        *(np.exp(x[..., i]) for i in range(LOG_SIGMA_GLOBAL, N_SCALARS)),
        mu_family=x[..., layout.mu_family],
        mu_task=x[..., layout.mu_task],
        alpha=x[..., layout.alpha],
        beta=-np.exp(x[..., layout.log_slope]),
    )
