"""The core model's log density and gradient, fused into one pass over the data.

`packing` says where everything lies in the parameter vector and in the data buffer; a test holds
value and gradient equal to those of `model`, entry by entry.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from tidegauge.horizon.packing import (
    CONSTANT,
    HEADER,
    LOG_SIGMA_FAMILY,
    LOG_SIGMA_GLOBAL,
    LOG_SIGMA_HUMAN,
    MU_GLOBAL,
    N_SCALARS,
    PRIORS,
)

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
jit = numba.njit(cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
jit_exact = numba.njit(cache=True, error_model="numpy", fastmath={"contract"})  # order matters

_ROUNDING = 1.5 * 2.0**52  # added to a double, leaves the nearest whole number in its low bits
_LOG2_E = 1 / math.log(2)
_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")  # its products with whole powers are exact
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")


@jit
def _prior(value, buffer, i):  # type: ignore[no-untyped-def]
    """Return the i-th prior's log density at a value, without its constant, and the slope."""
    mu, sd, kind = buffer[PRIORS + 3 * i], buffer[PRIORS + 3 * i + 1], buffer[PRIORS + 3 * i + 2]
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
        hazard = math.exp(-0.5 * z * z - _HALF_LOG_2PI) / tail
        value = math.log(tail) if z > 0 else math.log1p(-0.5 * math.erfc(-z / math.sqrt(2.0)))
        return value, hazard
    # Continued fraction of the Mills ratio: forty levels are exact to the last digit from here.
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

    logp = buffer[CONSTANT]
    gradient[:] = 0
    logp += _hierarchy(x, gradient, buffer, first_task, mu_task, task_gradient)
    logp += _lengths(x, gradient, moments, failed, mu_task, task_gradient)
    logp += _agents(x[end_task:], gradient[end_task:], buffer, cells, mu_task, task_gradient)
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
    tail = 1 / 40320 + x * (
        1 / 362880 + x * (1 / 3628800 + x * (1 / 39916800 + x * (1 / 479001600)))
    )
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
def _agents(x, gradient, buffer, cells, mu_task, task_gradient):  # type: ignore[no-untyped-def]
    """Add the agents' priors and the binomial cells; the only part of size agents x tasks."""
    logp = 0.0
    eta, won = np.empty(mu_task.size), np.empty(mu_task.size)
    softplus, scratch = np.empty(mu_task.size), np.empty(mu_task.size)
    n_agents = cells.shape[1]
    for a in range(n_agents):
        alpha, log_slope = x[a], x[n_agents + a]
        beta = -math.exp(log_slope)
        value, prior_alpha = _prior(alpha, buffer, 5)
        logp += value
        value, prior_beta = _prior(beta, buffer, 6)
        logp += value + log_slope  # Jacobian of the logarithm
        attempts, successes = cells[0, a], cells[1, a]
        for t in range(mu_task.size):
            eta[t] = alpha + beta * mu_task[t]
        logistic_terms(eta, won, softplus, scratch)
        by_alpha, by_beta, fit = 0.0, 0.0, 0.0
        for t in range(mu_task.size):
            fit += successes[t] * eta[t] - attempts[t] * softplus[t]
            residual = successes[t] - attempts[t] * won[t]
            by_alpha += residual
            by_beta += residual * mu_task[t]
            task_gradient[t] += beta * residual
        logp += fit
        gradient[a] = prior_alpha + by_alpha
        gradient[n_agents + a] = beta * (prior_beta + by_beta) + 1
    return logp
