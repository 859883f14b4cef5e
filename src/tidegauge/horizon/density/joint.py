"""The model's log density and gradient, fused into one pass over the data.

`model.parameters` has where everything lies in the parameter vector, `buffer` where in the data;
parts that a model does not have take no place and no time. A test holds value and gradient equal
to those of `model.specification`, entry by entry, for every option.
"""

from __future__ import annotations

import math

from tidegauge.engine.priors import GAMMA, HALF_CAUCHY, LOG_NORMAL, LOGISTIC
from tidegauge.horizon.density.agents import agent_priors, agent_runs
from tidegauge.horizon.density.buffer import read_data
from tidegauge.horizon.density.human import human_times
from tidegauge.horizon.density.jit import jit
from tidegauge.horizon.model.parameters import (
    GROUP_HORIZON,
    GROUP_SLOPE,
    LOG_DISCRIMINATION,
    LOGIT_LAPSE,
    MU_FAMILY,
    MU_GLOBAL,
    MU_LAPSE,
    MU_TASK,
    RESIDUAL,
    RESIDUAL_FAMILY,
    SIGMA_DISCRIMINATION,
    SIGMA_FAMILY,
    SIGMA_GLOBAL,
    SIGMA_GROUP_HORIZON,
    SIGMA_GROUP_SLOPE,
    SIGMA_LAPSE,
    SIGMA_RESIDUAL_FAMILY,
    SIGMA_RESIDUAL_TASK,
)


@jit
def _prior(value, mu, sd, kind):  # type: ignore[no-untyped-def]
    """Return a prior's log density at a value, without its constant, and its slope."""
    if kind == GAMMA:
        shape, rate = (mu / sd) ** 2, mu / (sd * sd)
        return (shape - 1) * math.log(value) - rate * value, (shape - 1) / value - rate
    if kind == LOGISTIC:
        small = math.exp(-abs(value))
        slope = (1 - small) / (1 + small)
        return -abs(value) - 2 * math.log1p(small), -slope if value > 0 else slope
    if kind == LOG_NORMAL:
        log = math.log(value)
        scaled = (log - mu) / sd
        return -0.5 * scaled * scaled - log, -(scaled / sd + 1) / value
    scaled = (value - mu) / sd
    if kind == HALF_CAUCHY:
        return -math.log1p(scaled * scaled), -2 * scaled / sd / (1 + scaled * scaled)
    return -0.5 * scaled * scaled, -scaled / sd


@jit
def _scalars(x, gradient, priors):  # type: ignore[no-untyped-def]
    """Add the priors of the scalars; those kept as logarithms with their Jacobian."""
    logp = 0.0
    for i in range(priors.shape[0]):
        mu, sd, kind, is_log = priors[i, 0], priors[i, 1], priors[i, 2], priors[i, 3]
        if is_log == 1:
            natural = math.exp(x[i])
            value, slope = _prior(natural, mu, sd, kind)
            logp += value + x[i]
            gradient[i] += slope * natural + 1
        else:
            value, slope = _prior(x[i], mu, sd, kind)
            logp += value
            gradient[i] += slope
    return logp


@jit
def _normal_level(x, gradient, at, level, scale, mean):  # type: ignore[no-untyped-def]
    """Add a block of Normals about `mean`; return its log density and the pull on the mean."""
    start, size = at[level], at[level + 1] - at[level]
    if size == 0:
        return 0.0, 0.0
    log_sigma = x[at[scale]]
    precision = math.exp(-2 * log_sigma)
    square, pull = 0.0, 0.0
    for i in range(start, start + size):
        distance = x[i] - mean
        square += distance * distance
        gradient[i] -= distance * precision
        pull += distance * precision
    gradient[at[scale]] += square * precision - size
    return -0.5 * square * precision - size * log_sigma, pull


@jit
def _within_families(x, gradient, at, blocks, first_task):  # type: ignore[no-untyped-def]
    """Add a block of Normals, each task about its family's level (or about zero)."""
    level, family, scale = blocks
    start, size = at[level], at[level + 1] - at[level]
    if size == 0:
        return 0.0
    has_family = at[family + 1] > at[family]
    log_sigma = x[at[scale]]
    precision = math.exp(-2 * log_sigma)
    square = 0.0
    for f in range(first_task.size - 1):
        mean = x[at[family] + f] if has_family else 0.0
        pull = 0.0
        for t in range(int(first_task[f]), int(first_task[f + 1])):
            distance = x[start + t] - mean
            square += distance * distance
            gradient[start + t] -= distance * precision
            pull += distance * precision
        if has_family:
            gradient[at[family] + f] += pull
    gradient[at[scale]] += square * precision - size
    return -0.5 * square * precision - size * log_sigma


@jit
def log_density(x, gradient, buffer):  # type: ignore[no-untyped-def]
    """Return the log density at `x` and write its gradient."""
    data = read_data(buffer)
    at = data.at
    gradient[:] = 0
    logp = data.settings.constant + _scalars(x, gradient, data.scalar_priors)
    value, pull = _normal_level(x, gradient, at, MU_FAMILY, SIGMA_GLOBAL, x[at[MU_GLOBAL]])
    gradient[at[MU_GLOBAL]] += pull
    logp += value
    value, pull = _normal_level(x, gradient, at, LOGIT_LAPSE, SIGMA_LAPSE, x[at[MU_LAPSE]])
    gradient[at[MU_LAPSE]] += pull
    logp += value
    for level, scale in (
        (RESIDUAL_FAMILY, SIGMA_RESIDUAL_FAMILY),
        (LOG_DISCRIMINATION, SIGMA_DISCRIMINATION),
        (GROUP_HORIZON, SIGMA_GROUP_HORIZON),
        (GROUP_SLOPE, SIGMA_GROUP_SLOPE),
    ):
        logp += _normal_level(x, gradient, at, level, scale, 0.0)[0]
    for blocks in (
        (MU_TASK, MU_FAMILY, SIGMA_FAMILY),
        (RESIDUAL, RESIDUAL_FAMILY, SIGMA_RESIDUAL_TASK),
    ):
        logp += _within_families(x, gradient, at, blocks, data.first_task)
    mu_task = x[at[MU_TASK] : at[MU_TASK + 1]]
    by_task = gradient[at[MU_TASK] : at[MU_TASK + 1]]
    logp += human_times(x, gradient, data, mu_task, by_task)
    logp += agent_priors(x, gradient, data)
    return logp + agent_runs(x, gradient, data, mu_task, by_task)
