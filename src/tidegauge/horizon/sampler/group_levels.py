"""Levels of labs and model families, drawn to their agents as closely as these tell them.

Given its agents and what all agents share, the level of a group is Gaussian: it is written as its
conditional mean plus its conditional sd times an innovation, between centred and non-centred as
the number of its agents and the two scales ask.
"""

from __future__ import annotations

import math

import numpy as np

from tidegauge.horizon.density.agents import trend_terms
from tidegauge.horizon.density.buffer import FIRST_YEAR, LAST_YEAR, TREND
from tidegauge.horizon.density.jit import jit
from tidegauge.horizon.model.parameters import (
    ALPHA,
    GROUP_HORIZON,
    GROUP_SLOPE,
    LOG_SLOPE,
    MU_FAMILY,
    MU_SLOPE,
    SIGMA_GROUP_HORIZON,
    SIGMA_GROUP_SLOPE,
    SIGMA_HORIZON,
    SIGMA_SLOPE,
    TREND_LEVEL,
)

_LEVELS = (
    (GROUP_HORIZON, SIGMA_GROUP_HORIZON, SIGMA_HORIZON),
    (GROUP_SLOPE, SIGMA_GROUP_SLOPE, SIGMA_SLOPE),
)


@jit
def _deviations(x, buffer, at, agents, summed):  # type: ignore[no-untyped-def]
    """Sum, by group, number and distance of its agents from what all agents share.

    `summed` (2, 2, group): of log2 horizons and of log slopes.
    """
    group, years, joint = agents
    slopes, terms = np.zeros(4), x[at[TREND_LEVEL] : at[MU_FAMILY]]
    summed[:] = 0
    for a in range(group.size):
        g, log_slope = int(group[a]), x[at[LOG_SLOPE] + a]
        summed[1, 0, g] += 1
        summed[1, 1, g] += log_slope - x[at[MU_SLOPE]]
        if joint[a] == 1:
            ends = buffer[FIRST_YEAR], buffer[LAST_YEAR]
            shared = trend_terms(buffer[TREND], terms, years[a], ends[0], ends[1], slopes)
            summed[0, 0, g] += 1
            summed[0, 1, g] += x[at[ALPHA] + a] * math.exp(-log_slope) - shared


@jit
def groups_forward(z, x, buffer, at, agents):  # type: ignore[no-untyped-def]
    """Write the groups' levels of `z` into `x` and return the log determinant of the map."""
    n_groups = at[GROUP_HORIZON + 1] - at[GROUP_HORIZON]
    if n_groups == 0:
        return 0.0
    summed = np.empty((2, 2, n_groups))
    _deviations(x, buffer, at, agents, summed)
    log_determinant = 0.0
    for k, (level, group_scale, scale) in enumerate(_LEVELS):
        among, within = math.exp(2 * x[at[group_scale]]), math.exp(2 * x[at[scale]])
        for g in range(n_groups):
            share = among / (summed[k, 0, g] * among + within)
            sd = math.sqrt(within * share)
            x[at[level] + g] = share * summed[k, 1, g] + sd * z[at[level] + g]
            log_determinant += math.log(sd)
    return log_determinant


@jit
def groups_backward(z, x, gx, gz, buffer, at, agents):  # type: ignore[no-untyped-def]
    """Carry the gradient by the groups' levels back to `z`, the scales, and the agents in `gx`."""
    n_groups = at[GROUP_HORIZON + 1] - at[GROUP_HORIZON]
    if n_groups == 0:
        return
    group, years, joint = agents
    summed, by_deviation = np.empty((2, 2, n_groups)), np.empty((2, n_groups))
    _deviations(x, buffer, at, agents, summed)
    for k, (level, group_scale, scale) in enumerate(_LEVELS):
        among, within = math.exp(2 * x[at[group_scale]]), math.exp(2 * x[at[scale]])
        for g in range(n_groups):
            i, total = at[level] + g, summed[k, 0, g] * among + within
            share, unsaid = among / total, within / total
            gz[i] = gx[i] * math.sqrt(within * share)
            by_deviation[k, g] = gx[i] * share
            by_log_sd = gz[i] * z[i] + 1
            by_log_share = 2 * unsaid * by_deviation[k, g] * summed[k, 1, g]
            gz[at[group_scale]] += by_log_share + by_log_sd * unsaid
            gz[at[scale]] += by_log_sd * (1 - unsaid) - by_log_share
    slopes, terms = np.zeros(4), x[at[TREND_LEVEL] : at[MU_FAMILY]]
    for a in range(group.size):
        g, log_slope = int(group[a]), x[at[LOG_SLOPE] + a]
        gx[at[LOG_SLOPE] + a] += by_deviation[1, g]
        gx[at[MU_SLOPE]] -= by_deviation[1, g]
        if joint[a] == 1:
            by_horizon = by_deviation[0, g]
            ends = buffer[FIRST_YEAR], buffer[LAST_YEAR]
            trend_terms(buffer[TREND], terms, years[a], ends[0], ends[1], slopes)
            gx[at[ALPHA] + a] += by_horizon * math.exp(-log_slope)
            gx[at[LOG_SLOPE] + a] -= by_horizon * x[at[ALPHA] + a] * math.exp(-log_slope)
            for i in range(terms.size):
                gx[at[TREND_LEVEL] + i] -= by_horizon * slopes[i]
