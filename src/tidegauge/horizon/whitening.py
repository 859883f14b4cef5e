"""Coordinates in which the posterior is round; exact, since only the coordinates change.

Given the scales, human runs, estimates and families are Gaussian, so each mean is written as its
conditional mean plus its conditional sd times an innovation z: neither centred nor non-centred,
but as far from either as the data ask. What the agents say of a task enters the same way, as a
Gaussian pseudo-observation at a reference point that shapes the coordinates and nothing else; it
moves with the agents, so that a common shift or stretch of all difficulties is no ridge.
An agent is the pair (its logit at the difficulty where its runs are informative, s with
beta = -log(1 + exp(s)): a logarithm where the slope is flat, the slope itself where it is steep);
all agents together are a reference plus a matrix times innovations, by their marginal precision.
"""

from __future__ import annotations

import functools
import math

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from tidegauge.engine.sampling import CompiledFunction, LogDensity
from tidegauge.horizon.design import Design
from tidegauge.horizon.kernel import jit, log_density
from tidegauge.horizon.options import HorizonOptions, HorizonPriors
from tidegauge.horizon.packing import (
    HEADER,
    LOG_SIGMA_ESTIMATE,
    LOG_SIGMA_FAMILY,
    LOG_SIGMA_GLOBAL,
    LOG_SIGMA_HUMAN,
    MU_GLOBAL,
    N_SCALARS,
    layout_of,
    pack_data,
)
from tidegauge.horizon.reference import Reference

FloatArray = NDArray[np.float64]

_START_SD = 0.5  # of the dispersed starts, in whitened units


def whitened_density(
    design: Design, priors: HorizonPriors, options: HorizonOptions, reference: Reference
) -> LogDensity:
    """Return the model's log density in the coordinates that `reference` shapes."""
    layout = layout_of(design)
    data = pack_data(design, priors, options)
    shape = (reference.precision, reference.location, reference.pivot, reference.center)
    matrices = (reference.pull.ravel(), reference.spread.ravel())
    center = np.zeros(layout.size)
    center[LOG_SIGMA_GLOBAL:N_SCALARS] = reference.log_scales

    def initial(seed: int) -> FloatArray:
        jitter = np.random.default_rng(seed).normal(0, _START_SD, layout.size)
        return center + jitter

    function, identity = _compiled()
    return LogDensity(
        function=function,
        identity=identity,
        data=np.concatenate([data, *shape, *matrices, [data.size]]),
        size=layout.size,
        initial=initial,
    )


def to_centred(density: LogDensity, z: FloatArray) -> FloatArray:
    """Map whitened draws (..., size) to the model's own unconstrained coordinates."""
    flat = np.ascontiguousarray(z.reshape(-1, density.size))
    centred = np.empty_like(flat)
    _map_all(flat, centred, density.data)
    return centred.reshape(z.shape)


@jit
def _softplus(s):  # type: ignore[no-untyped-def]
    return max(s, 0.0) + math.log1p(math.exp(-abs(s)))


@jit
def _agents_forward(z, x, shape, n_levels):  # type: ignore[no-untyped-def]
    """Write the agents of `z` into `x`; return their deviations and the log determinant."""
    _, _, pivot, center, _, spread = shape
    n = pivot.size
    deviation = np.zeros(2 * n)
    log_determinant = 0.0
    for i in range(2 * n):
        log_determinant += math.log(spread[i, i])
        for j in range(i, 2 * n):
            deviation[i] += spread[i, j] * z[n_levels + j]
    for a in range(n):
        steepness = _softplus(center[n + a] + deviation[n + a])
        log_slope = math.log(steepness)
        x[n_levels + n + a] = log_slope
        x[n_levels + a] = center[a] + deviation[a] + steepness * pivot[a]
        log_determinant += math.log(-math.expm1(-steepness)) - log_slope
    return deviation, log_determinant


@jit
def _agents_backward(x, gx, gz, by_location, shape, n_levels):  # type: ignore[no-untyped-def]
    """Carry the gradient by the agents, own and through the tasks' locations, back to `z`."""
    _, _, pivot, _, pull, spread = shape
    n = pivot.size
    by_pair = np.empty(2 * n)
    for a in range(n):
        by_alpha, by_log_slope = gx[n_levels + a], gx[n_levels + n + a]
        steepness = math.exp(x[n_levels + n + a])
        steepening = -math.expm1(-steepness)  # derivative of the steepness by s
        by_pair[a] = by_alpha
        by_pair[n + a] = steepening * (by_alpha * pivot[a] + (by_log_slope - 1) / steepness)
        by_pair[n + a] += 1 - steepening  # of the log determinant
    for t in range(by_location.size):
        for j in range(2 * n):
            by_pair[j] += by_location[t] * pull[t, j]
    gz[n_levels:] = 0
    for i in range(2 * n):
        for j in range(i, 2 * n):
            gz[n_levels + j] += spread[i, j] * by_pair[i]


@jit
def _task_information(x, buffer, shape, deviation):  # type: ignore[no-untyped-def]
    """Return per task the precision of all that is Gaussian about it, and times its location."""
    precision, location, _, _, pull, _ = shape
    n_tasks, n_families = int(buffer[1]), int(buffer[2])
    at = HEADER + n_families + 1
    moments = buffer[at : at + 6 * n_tasks].reshape(6, n_tasks)
    human, estimate = math.exp(-2 * x[LOG_SIGMA_HUMAN]), math.exp(-2 * x[LOG_SIGMA_ESTIMATE])
    information = np.empty((4, n_tasks))  # d, b of all; then the parts of runs and estimates
    for t in range(n_tasks):
        by_human = moments[0, t] * human
        by_estimate = moments[3, t] * estimate
        moved = location[t]
        for j in range(deviation.size):
            moved += pull[t, j] * deviation[j]
        information[0, t] = by_human + by_estimate + precision[t]
        information[1, t] = (
            by_human * moments[1, t] + by_estimate * moments[4, t] + precision[t] * moved
        )
        information[2, t], information[3, t] = by_human, by_estimate
    return information


@jit
def _forward(z, x, buffer, first_task, information, work):  # type: ignore[no-untyped-def]
    """Write the centred levels of `z` and return the log determinant of the map.

    `work` keeps, per family, its shrinkage, precision and information.
    """
    n_families = int(buffer[2])
    x[1:N_SCALARS] = z[1:N_SCALARS]
    var_global = math.exp(2 * x[LOG_SIGMA_GLOBAL])
    var_family = math.exp(2 * x[LOG_SIGMA_FAMILY])
    prior_mean, prior_sd = buffer[5], buffer[6]
    precision_all = 1 / (prior_sd * prior_sd)
    information_all = prior_mean * precision_all
    for f in range(n_families):
        q, h = 0.0, 0.0
        for t in range(int(first_task[f]), int(first_task[f + 1])):
            shrink = 1 / (1 + var_family * information[0, t])
            q += information[0, t] * shrink
            h += information[1, t] * shrink
        work[0, f], work[1, f], work[2, f] = 1 / (1 + var_global * q), q, h
        precision_all += q * work[0, f]
        information_all += h * work[0, f]
    mu_global = information_all / precision_all + z[MU_GLOBAL] / math.sqrt(precision_all)
    x[MU_GLOBAL] = mu_global
    work[0, n_families], work[1, n_families] = precision_all, information_all
    log_determinant = -0.5 * math.log(precision_all)
    for f in range(n_families):
        shrink, h = work[0, f], work[2, f]
        sd = math.sqrt(var_global * shrink)
        mu_family = shrink * (mu_global + var_global * h) + sd * z[N_SCALARS + f]
        x[N_SCALARS + f] = mu_family
        log_determinant += math.log(sd)
        for t in range(int(first_task[f]), int(first_task[f + 1])):
            shrink = 1 / (1 + var_family * information[0, t])
            sd = math.sqrt(var_family * shrink)
            i = N_SCALARS + n_families + t
            x[i] = shrink * (mu_family + var_family * information[1, t]) + sd * z[i]
            log_determinant += math.log(sd)
    return log_determinant


@jit
def _backward(z, x, gx, gz, buffer, first_task, information, work):  # type: ignore[no-untyped-def]
    """Carry the gradient by `x` (and of the log determinant) back to `z`: reverse mode by hand.

    Returns the gradient by each task's information (precision times location).
    """
    n_tasks, n_families = int(buffer[1]), int(buffer[2])
    gz[:] = gx
    var_global = math.exp(2 * x[LOG_SIGMA_GLOBAL])
    var_family = math.exp(2 * x[LOG_SIGMA_FAMILY])
    precision_all, information_all = work[0, n_families], work[1, n_families]
    by_global = gx[MU_GLOBAL]
    # Families and tasks, given the level above.
    by_shrink, by_b = np.empty(n_tasks), np.empty(n_tasks)
    by_family_shrink, by_h = np.empty(n_families), np.empty(n_families)
    for f in range(n_families):
        mu_family = x[N_SCALARS + f]
        by_family = gx[N_SCALARS + f]
        for t in range(int(first_task[f]), int(first_task[f + 1])):
            i = N_SCALARS + n_families + t
            b = information[1, t]
            shrink = 1 / (1 + var_family * information[0, t])
            sd = math.sqrt(var_family * shrink)
            gz[i] = gx[i] * sd
            by_family += gx[i] * shrink
            by_b[t] = gx[i] * shrink * var_family
            by_shrink[t] = gx[i] * (mu_family + var_family * b) + 0.5 * (gz[i] * z[i] + 1) / shrink
            gz[LOG_SIGMA_FAMILY] += 2 * by_b[t] * b + gz[i] * z[i] + 1
        shrink, h = work[0, f], work[2, f]
        sd = math.sqrt(var_global * shrink)
        g = by_family * sd
        gz[N_SCALARS + f] = g
        by_global += by_family * shrink
        by_h[f] = by_family * shrink * var_global
        by_family_shrink[f] = (
            by_family * (x[MU_GLOBAL] + var_global * h) + 0.5 * (g * z[N_SCALARS + f] + 1) / shrink
        )
        gz[LOG_SIGMA_GLOBAL] += 2 * by_h[f] * h + g * z[N_SCALARS + f] + 1
    # The global mean, and through it the precisions and informations of everything below.
    root = math.sqrt(precision_all)
    gz[MU_GLOBAL] = by_global / root
    by_information = by_global / precision_all
    by_precision = (
        -by_global * information_all / precision_all - 0.5 * gz[MU_GLOBAL] * z[MU_GLOBAL] - 0.5
    ) / precision_all
    for f in range(n_families):
        shrink, q, h = work[0, f], work[1, f], work[2, f]
        by_k = by_family_shrink[f] + by_information * h + by_precision * q
        by_q = by_precision * shrink - by_k * var_global * shrink * shrink
        by_hf = by_h[f] + by_information * shrink
        gz[LOG_SIGMA_GLOBAL] -= 2 * by_k * q * var_global * shrink * shrink
        for t in range(int(first_task[f]), int(first_task[f + 1])):
            d, b = information[0, t], information[1, t]
            shrink_t = 1 / (1 + var_family * d)
            by_k_t = by_shrink[t] + by_q * d + by_hf * b
            by_d = by_q * shrink_t - by_k_t * var_family * shrink_t * shrink_t
            gz[LOG_SIGMA_FAMILY] -= 2 * by_k_t * d * var_family * shrink_t * shrink_t
            by_b[t] += by_hf * shrink_t
            _to_noise_scales(gz, buffer, information, t, by_d, by_b[t])
    return by_b


@jit
def _to_noise_scales(gz, buffer, information, t, by_d, by_b):  # type: ignore[no-untyped-def]
    n_tasks = int(buffer[1])
    at = HEADER + int(buffer[2]) + 1
    human_mean, estimate_mean = buffer[at + n_tasks + t], buffer[at + 4 * n_tasks + t]
    gz[LOG_SIGMA_HUMAN] -= 2 * information[2, t] * (by_d + by_b * human_mean)
    gz[LOG_SIGMA_ESTIMATE] -= 2 * information[3, t] * (by_d + by_b * estimate_mean)


@jit
def _split(buffer):  # type: ignore[no-untyped-def]
    """Return the kernel's data, the families' first tasks and the reference."""
    at = int(buffer[buffer.size - 1])
    data = buffer[:at]
    n_agents, n_tasks, n_families = int(buffer[0]), int(buffer[1]), int(buffer[2])
    first_task = buffer[HEADER : HEADER + n_families + 1]
    precision, location = buffer[at : at + n_tasks], buffer[at + n_tasks : at + 2 * n_tasks]
    at += 2 * n_tasks
    pivot, center = buffer[at : at + n_agents], buffer[at + n_agents : at + 3 * n_agents]
    at += 3 * n_agents
    pull = buffer[at : at + 2 * n_agents * n_tasks].reshape(n_tasks, 2 * n_agents)
    at += 2 * n_agents * n_tasks
    spread = buffer[at : at + 4 * n_agents * n_agents].reshape(2 * n_agents, 2 * n_agents)
    return data, first_task, (precision, location, pivot, center, pull, spread)


@jit
def whitened_log_density(z, gz, buffer):  # type: ignore[no-untyped-def]
    """Return the log density at whitened `z` and write its gradient."""
    data, first_task, shape = _split(buffer)
    x, gx, work = np.empty(z.size), np.empty(z.size), np.empty((3, first_task.size))
    n_levels = z.size - 2 * int(data[0])
    deviation, log_determinant = _agents_forward(z, x, shape, n_levels)
    information = _task_information(z, data, shape, deviation)
    log_determinant += _forward(z, x, data, first_task, information, work)
    logp = log_density(x, gx, data)
    by_location = _backward(z, x, gx, gz, data, first_task, information, work)
    by_location *= shape[0]
    _agents_backward(x, gx, gz, by_location, shape, n_levels)
    return logp + log_determinant


@jit
def _map_all(z, x, buffer):  # type: ignore[no-untyped-def]
    data, first_task, shape = _split(buffer)
    work = np.empty((3, first_task.size))
    n_levels = z.shape[1] - 2 * int(data[0])
    for i in range(z.shape[0]):
        deviation, _ = _agents_forward(z[i], x[i], shape, n_levels)
        information = _task_information(z[i], data, shape, deviation)
        _forward(z[i], x[i], data, first_task, information, work)


@jit
def _length_of(data):  # type: ignore[no-untyped-def]
    """Return the buffer's length from its header, so that one pointer is enough."""
    n_agents, n_tasks = int(data[0]), int(data[1])
    n_families, n_failed = int(data[2]), int(data[3])
    kernel = HEADER + n_families + 1 + 6 * n_tasks + 2 * n_agents * n_tasks + 2 * n_failed
    pairs = 2 * n_agents
    return kernel + 2 * n_tasks + n_agents + pairs + pairs * n_tasks + pairs * pairs + 1


def _density_for_nutpie(n, z_, gradient_, logp_, data_):  # type: ignore[no-untyped-def]
    z, gradient = numba.carray(z_, (n,)), numba.carray(gradient_, (n,))
    logp = whitened_log_density(z, gradient, numba.carray(data_, (_length_of(data_),)))
    logp_[0] = logp
    if not math.isfinite(logp):
        return 1
    for i in range(n):
        if not math.isfinite(gradient[i]):
            return 1
    return 0


def _identity_for_nutpie(n, n_out, z_, out_, data_):  # type: ignore[no-untyped-def]
    for i in range(n):
        out_[i] = z_[i]
    return 0


@functools.cache
def _compiled() -> tuple[CompiledFunction, CompiledFunction]:
    """Compile for nutpie, or load from numba's cache: at first use, never at import."""
    size, pointer = types.uint64, types.CPointer(types.float64)
    compile_ = functools.partial(numba.cfunc, cache=True, error_model="numpy")
    return (
        compile_(types.int64(size, *[pointer] * 4))(_density_for_nutpie),
        compile_(types.int64(size, size, *[pointer] * 3))(_identity_for_nutpie),
    )
