"""Horizons that share a prior, drawn to it as their scatter shrinks or their slope flattens.

Given its slope and the scatter, an agent's logit at its pivot is told by its runs (a location and
a variance) and by the shared prior of its log2 horizon; both are Gaussian, so it has a conditional
mean and sd. The logit keeps its distance from that mean in units of that sd. Without it, a small
scatter or a flat slope would be a neck: the horizon would have to hit the trend by itself. Agents
of one group (a lab, a model family) come one after the other, those first whose runs tell most:
each expects what the earlier ones of its group say of the group's level.
"""

from __future__ import annotations

import math

import numpy as np

from tidegauge.horizon.density.jit import jit
from tidegauge.horizon.model.parameters import (
    ALPHA,
    GROUP_HORIZON,
    LOG_SLOPE,
    SIGMA_GROUP_HORIZON,
    SIGMA_HORIZON,
)


@jit
def _logit_given(log_slope, variance, a, expected, runs):  # type: ignore[no-untyped-def]
    """Return mean and sd of a logit, the share its runs have in it, and the prior's mean."""
    pivot, horizons = runs
    prior = math.exp(log_slope) * (expected - pivot[a])
    spread = math.exp(2 * log_slope) * variance
    share = spread / (spread + horizons[1, a])
    mean = share * horizons[0, a] + (1 - share) * prior
    return mean, math.sqrt(share * horizons[1, a]), share, prior


@jit
def _level(x, at, earlier):  # type: ignore[no-untyped-def]
    """Return variance of a horizon, level of its group, and that level's share of a distance.

    `earlier`: number and summed distances from the trend of the agents before it in its group.
    """
    own = math.exp(2 * x[at[SIGMA_HORIZON]])
    if at[GROUP_HORIZON + 1] == at[GROUP_HORIZON]:
        return own, 0.0, 0.0
    among = math.exp(2 * x[at[SIGMA_GROUP_HORIZON]])
    share = among / (earlier[0] * among + own)
    return own * (1 + share), share * earlier[1], share


@jit
def horizons_forward(x, at, group, runs):  # type: ignore[no-untyped-def]
    """Move the logits in `x` that share a prior; return the log determinant."""
    pivot, horizons = runs
    log_determinant, earlier = 0.0, np.zeros((group.size, 2))
    for k in range(pivot.size):
        a = int(horizons[5, k])
        if horizons[1, a] > 0:
            log_slope, i, g = x[at[LOG_SLOPE] + a], at[ALPHA] + a, int(group[a])
            variance, level, _ = _level(x, at, earlier[g])
            expected = horizons[2, a] + level
            mean, sd, _, _ = _logit_given(log_slope, variance, a, expected, runs)
            ratio = sd / horizons[4, a]
            shift = math.exp(log_slope) * pivot[a]
            x[i] = shift + mean + ratio * (x[i] - shift - horizons[3, a])
            log_determinant += math.log(ratio)
            earlier[g, 0] += 1
            earlier[g, 1] += x[i] * math.exp(-log_slope) - horizons[2, a]
    return log_determinant


@jit
def horizons_backward(x, gx, gz, at, group, runs):  # type: ignore[no-untyped-def]
    """Carry the gradient back to the logits before they were moved; `x` is not moved back."""
    pivot, horizons = runs
    earlier, by_sum = np.zeros((group.size, 2)), np.zeros(group.size)
    for a in range(pivot.size):
        if horizons[1, a] > 0:
            horizon = x[at[ALPHA] + a] * math.exp(-x[at[LOG_SLOPE] + a])
            earlier[int(group[a]), 0] += 1
            earlier[int(group[a]), 1] += horizon - horizons[2, a]
    for k in range(pivot.size - 1, -1, -1):
        a = int(horizons[5, k])
        if horizons[1, a] > 0:
            i, j, g = at[ALPHA] + a, at[LOG_SLOPE] + a, int(group[a])
            steepness = math.exp(x[j])
            horizon = x[i] / steepness
            gx[i] += by_sum[g] / steepness
            gx[j] -= by_sum[g] * horizon
            earlier[g, 0] -= 1
            earlier[g, 1] -= horizon - horizons[2, a]
            variance, level, level_share = _level(x, at, earlier[g])
            mean, sd, share, prior = _logit_given(x[j], variance, a, horizons[2, a] + level, runs)
            ratio, rest = sd / horizons[4, a], 1 - share
            shift = steepness * pivot[a]
            moved = 2 * share * rest * (horizons[0, a] - prior) + rest * (x[i] - shift - mean)
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
