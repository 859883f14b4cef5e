"""Partial centring of horizons that share a prior, and of the levels of groups of agents.

Given its slope and the scatter sigma_horizon, an agent's logit at its pivot has a Gaussian from its
runs (a location and a variance) and one from the shared prior of its log2 horizon, so it has a
conditional mean and sd; the logit is its distance from that mean in units of that sd. This avoids
the funnel as sigma_horizon goes to zero, or as a slope flattens. Agents of one group (a lab, a
model family) follow one another, those with the smallest variance first: each expects the level of
its group given the earlier ones.

Given its agents and the coefficients that all agents share, the level of a group is Gaussian: its
conditional mean plus its conditional sd times an innovation. docs/coordinates.md has the equations.
"""

from __future__ import annotations

import math

import numpy as np

from tidegauge.horizon.density.agents import trend_terms
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
def _logit_given(log_slope, variance, a, expected, expansion):  # type: ignore[no-untyped-def]
    """Return mean and sd of a logit, the share its runs have in it, and the prior's mean."""
    location, runs_variance = expansion.runs_location[a], expansion.runs_variance[a]
    prior = math.exp(log_slope) * (expected - expansion.pivot[a])
    spread = math.exp(2 * log_slope) * variance
    share = spread / (spread + runs_variance)
    mean = share * location + (1 - share) * prior
    return mean, math.sqrt(share * runs_variance), share, prior


@jit
def _level(x, at, earlier):  # type: ignore[no-untyped-def]
    """Return variance of a horizon, its group's expected level, and that level's share.

    `earlier`: number and summed distances from the trend of the agents before it in its group.
    """
    own = math.exp(2 * x[at[SIGMA_HORIZON]])
    if at[GROUP_HORIZON + 1] == at[GROUP_HORIZON]:
        return own, 0.0, 0.0
    among = math.exp(2 * x[at[SIGMA_GROUP_HORIZON]])
    share = among / (earlier[0] * among + own)
    return own * (1 + share), share * earlier[1], share


@jit
def horizons_forward(x, at, group, expansion):  # type: ignore[no-untyped-def]
    """Move the logits in `x` that share a prior; return the log determinant."""
    pivot, trend = expansion.pivot, expansion.trend
    log_determinant, earlier = 0.0, np.zeros((group.size, 2))
    for k in range(pivot.size):
        a = int(expansion.order[k])
        if expansion.runs_variance[a] > 0:
            log_slope, i, g = x[at[LOG_SLOPE] + a], at[ALPHA] + a, int(group[a])
            variance, level, _ = _level(x, at, earlier[g])
            expected = trend[a] + level
            mean, sd, _, _ = _logit_given(log_slope, variance, a, expected, expansion)
            ratio = sd / expansion.level_sd[a]
            shift = math.exp(log_slope) * pivot[a]
            x[i] = shift + mean + ratio * (x[i] - shift - expansion.level_mean[a])
            log_determinant += math.log(ratio)
            earlier[g, 0] += 1
            earlier[g, 1] += x[i] * math.exp(-log_slope) - trend[a]
    return log_determinant


@jit
def horizons_backward(x, gx, gz, at, group, expansion):  # type: ignore[no-untyped-def]
    """Carry the gradient back to the logits before they were moved; `x` is not moved back."""
    pivot, trend = expansion.pivot, expansion.trend
    earlier, by_sum = np.zeros((group.size, 2)), np.zeros(group.size)
    for a in range(pivot.size):
        if expansion.runs_variance[a] > 0:
            horizon = x[at[ALPHA] + a] * math.exp(-x[at[LOG_SLOPE] + a])
            earlier[int(group[a]), 0] += 1
            earlier[int(group[a]), 1] += horizon - trend[a]
    for k in range(pivot.size - 1, -1, -1):
        a = int(expansion.order[k])
        if expansion.runs_variance[a] > 0:
            i, j, g = at[ALPHA] + a, at[LOG_SLOPE] + a, int(group[a])
            steepness = math.exp(x[j])
            horizon = x[i] / steepness
            gx[i] += by_sum[g] / steepness
            gx[j] -= by_sum[g] * horizon
            earlier[g, 0] -= 1
            earlier[g, 1] -= horizon - trend[a]
            variance, level, level_share = _level(x, at, earlier[g])
            mean, sd, share, prior = _logit_given(x[j], variance, a, trend[a] + level, expansion)
            ratio, rest = sd / expansion.level_sd[a], 1 - share
            shift = steepness * pivot[a]
            moved = 2 * share * rest * (expansion.runs_location[a] - prior) + rest * (
                x[i] - shift - mean
            )
            by_scatter, by_level = gx[i] * moved + rest, gx[i] * rest * steepness
            gx[j] += gx[i] * (moved + rest * prior + shift * (1 - ratio)) + rest
            gx[i] *= ratio
            gz[at[SIGMA_HORIZON]] += by_scatter
            if level_share > 0:
                by_share = by_level * earlier[g, 1] + 0.5 * by_scatter / (1 + level_share)
                by_log = 2 * by_share * level_share * (1 - earlier[g, 0] * level_share)
                gz[at[SIGMA_HORIZON]] -= by_log
                gz[at[SIGMA_GROUP_HORIZON]] += by_log
                by_sum[g] += by_level * level_share


@jit
def _deviations(x, data, summed):  # type: ignore[no-untyped-def]
    """Sum, by group, number and distance of its agents from what all agents share.

    `summed` (2, 2, group): of log2 horizons and of log slopes.
    """
    at, settings = data.at, data.settings
    group, years, joint = data.agents.group, data.agents.years, data.agents.joint
    slopes, terms = np.zeros(4), x[at[TREND_LEVEL] : at[MU_FAMILY]]
    summed[:] = 0
    for a in range(group.size):
        g, log_slope = int(group[a]), x[at[LOG_SLOPE] + a]
        summed[1, 0, g] += 1
        summed[1, 1, g] += log_slope - x[at[MU_SLOPE]]
        if joint[a] == 1:
            shared = trend_terms(
                settings.trend, terms, years[a], settings.first_year, settings.last_year, slopes
            )
            summed[0, 0, g] += 1
            summed[0, 1, g] += x[at[ALPHA] + a] * math.exp(-log_slope) - shared


@jit
def groups_forward(z, x, data):  # type: ignore[no-untyped-def]
    """Write the groups' levels of `z` into `x` and return the log determinant of the map."""
    at = data.at
    n_groups = at[GROUP_HORIZON + 1] - at[GROUP_HORIZON]
    if n_groups == 0:
        return 0.0
    summed = np.empty((2, 2, n_groups))
    _deviations(x, data, summed)
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
def groups_backward(z, x, gx, gz, data):  # type: ignore[no-untyped-def]
    """Carry the gradient by the groups' levels back to `z`, the scales, and the agents in `gx`."""
    at, settings = data.at, data.settings
    n_groups = at[GROUP_HORIZON + 1] - at[GROUP_HORIZON]
    if n_groups == 0:
        return
    group, years, joint = data.agents.group, data.agents.years, data.agents.joint
    summed, by_deviation = np.empty((2, 2, n_groups)), np.empty((2, n_groups))
    _deviations(x, data, summed)
    for k, (level, group_scale, scale) in enumerate(_LEVELS):
        among, within = math.exp(2 * x[at[group_scale]]), math.exp(2 * x[at[scale]])
        for g in range(n_groups):
            i, total = at[level] + g, summed[k, 0, g] * among + within
            share, within_share = among / total, within / total
            gz[i] = gx[i] * math.sqrt(within * share)
            by_deviation[k, g] = gx[i] * share
            by_log_sd = gz[i] * z[i] + 1
            by_log_share = 2 * within_share * by_deviation[k, g] * summed[k, 1, g]
            gz[at[group_scale]] += by_log_share + by_log_sd * within_share
            gz[at[scale]] += by_log_sd * (1 - within_share) - by_log_share
    slopes, terms = np.zeros(4), x[at[TREND_LEVEL] : at[MU_FAMILY]]
    for a in range(group.size):
        g, log_slope = int(group[a]), x[at[LOG_SLOPE] + a]
        gx[at[LOG_SLOPE] + a] += by_deviation[1, g]
        gx[at[MU_SLOPE]] -= by_deviation[1, g]
        if joint[a] == 1:
            by_horizon = by_deviation[0, g]
            trend_terms(
                settings.trend, terms, years[a], settings.first_year, settings.last_year, slopes
            )
            gx[at[ALPHA] + a] += by_horizon * math.exp(-log_slope)
            gx[at[LOG_SLOPE] + a] -= by_horizon * x[at[ALPHA] + a] * math.exp(-log_slope)
            for i in range(terms.size):
                gx[at[TREND_LEVEL] + i] -= by_horizon * slopes[i]
