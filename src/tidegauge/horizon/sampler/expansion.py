"""The constants of the coordinates: a second-order (Laplace) expansion about a point.

It is computed twice per fit, about a ridge regression and about the middle of a pilot run; a poor
one costs speed, never correctness.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.linalg import splu
from scipy.special import digamma, expit, log_ndtr

from tidegauge.arrays import FloatArray, IntArray
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.density.buffer import Expansion
from tidegauge.horizon.model.human_noise import GUMBEL_MEAN, GUMBEL_SD, noise_sd
from tidegauge.horizon.model.observations import (
    failed_runs,
    human_runs,
    scored_successes,
    source_index,
)
from tidegauge.horizon.model.options import HorizonOptions, HorizonPriors
from tidegauge.horizon.model.parameters import Point, layout_of, unpack
from tidegauge.horizon.sampler.expansion_agents import Pairs, expand_agents, pairs_at

_LONGEST_STEP = 2.0  # of one Newton step, log2 minutes or logits: it is only a shape
_LEAST = 1e-9  # precision, in place of none
_LEAST_CHANCE = 1e-12  # of success or failure: below, a shape would gain nothing
_SHAPE_BITS = 20  # of a mantissa: ample for a shape, and rounding errors do not reach them
_HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)
_SCALES = (1e-3, 1e3)  # log2 minutes or logits: beyond, a shape would gain nothing but rounding


class Reference(NamedTuple):
    """An expansion point of the unconstrained vector, and the constants of coordinates about it."""

    x: FloatArray
    expansion: Expansion


@dataclass(frozen=True)
class _Curvature:
    """Second-order terms of the agents' runs at the reference.

    Per task: precision and slope of the equivalent length. Per task and agent: the logits'
    weights, weights times logits, and slopes. `cross` (task, pair): of equivalent lengths and the
    agents' pairs. `runs`: precision of the pairs from their runs, given the tasks.
    """

    length: FloatArray
    length_slope: FloatArray
    logit_weight: FloatArray
    weighted_logit: FloatArray
    logit_slope: FloatArray
    cross: FloatArray
    runs: FloatArray
    sharpness: FloatArray
    sharpness_slope: FloatArray


def reference_at(
    design: Design, priors: HorizonPriors, options: HorizonOptions, x: FloatArray
) -> Reference:
    """Expand the likelihood to second order about a point of the unconstrained vector."""
    point = _moderate(unpack(x, layout_of(design, options)))
    seen, pairs = _look_at_runs(design, options, point)
    human_count, human_mean = _human_moments(design, options, point)
    # One Newton step from the reference, for each task the same share of it, so that it is short.
    step = np.abs(_step(seen.length_slope, seen.length))
    calm = np.minimum(1.0, _LONGEST_STEP / np.maximum(_LEAST, step))
    sharpness_step = _step(seen.sharpness_slope, seen.sharpness)
    log_sharpness = 0 if point.log_discrimination is None else point.log_discrimination
    runs = seen.runs - _explained(design, priors, options, point, seen, human_count)
    agents: dict[str, Any] = expand_agents(design, priors, options, point, pairs, runs)
    expansion = Expansion(
        human_count=human_count,
        human_mean=human_mean,
        sharpness_precision=seen.sharpness,
        sharpness_location=log_sharpness + np.clip(sharpness_step, -_LONGEST_STEP, _LONGEST_STEP),
        logit_weight=seen.logit_weight,
        weighted_logit=seen.weighted_logit + calm[:, None] * seen.logit_slope,
        **agents,
    )
    return Reference(x, _rounded_all(expansion))


def _rounded_all(parts: Any) -> Any:
    """Round every array of a named tuple, and of those in it."""
    return type(parts)(*(_rounded_all(p) if isinstance(p, tuple) else _rounded(p) for p in parts))


def _rounded(values: FloatArray) -> FloatArray:
    """Round to a mantissa of 20 bits, so that every linear algebra library gives the same shape."""
    mantissa, exponent = np.frexp(values)
    whole = np.rint(np.ldexp(mantissa, _SHAPE_BITS))
    rounded: FloatArray = np.ldexp(whole, exponent - _SHAPE_BITS)
    return rounded


def _moderate(point: Point) -> Point:
    """Keep scales from vanishing, as one that the data do not bound from below may."""
    parts = point.present()
    scales = {name: np.clip(parts[name], *_SCALES) for name in parts if name.startswith("sigma_")}
    return replace(point, **scales)


def _step(slope: FloatArray, precision: FloatArray) -> FloatArray:
    return slope / np.maximum(precision, _LEAST)


def _look_at_runs(
    design: Design, options: HorizonOptions, point: Point
) -> tuple[_Curvature, Pairs]:
    """Return the second-order terms of the agents' runs, and the agents' pairs."""
    length, slope = point.equivalent_length, point.beta[:, None]
    sharp = np.ones(length.size)
    if point.log_discrimination is not None:
        sharp = np.exp(point.log_discrimination)
    eta = sharp * (point.alpha[:, None] + slope * length)
    weight, left = _cell_terms(design, options, point, eta)
    curvature = weight * sharp**2
    total = curvature.sum(axis=1)
    typical = np.full(total.size, length.mean())
    pivot = np.divide(curvature @ length, total, out=typical, where=total > _LEAST)
    pairs = pairs_at(point, pivot)
    by_s = -pairs.steepening[:, None] * (length - pivot[:, None])  # derivative of a logit by s
    seen = _Curvature(
        length=(curvature * slope**2).sum(axis=0),
        length_slope=(slope * sharp * left).sum(axis=0),
        logit_weight=curvature.T,
        weighted_logit=(curvature * eta / sharp).T,
        logit_slope=(sharp * left).T,
        cross=np.concatenate([curvature * slope, curvature * slope * by_s]).T,
        runs=_run_precision(curvature, by_s),
        sharpness=(weight * eta**2).sum(axis=0),
        sharpness_slope=(left * eta).sum(axis=0),
    )
    return seen, pairs


def _cell_terms(
    design: Design, options: HorizonOptions, point: Point, eta: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the information about eta in each cell, about as it is, and the exact slope."""
    n, k = design.attempts, scored_successes(design, options)
    won, lost = expit(eta), expit(-eta)
    lapse = 0.0 if point.logit_lapse is None else expit(point.logit_lapse)[:, None]
    p = np.maximum((1 - lapse) * won, _LEAST_CHANCE)
    q = np.maximum(lapse + (1 - lapse) * lost, _LEAST_CHANCE)
    steep = (1 - lapse) * won * lost  # derivative of p by eta
    weight = n * steep * (steep / p / q)
    if point.phi is None:
        return weight, k * (steep / p) - (n - k) * (steep / q)
    phi = float(point.phi)
    rising = digamma(phi * p + k) - digamma(phi * p)
    falling = digamma(phi * q + n - k) - digamma(phi * q)
    # Runs that are alike tell less: their number over the design effect.
    return weight / (1 + np.maximum(n - 1, 0) / (1 + phi)), phi * steep * (rising - falling)


def _run_precision(curvature: FloatArray, by_s: FloatArray) -> FloatArray:
    """Return the precision of the agents' pairs from their runs, given the tasks."""
    n = curvature.shape[0]
    precision = np.zeros((2 * n, 2 * n))
    at, s = np.arange(n), np.arange(n, 2 * n)
    precision[at, at] = curvature.sum(axis=1)
    precision[at, s] = precision[s, at] = (curvature * by_s).sum(axis=1)
    precision[s, s] = (curvature * by_s**2).sum(axis=1) + 0.1  # never flat, however flat the curve
    return precision


def _explained(
    design: Design,
    priors: HorizonPriors,
    options: HorizonOptions,
    point: Point,
    seen: _Curvature,
    human_count: FloatArray,
) -> FloatArray:
    """Return what the agents' pairs lose of their precision because the tasks are unknown.

    The tasks' own precision is a tree: families in a root, tasks in families, each task's length
    and residual tied by the runs, all estimates by their bias. It is sparse, and so is its factor.
    """
    n_tasks, n_families = len(design.tasks), len(design.families)
    sigma = np.asarray(point.sigma_human)
    sigma = sigma[source_index(design, options)] if sigma.ndim else sigma
    estimated = np.bincount(design.estimate_task, minlength=n_tasks)
    by_estimate = estimated * float(point.sigma_estimate) ** -2
    people = human_count * sigma**-2 + by_estimate
    families, tasks = 1 + np.arange(n_families), 1 + n_families + np.arange(n_tasks)
    root = np.zeros(n_families, dtype=np.int64)
    entries: list[tuple[Any, ...]] = [
        _tied(families, root, float(point.sigma_global) ** -2),
        _tied(tasks, families[design.task_family], float(point.sigma_family) ** -2),
        ([0], [0], [priors.mu_global.sd**-2]),
        (tasks, tasks, people + seen.length),
    ]
    size = 1 + n_families + n_tasks
    seen_as = [tasks]
    if point.sigma_residual_task is not None:
        rest = size + np.arange(n_tasks)
        size += n_tasks
        of_task = float(point.sigma_residual_task) ** -2
        entries += [(i, j, seen.length) for i, j in ((rest, rest), (rest, tasks), (tasks, rest))]
        seen_as.append(rest)
        if point.sigma_residual_family is None:
            entries.append((rest, rest, np.full(n_tasks, of_task)))
        else:
            levels = size + np.arange(n_families)
            size += n_families
            entries.append(_tied(rest, levels[design.task_family], of_task))
            of_family = np.full(n_families, float(point.sigma_residual_family) ** -2)
            entries.append((levels, levels, of_family))
    if point.delta_estimate is not None:
        bias = np.full(n_tasks, size)
        size += 1
        entries += [(bias, tasks, by_estimate), (tasks, bias, by_estimate)]
        entries.append((bias[:1], bias[:1], [by_estimate.sum() + priors.delta_estimate.sd**-2]))
    cross = np.zeros((size, seen.cross.shape[1]))
    for places in seen_as:
        cross[places] = seen.cross
    i, j, value = (np.concatenate([np.asarray(entry[k]) for entry in entries]) for k in range(3))
    precision = coo_array((value, (i, j)), shape=(size, size)).tocsc()
    explained: FloatArray = cross.T @ splu(precision).solve(cross)
    return explained


def _tied(child: IntArray, parent: IntArray, precision: float) -> tuple[Any, ...]:
    """Return the entries of a precision matrix by which each child lies about its parent."""
    ones = np.full(child.size, precision)
    rows = np.concatenate([child, parent, child, parent])
    columns = np.concatenate([child, parent, parent, child])
    return rows, columns, np.concatenate([ones, ones, -ones, -ones])


def _human_moments(
    design: Design, options: HorizonOptions, point: Point
) -> tuple[FloatArray, FloatArray]:
    """Return per task the number and mean of Normal logs with the information of its human runs.

    Their precision is the number over sigma_human squared, so that it moves with
    sigma_human; of Normal runs these are the number and mean themselves.
    """
    n_tasks, mu = len(design.tasks), point.mu_task
    plain, others = human_runs(design, options)
    count = np.bincount(design.run_task[plain], minlength=n_tasks).astype(float)
    total = np.bincount(
        design.run_task[plain], weights=design.run_log2[plain], minlength=n_tasks
    ).astype(float)
    sd = noise_sd(design, options, point, mu)
    base = noise_sd(design, options, replace(point, noise_growth=None), mu)
    task = others[0].astype(np.int64)
    parts = [(task, *_run_terms(options, point, (others[1:].mean(axis=0) - mu[task]) / sd[task]))]
    task, log2 = failed_runs(design, options)
    parts.append((task, *_failed_terms(options, (log2 - mu[task]) / sd[task])))
    for task, weight, slope in parts:
        # One Newton step of each run's own log likelihood, weighed by its curvature.
        number = weight * (base[task] / sd[task]) ** 2
        location = mu[task] + slope * sd[task] / np.maximum(weight, 1e-9)
        count += np.bincount(task, weights=number, minlength=n_tasks)
        total += np.bincount(task, weights=number * location, minlength=n_tasks)
    return count, np.divide(total, count, out=mu.copy(), where=count > 0)


def _run_terms(
    options: HorizonOptions, point: Point, e: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return curvature and slope of log densities by the mean, in units of the scale."""
    if options.noise == "student_t":
        assert point.nu_minus_one is not None
        nu = 1 + float(point.nu_minus_one)
        weight = (nu + 1) / (nu + e**2)
        return weight, weight * e
    if options.noise == "weibull":
        up = np.exp(np.minimum(GUMBEL_SD * e + GUMBEL_MEAN, 30.0))
        return GUMBEL_SD**2 * np.maximum(up, 0.3), GUMBEL_SD * (up - 1)
    return np.ones_like(e), e


def _failed_terms(options: HorizonOptions, e: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the same of censored runs."""
    if options.noise == "weibull":
        up = np.exp(np.minimum(GUMBEL_SD * e + GUMBEL_MEAN, 30.0))
        return GUMBEL_SD**2 * np.maximum(up, 0.03), GUMBEL_SD * up
    near = np.clip(e, -30.0, 30.0)
    hazard = np.exp(-0.5 * near**2 - _HALF_LOG_2PI - log_ndtr(-near))
    return np.maximum(hazard * (hazard - near), 0.03), hazard
