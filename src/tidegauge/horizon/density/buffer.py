"""Everything the compiled functions need, in one float64 buffer: a header, then the data."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

from tidegauge.arrays import FloatArray, IntArray
from tidegauge.engine.priors import GAUSSIAN, Prior
from tidegauge.errors import InputError
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.model.human_noise import NOISE_CODES
from tidegauge.horizon.model.observations import (
    failed_runs,
    group_index,
    human_runs,
    in_joint_prior,
    scored_successes,
    source_index,
    trend_years,
)
from tidegauge.horizon.model.options import HorizonOptions, HorizonPriors, with_human_prior
from tidegauge.horizon.model.parameters import (
    ALPHA,
    BLOCKS,
    MU_FAMILY,
    Layout,
    is_log,
    layout_of,
    prior_of,
)
from tidegauge.horizon.model.trend_shapes import TREND_SHAPES

# Positions in the header.
N_AGENTS, N_TASKS, N_FAMILIES, N_RUNS, N_FAILED, N_SCALARS = range(6)
NOISE, TREND, POOLED = 6, 7, 8
FIRST_YEAR, LAST_YEAR, CONSTANT = 9, 10, 11
ALPHA_PRIOR, BETA_PRIOR = 12, 14  # mean and sd
STARTS = 16
HEADER = STARTS + len(BLOCKS) + 1

NOT_IN_TREND = -1e9  # in place of an agent's years

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def pack_data(design: Design, priors: HorizonPriors, options: HorizonOptions) -> FloatArray:
    """Lay out everything the compiled functions need in one buffer.

    Returns
    -------
    ndarray
        Header; a row (mean, sd, kind, is log) per scalar; per family the index of its first task
        (one more entry closes the last); per task its source, the number, mean and sum of squares
        about it of human logs that are plainly Normal, the same of estimates; per agent its group,
        its years and whether its horizon has the joint prior; the other human runs (task, from,
        to); the failed ones (task, log2); the agents x tasks attempts and successes.
    """
    layout, priors = layout_of(design, options), with_human_prior(priors, options)
    n_tasks = len(design.tasks)
    plain, interval = human_runs(design, options)
    failed_task, failed_log2 = failed_runs(design, options)
    rows = [row for name in BLOCKS[:MU_FAMILY] for row in _prior_rows(name, priors, layout)]
    scored = scored_successes(design, options)
    arrays = (
        _header(design, priors, options, layout, interval.shape[1], failed_task.size),
        np.array(rows),
        np.searchsorted(design.task_family, np.arange(len(design.families) + 1)),
        source_index(design, options),
        *_moments(design.run_task[plain], design.run_log2[plain], n_tasks),
        *_moments(design.estimate_task, design.estimate_log2, n_tasks),
        *_agent_rows(design, options),
        interval,
        failed_task,
        failed_log2,
        design.attempts,
        scored,
    )
    return np.concatenate([np.ravel(array).astype(float) for array in arrays])


def _header(
    design: Design,
    priors: HorizonPriors,
    options: HorizonOptions,
    layout: Layout,
    n_runs: int,
    n_failed: int,
) -> FloatArray:
    header = np.zeros(HEADER)
    header[N_AGENTS], header[N_TASKS] = len(design.agents), len(design.tasks)
    header[N_FAMILIES], header[N_RUNS], header[N_FAILED] = len(design.families), n_runs, n_failed
    header[N_SCALARS] = layout.starts[MU_FAMILY]
    header[NOISE] = NOISE_CODES[options.noise]
    header[TREND] = TREND_SHAPES[options.trend].code
    header[POOLED] = options.pooling != "none"
    header[FIRST_YEAR], header[LAST_YEAR] = layout.first_year, layout.last_year
    header[CONSTANT] = _constants(design, priors, options, layout)
    header[ALPHA_PRIOR : ALPHA_PRIOR + 2] = _mean_and_sd("alpha", priors.alpha)
    header[BETA_PRIOR : BETA_PRIOR + 2] = _mean_and_sd("beta", priors.beta)
    header[STARTS:] = layout.starts
    return header


def _mean_and_sd(name: str, prior: Prior) -> tuple[float, float]:
    """Return the parameters of an agent's own prior, which is compiled as a Gaussian."""
    if prior.code != GAUSSIAN:
        raise InputError(f"priors: {name}: {prior}: must be a normal prior, truncated or not")
    return prior.mu, prior.sd


def _prior_rows(name: str, priors: HorizonPriors, layout: Layout) -> list[list[float]]:
    prior, block = prior_of(name, priors), BLOCKS.index(name)
    row = [prior.mu, prior.sd, prior.code, float(is_log(name))]
    return [row] * (layout.starts[block + 1] - layout.starts[block])


def _agent_rows(design: Design, options: HorizonOptions) -> tuple[FloatArray, ...]:
    years = trend_years(design, options)
    years = np.where(np.isnan(years), NOT_IN_TREND, years)
    joint = in_joint_prior(design, options).astype(float)
    return group_index(design, options).astype(float), years, joint


def _moments(
    task: IntArray, log2: FloatArray, n_tasks: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    count: FloatArray = np.bincount(task, minlength=n_tasks).astype(float)
    total: FloatArray = np.bincount(task, weights=log2, minlength=n_tasks).astype(float)
    mean = total / np.maximum(count, 1)
    square = np.bincount(task, weights=(log2 - mean[task]) ** 2, minlength=n_tasks)
    return count, mean, square.astype(float)


def _constants(
    design: Design, priors: HorizonPriors, options: HorizonOptions, layout: Layout
) -> float:
    """Sum what does not depend on the parameters: normalisers and binomial coefficients."""
    n, k = design.attempts, scored_successes(design, options)
    constant = float(np.sum(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)))
    for block, name in enumerate(BLOCKS[:MU_FAMILY]):
        number = layout.starts[block + 1] - layout.starts[block]
        constant += number * prior_of(name, priors).log_normaliser
    joint, pooled = in_joint_prior(design, options), options.pooling != "none"
    constant += float((~joint).sum()) * priors.alpha.log_normaliser
    constant += 0 if pooled else len(design.agents) * priors.beta.log_normaliser
    n_normals = layout.starts[ALPHA] - layout.starts[MU_FAMILY]  # all vectors before alpha
    n_normals += int(joint.sum()) + pooled * len(design.agents)
    n_normals += int(human_runs(design, options)[0].sum()) + design.estimate_task.size
    return constant - n_normals * _HALF_LOG_2PI
