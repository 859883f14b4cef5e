"""The human noise over arrays: log probabilities of durations, and draws of them.

`kernel_noise` has the same distributions, compiled and with slopes; here they come from SciPy.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, stdtr
from scipy.stats import t as student_t

from tidegauge.arrays import FloatArray
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.model.observations import rounded_up, source_index
from tidegauge.horizon.model.options import USUAL_LOG2_MINUTES, HorizonOptions
from tidegauge.horizon.model.parameters import Point

# Codes by which the compiled density knows a noise.
NORMAL, STUDENT_T, WEIBULL = 0.0, 1.0, 2.0
NOISE_CODES = {"normal": NORMAL, "student_t": STUDENT_T, "weibull": WEIBULL}

# The logarithm of a Weibull duration is a Gumbel of minima, its errors e = (ln E - mean) / sd of an
# exponential E: mean 0, so that a length is the geometric mean, and standard deviation 1.
GUMBEL_SD = math.pi / math.sqrt(6)
GUMBEL_MEAN = -float(np.euler_gamma)

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def noise_sd(
    design: Design, options: HorizonOptions, point: Point, mu_task: FloatArray
) -> FloatArray:
    """Return the scale of human noise at each task's length (..., task), log2 minutes."""
    sigma = np.asarray(point.sigma_human)
    if options.human_scale == "source":
        sigma = sigma[..., source_index(design, options)]
    else:
        sigma = sigma[..., None]
    if point.noise_growth is not None:
        sigma = sigma * np.exp2(point.noise_growth[..., None] * (mu_task - USUAL_LOG2_MINUTES))
    return np.broadcast_to(sigma, mu_task.shape)


def duration_log_likelihood(design: Design, options: HorizonOptions, point: Point) -> FloatArray:
    """Return the log likelihood (..., run) of every successful human run."""
    task = design.run_task
    sd = noise_sd(design, options, point, point.mu_task)[..., task]
    mean, nu = point.mu_task[..., task], _nu(point)
    low, upper = (design.run_log2 - mean) / sd, rounded_up(design, options)
    exact = upper == design.run_log2
    found = _log_density(low, nu, options) - np.log(sd)
    if not exact.all():
        high = (upper - mean) / sd
        found = np.where(exact, found, _log_interval(low, high, nu, options))
    return found


def failed_log_likelihood(design: Design, options: HorizonOptions, point: Point) -> FloatArray:
    """Return the log likelihood (..., failed) of every failed human run: that it took longer."""
    task = design.failed_task
    sd = noise_sd(design, options, point, point.mu_task)[..., task]
    e = (design.failed_log2 - point.mu_task[..., task]) / sd
    survival: FloatArray = _log_survival(e, _nu(point), options)
    return survival


def duration_probability(
    design: Design, options: HorizonOptions, point: Point, rng: np.random.Generator
) -> FloatArray:
    """Return the probability (..., run) of a shorter duration than the one that was seen.

    Of a rounded duration a uniform draw between the probabilities of its ends, the same in all
    draws of the point: uniform, as of an exact one, where the model is right.
    """
    task = design.run_task
    sd = noise_sd(design, options, point, point.mu_task)[..., task]
    mean, nu = point.mu_task[..., task], _nu(point)
    ends = (design.run_log2, rounded_up(design, options))
    low, high = (-np.expm1(_log_survival((end - mean) / sd, nu, options)) for end in ends)
    shorter: FloatArray = low + rng.uniform(size=task.size) * (high - low)
    return shorter


def draw_durations(
    design: Design, options: HorizonOptions, point: Point, rng: np.random.Generator
) -> FloatArray:
    """Draw log2 minutes (..., run) of the same runs again, rounded down where those were."""
    task = design.run_task
    mean = point.mu_task[..., task]
    sd = noise_sd(design, options, point, point.mu_task)[..., task]
    drawn = mean + sd * draw_errors(options.noise, _nu(point), mean.shape, rng)
    return rounded_down(drawn, rounded_up(design, options) != design.run_log2)


def draw_errors(
    kind: str, nu: FloatArray, shape: tuple[int, ...], rng: np.random.Generator
) -> FloatArray:
    """Draw standardised errors; `nu` matters to Student-t errors alone."""
    if kind == "student_t":
        return np.asarray(rng.standard_t(np.broadcast_to(nu, shape)), dtype=np.float64)
    if kind == "weibull":
        logs = np.log(rng.exponential(size=shape))
        return np.asarray((logs - GUMBEL_MEAN) / GUMBEL_SD, dtype=np.float64)
    return rng.normal(size=shape)


def rounded_down(log2: FloatArray, whole: NDArray[np.bool_]) -> FloatArray:
    """Round log2 minutes (..., run) of the runs in whole minutes down, to one minute at least."""
    rounded = np.log2(np.maximum(np.floor(np.exp2(np.minimum(log2, 60))), 1))
    return np.where(whole, rounded, log2)


def _nu(point: Point) -> FloatArray:
    excess = np.asarray(np.inf) if point.nu_minus_one is None else point.nu_minus_one
    return (1 + excess)[..., None]


def _log_density(e: FloatArray, nu: FloatArray, options: HorizonOptions) -> FloatArray:
    logp: FloatArray = -0.5 * e * e - _HALF_LOG_2PI
    if options.noise == "student_t":
        logp = np.asarray(student_t.logpdf(e, nu))
    elif options.noise == "weibull":
        w = GUMBEL_SD * e + GUMBEL_MEAN
        logp = math.log(GUMBEL_SD) + w - np.exp(np.minimum(w, 700.0))
    return logp


def _log_survival(e: FloatArray, nu: FloatArray, options: HorizonOptions) -> FloatArray:
    survival: FloatArray
    if options.noise == "student_t":
        survival = np.log(stdtr(nu, -e))
    elif options.noise == "weibull":
        survival = -np.exp(np.minimum(GUMBEL_SD * e + GUMBEL_MEAN, 700.0))
    else:
        survival = log_ndtr(-e)
    return survival


def _log_interval(
    low: FloatArray, high: FloatArray, nu: FloatArray, options: HorizonOptions
) -> FloatArray:
    """Return log P(low <= E < high), from the tail in which the interval lies."""
    flips = options.noise != "weibull"  # the others are symmetric: keep to the upper tail
    upper = (low > 0) | (not flips)
    near, far = np.where(upper, low, -high), np.where(upper, high, -low)
    first, second = _log_survival(near, nu, options), _log_survival(far, nu, options)
    return first + np.log(-np.expm1(np.minimum(second - first, -1e-300)))
