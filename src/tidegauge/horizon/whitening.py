"""Coordinates in which the posterior is round; exact, since only the coordinates change.

Given the scales, human runs, estimates and families are Gaussian, so each mean is written as its
conditional mean plus its conditional sd times an innovation z: neither centred nor non-centred,
but as far from either as the data ask. What the agents say of a task enters the same way, as a
Gaussian pseudo-observation at a reference point that shapes the coordinates and nothing else.
An agent is (its logit at the difficulty where its runs are informative, log of -beta).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray
from scipy.special import expit

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

FloatArray = NDArray[np.float64]

_START_SD = 0.5  # of the dispersed starts, in whitened units


@dataclass(frozen=True)
class Reference:
    """The point that shapes the coordinates.

    Attributes
    ----------
    precision, location : ndarray, shape (task,)
        What the agents' runs say of each task's difficulty there, as a Gaussian.
    pivot : ndarray, shape (agent,)
        Difficulty at which an agent's runs are informative, log2 minutes.
    log_scales : ndarray, shape (4,)
        Logs of sigma_global, sigma_family, sigma_human, sigma_estimate: where chains start.
    ability, log_slope : ndarray, shape (agent,)
        Logit at the pivot and log of -beta: where chains start.
    """

    precision: FloatArray
    location: FloatArray
    pivot: FloatArray
    log_scales: FloatArray
    ability: FloatArray
    log_slope: FloatArray


def reference_at(
    design: Design,
    *,
    mu_task: FloatArray,
    alpha: FloatArray,
    beta: FloatArray,
    log_scales: FloatArray,
) -> Reference:
    """Expand the agents' likelihood to second order about a point."""
    win = expit(alpha[:, None] + beta[:, None] * mu_task)
    weight = design.attempts * win * (1 - win)
    precision = (beta[:, None] ** 2 * weight).sum(axis=0)
    slope = (beta[:, None] * (design.successes - design.attempts * win)).sum(axis=0)
    # One Newton step, but never further than two sd of a plausible prior: it is only a shape.
    step = np.clip(slope / np.maximum(precision, 1e-9), -2, 2)
    total = weight.sum(axis=1)
    typical = np.full(total.size, mu_task.mean())
    pivot = np.divide(weight @ mu_task, total, out=typical, where=total > 1e-9)
    return Reference(
        precision=precision,
        location=mu_task + step,
        pivot=pivot,
        log_scales=log_scales,
        ability=alpha + beta * pivot,
        log_slope=np.log(np.maximum(-beta, 1e-3)),
    )


def whitened_density(
    design: Design, priors: HorizonPriors, options: HorizonOptions, reference: Reference
) -> LogDensity:
    """Return the model's log density in the coordinates that `reference` shapes."""
    layout = layout_of(design)
    data = pack_data(design, priors, options)
    shape = (reference.precision, reference.location, reference.pivot)
    center = np.zeros(layout.size)
    center[LOG_SIGMA_GLOBAL:N_SCALARS] = reference.log_scales
    center[layout.alpha] = reference.ability
    center[layout.log_slope] = reference.log_slope

    def initial(seed: int) -> FloatArray:
        jitter = np.random.default_rng(seed).normal(0, _START_SD, layout.size)
        return center + jitter

    function, identity = _compiled()
    return LogDensity(
        function=function,
        identity=identity,
        data=np.concatenate([data, *shape, [data.size]]),
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
def _task_information(x, buffer, precision, location):  # type: ignore[no-untyped-def]
    """Return per task the precision of all that is Gaussian about it, and times its location."""
    n_tasks, n_families = int(buffer[1]), int(buffer[2])
    at = HEADER + n_families + 1
    moments = buffer[at : at + 6 * n_tasks].reshape(6, n_tasks)
    human, estimate = math.exp(-2 * x[LOG_SIGMA_HUMAN]), math.exp(-2 * x[LOG_SIGMA_ESTIMATE])
    information = np.empty((4, n_tasks))  # d, b of all; then the parts of human runs
    for t in range(n_tasks):
        by_human = moments[0, t] * human
        by_estimate = moments[3, t] * estimate
        information[0, t] = by_human + by_estimate + precision[t]
        information[1, t] = (
            by_human * moments[1, t] + by_estimate * moments[4, t] + precision[t] * location[t]
        )
        information[2, t], information[3, t] = by_human, by_estimate
    return information


@jit
def _forward(z, x, buffer, first_task, information, pivot, work):  # type: ignore[no-untyped-def]
    """Write the centred point of `z` and return the log determinant of the map.

    `work` keeps, per family, its shrinkage, precision and information.
    """
    n_agents, n_tasks, n_families = int(buffer[0]), int(buffer[1]), int(buffer[2])
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
    end = N_SCALARS + n_families + n_tasks
    for a in range(n_agents):
        log_slope = z[end + n_agents + a]
        x[end + n_agents + a] = log_slope
        x[end + a] = z[end + a] + math.exp(log_slope) * pivot[a]
    return log_determinant


@jit
def _backward(z, x, gx, gz, buffer, first_task, information, pivot, work):  # type: ignore[no-untyped-def]
    """Carry the gradient by `x` (and of the log determinant) back to `z`: reverse mode by hand."""
    n_agents, n_tasks, n_families = int(buffer[0]), int(buffer[1]), int(buffer[2])
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
            by_information_t = by_b[t] + by_hf * shrink_t
            _to_noise_scales(gz, buffer, information, t, by_d, by_information_t)
    end = N_SCALARS + n_families + n_tasks
    for a in range(n_agents):
        gz[end + n_agents + a] += gx[end + a] * pivot[a] * math.exp(x[end + n_agents + a])


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
    size = int(buffer[buffer.size - 1])
    n_agents, n_tasks, n_families = int(buffer[0]), int(buffer[1]), int(buffer[2])
    first_task = buffer[HEADER : HEADER + n_families + 1]
    precision = buffer[size : size + n_tasks]
    location = buffer[size + n_tasks : size + 2 * n_tasks]
    pivot = buffer[size + 2 * n_tasks : size + 2 * n_tasks + n_agents]
    return buffer[:size], first_task, precision, location, pivot


@jit
def whitened_log_density(z, gz, buffer):  # type: ignore[no-untyped-def]
    """Return the log density at whitened `z` and write its gradient."""
    data, first_task, precision, location, pivot = _split(buffer)
    x, gx, work = np.empty(z.size), np.empty(z.size), np.empty((3, first_task.size))
    information = _task_information(z, data, precision, location)
    log_determinant = _forward(z, x, data, first_task, information, pivot, work)
    logp = log_density(x, gx, data)
    _backward(z, x, gx, gz, data, first_task, information, pivot, work)
    return logp + log_determinant


@jit
def _map_all(z, x, buffer):  # type: ignore[no-untyped-def]
    data, first_task, precision, location, pivot = _split(buffer)
    work = np.empty((3, first_task.size))
    for i in range(z.shape[0]):
        information = _task_information(z[i], data, precision, location)
        _forward(z[i], x[i], data, first_task, information, pivot, work)


@jit
def _length_of(data):  # type: ignore[no-untyped-def]
    """Return the buffer's length from its header, so that one pointer is enough."""
    n_agents, n_tasks = int(data[0]), int(data[1])
    n_families, n_failed = int(data[2]), int(data[3])
    kernel = HEADER + n_families + 1 + 6 * n_tasks + 2 * n_agents * n_tasks + 2 * n_failed
    return kernel + 2 * n_tasks + n_agents + 1


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
