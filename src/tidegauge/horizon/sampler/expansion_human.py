"""What human times say of each task's length at a reference point, as number and mean."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import log_ndtr

from tidegauge.arrays import FloatArray
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.model.human_noise import GUMBEL_MEDIAN, GUMBEL_SD, noise_sd
from tidegauge.horizon.model.observations import failed_runs, human_runs
from tidegauge.horizon.model.options import HorizonOptions
from tidegauge.horizon.model.parameters import Point

_HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)


def human_moments(
    design: Design, options: HorizonOptions, point: Point
) -> tuple[FloatArray, FloatArray]:
    """Return per task the number and mean of Normal logs that say as much as its human runs.

    The precision they stand for is the number over sigma_human squared, so that it moves with
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
