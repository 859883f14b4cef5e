"""Horizons that share a prior, drawn to it as their scatter shrinks or their slope flattens.

Given its slope and the scatter, an agent's logit at its pivot is told by its runs (a location and
a variance) and by the shared prior of its log2 horizon; both are Gaussian, so it has a conditional
mean and sd. The logit keeps its distance from that mean in units of that sd. Without it, a small
scatter or a flat slope would be a neck: the horizon would have to hit the trend by itself.
"""

from __future__ import annotations

import math

from tidegauge.horizon.jit import jit
from tidegauge.horizon.layout import ALPHA, LOG_SLOPE, SIGMA_GROUP_HORIZON, SIGMA_HORIZON


@jit
def _logit_given(log_slope, log_scatter, a, pivot, horizons):  # type: ignore[no-untyped-def]
    """Return mean and sd of a logit, the share its runs have in it, and the prior's mean."""
    steepness = math.exp(log_slope)
    prior = steepness * (horizons[2, a] - pivot[a])
    spread = math.exp(2 * (log_slope + log_scatter))
    share = spread / (spread + horizons[1, a])
    mean = share * horizons[0, a] + (1 - share) * prior
    return mean, math.sqrt(share * horizons[1, a]), share, prior


@jit
def _scatter(x, at):  # type: ignore[no-untyped-def]
    """Return the log sd of horizons about what all agents share, and the agents' own part of it."""
    own, among = math.exp(2 * x[at[SIGMA_HORIZON]]), 0.0
    if at[SIGMA_GROUP_HORIZON + 1] > at[SIGMA_GROUP_HORIZON]:
        among = math.exp(2 * x[at[SIGMA_GROUP_HORIZON]])
    return 0.5 * math.log(own + among), own / (own + among)


@jit
def horizons_forward(x, at, pivot, horizons):  # type: ignore[no-untyped-def]
    """Move the logits in `x` that share a prior; return the log determinant."""
    log_determinant = 0.0
    for a in range(pivot.size):
        if horizons[1, a] > 0:
            log_slope, i = x[at[LOG_SLOPE] + a], at[ALPHA] + a
            log_scatter, _ = _scatter(x, at)
            mean, sd, _, _ = _logit_given(log_slope, log_scatter, a, pivot, horizons)
            ratio = sd / horizons[4, a]
            shift = math.exp(log_slope) * pivot[a]
            x[i] = shift + mean + ratio * (x[i] - shift - horizons[3, a])
            log_determinant += math.log(ratio)
    return log_determinant


@jit
def horizons_backward(x, gx, gz, at, pivot, horizons):  # type: ignore[no-untyped-def]
    """Carry the gradient back to the logits before they were moved; `x` is not moved back."""
    for a in range(pivot.size):
        if horizons[1, a] > 0:
            i, j = at[ALPHA] + a, at[LOG_SLOPE] + a
            log_scatter, own = _scatter(x, at)
            mean, sd, share, prior = _logit_given(x[j], log_scatter, a, pivot, horizons)
            ratio, rest = sd / horizons[4, a], 1 - share
            shift = math.exp(x[j]) * pivot[a]
            moved = 2 * share * rest * (horizons[0, a] - prior) + rest * (x[i] - shift - mean)
            by_scatter = gx[i] * moved + rest
            gz[at[SIGMA_HORIZON]] += by_scatter * own
            if own < 1:
                gz[at[SIGMA_GROUP_HORIZON]] += by_scatter * (1 - own)
            gx[j] += gx[i] * (moved + rest * prior + shift * (1 - ratio)) + rest
            gx[i] *= ratio
