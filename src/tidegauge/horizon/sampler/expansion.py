"""The constants of the coordinates: a second-order (Laplace) expansion about a point.

It is computed twice per fit, about a ridge regression and about the middle of a pilot run; a poor
one costs speed, never correctness.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.linalg import splu
from scipy.special import expit, log_ndtr

from tidegauge.arrays import FloatArray
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.density.buffer import Expansion
from tidegauge.horizon.model.human_noise import GUMBEL_MEDIAN, GUMBEL_SD, noise_sd
from tidegauge.horizon.model.observations import (
    failed_runs,
    human_runs,
    scored_successes,
    source_index,
)
from tidegauge.horizon.model.options import HorizonOptions, HorizonPriors
from tidegauge.horizon.model.parameters import MU_FAMILY, MU_SLOPE, Point, layout_of, unpack
from tidegauge.horizon.sampler.expansion_agents import (
    AgentPriors,
    agent_levels_at,
    agent_priors_at,
    inverse_root,
)

_LONGEST_STEP = 2.0  # of one Newton step, log2 minutes or logits: it is only a shape
_LEAST = 1e-9  # precision, in place of none
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

    Per task: of length and length (`length`), residual and residual (`residual`), both (`both`);
    the residuals' and lengths' slopes. Per task and agent: the logits' weights, weights times
    logits, and slopes. `cross` (2, task, pair): of tasks and the agents' pairs. Precision of the
    pairs given the tasks: from their runs (`runs`), and with their priors (`own`).
    """

    length: FloatArray
    residual: FloatArray
    both: FloatArray
    length_slope: FloatArray
    residual_slope: FloatArray
    logit_weight: FloatArray
    weighted_logit: FloatArray
    logit_slope: FloatArray
    cross: FloatArray
    runs: FloatArray
    own: FloatArray
    sharpness: FloatArray
    sharpness_slope: FloatArray


def reference_at(
    design: Design, priors: HorizonPriors, options: HorizonOptions, x: FloatArray
) -> Reference:
    """Expand the likelihood to second order about a point of the unconstrained vector."""
    layout = layout_of(design, options)
    point = _moderate(unpack(x, layout))
    n_tasks = len(design.tasks)
    residual = np.zeros(n_tasks) if point.residual is None else point.residual
    seen, agents = _look_at_runs(design, priors, options, point, residual)
    human_count, human_mean = _human_moments(design, options, point)
    tau = 1 / _residual_variance(point) if options.has_residual else 1.0
    # One Newton step from the reference, for each task the same share of it, so that it is short.
    share = seen.both / (seen.residual + tau)
    steps = [
        _step(
            seen.length_slope - share * (seen.residual_slope - tau * residual),
            seen.length - share * seen.both,
        ),
        _step(seen.residual_slope, seen.residual),
    ]
    calm = np.minimum(
        1.0,
        _LONGEST_STEP / np.maximum(_LEAST, np.abs(steps[: 1 + options.has_residual]).max(axis=0)),
    )
    sharpness_step = _step(seen.sharpness_slope, seen.sharpness)
    log_sharpness = 0 if point.log_discrimination is None else point.log_discrimination
    shared = slice(layout.starts[MU_SLOPE], layout.starts[MU_FAMILY])
    explained = _explained(design, priors, options, point, seen, human_count)
    levels, moved = agent_levels_at(design, options, point, agents, seen.runs - explained)
    marginal = moved.T @ (seen.own - explained) @ moved
    expansion = Expansion(
        human_count=human_count,
        human_mean=human_mean,
        residual_precision=np.full(n_tasks, tau),
        sharpness_precision=seen.sharpness,
        sharpness_location=log_sharpness + np.clip(sharpness_step, -_LONGEST_STEP, _LONGEST_STEP),
        pivot=agents.pivot,
        center=agents.center,
        logit_weight=seen.logit_weight,
        weighted_logit=seen.weighted_logit + calm[:, None] * seen.logit_slope,
        root=inverse_root(marginal),
        shared=x[shared],
        shared_pull=agents.shared_pull @ moved,
        shared_root=agents.shared_root,
        **levels,
    )
    return Reference(x, Expansion(*map(_rounded, expansion)))


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


def _residual_variance(point: Point) -> float:
    total = 0.0
    for scale in (point.sigma_residual_family, point.sigma_residual_task):
        total += 0.0 if scale is None else float(scale) ** 2
    return total


def _step(slope: FloatArray, precision: FloatArray) -> FloatArray:
    return slope / np.maximum(precision, _LEAST)


def _look_at_runs(
    design: Design,
    priors: HorizonPriors,
    options: HorizonOptions,
    point: Point,
    residual: FloatArray,
) -> tuple[_Curvature, AgentPriors]:
    """Return the second-order terms of the agents' runs and of their priors."""
    mu_task, slope = point.mu_task, point.beta[:, None]
    sharp = np.ones(mu_task.size)
    if point.log_discrimination is not None:
        sharp = np.exp(point.log_discrimination)
    eta = sharp * (point.alpha[:, None] + slope * mu_task + residual)
    win = expit(eta)
    weight = design.attempts * win * (1 - win)
    left = scored_successes(design, options) - design.attempts * win
    curvature = weight * sharp**2
    total = curvature.sum(axis=1)
    typical = np.full(total.size, mu_task.mean())
    pivot = np.divide(curvature @ mu_task, total, out=typical, where=total > _LEAST)
    agents = agent_priors_at(design, priors, options, point, pivot)
    # Derivative of a logit by s.
    by_s = -agents.steepening[:, None] * (mu_task - pivot[:, None])
    runs = _run_precision(curvature, by_s)
    pairs = np.concatenate([curvature, curvature * by_s]).T
    sloped = np.concatenate([curvature * slope, curvature * slope * by_s]).T
    seen = _Curvature(
        length=(curvature * slope**2).sum(axis=0),
        residual=curvature.sum(axis=0) * options.has_residual,
        both=(curvature * slope).sum(axis=0) * options.has_residual,
        length_slope=(slope * sharp * left).sum(axis=0),
        residual_slope=(sharp * left).sum(axis=0),
        logit_weight=curvature.T,
        weighted_logit=(curvature * eta / sharp).T,
        logit_slope=(sharp * left).T,
        cross=np.stack([sloped, pairs * options.has_residual]),
        runs=runs,
        own=agents.precision + runs,
        sharpness=(weight * eta**2).sum(axis=0),
        sharpness_slope=(left * eta).sum(axis=0),
    )
    return seen, agents


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
    and residual tied by the runs. It is sparse, and so is its factor.
    """
    n_tasks, n_families = len(design.tasks), len(design.families)
    family, task = 1 + design.task_family, 1 + n_families + np.arange(n_tasks)
    of_global, of_family = float(point.sigma_global) ** -2, float(point.sigma_family) ** -2
    sigma = np.asarray(point.sigma_human)
    sigma = sigma[source_index(design, options)] if sigma.ndim else sigma
    estimates = np.bincount(design.estimate_task, minlength=n_tasks)
    data = human_count * sigma**-2 + estimates * float(point.sigma_estimate) ** -2
    ones_f, ones_t = np.ones(n_families), np.ones(n_tasks)
    families = 1 + np.arange(n_families)
    root = np.zeros(n_families, dtype=np.int64)
    entries: list[tuple[Any, ...]] = [
        ([0], [0], [priors.mu_global.sd**-2 + n_families * of_global]),
        (families, families, of_global * ones_f),
        (families, root, -of_global * ones_f),
        (root, families, -of_global * ones_f),
        (family, family, of_family * ones_t),
        (family, task, -of_family * ones_t),
        (task, family, -of_family * ones_t),
        (task, task, of_family + data + seen.length),
    ]
    size = 1 + n_families + n_tasks
    cross = np.zeros((size, seen.own.shape[0]))
    cross[task] = seen.cross[0]
    if options.has_residual:
        rest, entries_of_rest, size = _residual_entries(design, point, seen, task, size)
        entries += entries_of_rest
        cross = np.concatenate([cross, np.zeros((size - cross.shape[0], cross.shape[1]))])
        cross[rest] = seen.cross[1]
    i, j, value = (np.concatenate([np.asarray(entry[k]) for entry in entries]) for k in range(3))
    precision = coo_array((value, (i, j)), shape=(size, size)).tocsc()
    explained: FloatArray = cross.T @ splu(precision).solve(cross)
    return explained


def _residual_entries(
    design: Design, point: Point, seen: _Curvature, task: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int64], list[tuple[Any, ...]], int]:
    """Return the residuals' places, their entries of the tasks' precision, and its new size."""
    n_tasks = task.size
    rest = size + np.arange(n_tasks, dtype=np.int64)
    size += n_tasks
    assert point.sigma_residual_task is not None
    of_task = float(point.sigma_residual_task) ** -2
    entries: list[tuple[Any, ...]] = [
        (rest, rest, of_task + seen.residual),
        (rest, task, seen.both),
        (task, rest, seen.both),
    ]
    if point.sigma_residual_family is not None:
        of_family = float(point.sigma_residual_family) ** -2
        family = size + design.task_family
        families = size + np.arange(len(design.families))
        size += len(design.families)
        ones = np.ones(n_tasks)
        entries += [
            (families, families, of_family * np.ones(families.size)),
            (family, family, of_task * ones),
            (rest, family, -of_task * ones),
            (family, rest, -of_task * ones),
        ]
    return rest, entries, size


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
        up = np.exp(np.minimum(GUMBEL_SD * e + GUMBEL_MEDIAN, 30.0))
        return GUMBEL_SD**2 * np.maximum(up, 0.3), GUMBEL_SD * (up - 1)
    return np.ones_like(e), e


def _failed_terms(options: HorizonOptions, e: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the same of censored runs."""
    if options.noise == "weibull":
        up = np.exp(np.minimum(GUMBEL_SD * e + GUMBEL_MEDIAN, 30.0))
        return GUMBEL_SD**2 * np.maximum(up, 0.03), GUMBEL_SD * up
    near = np.clip(e, -30.0, 30.0)
    hazard = np.exp(-0.5 * near**2 - _HALF_LOG_2PI - log_ndtr(-near))
    return np.maximum(hazard * (hazard - near), 0.03), hazard
