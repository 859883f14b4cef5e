"""Coordinates of the agents' curves: slopes first, then levels given the slopes.

An agent is the pair (its logit at its pivot, the equivalent length where its runs tell most; s with
beta = -log(1 + exp(s)), a logarithm where the slope is flat and the slope itself where it is
steep). All pairs together are nearly Gaussian about a centre, with their
marginal precision at the expansion point: each follows those after it and has its own innovation.
Slopes and horizons that share a prior are linked by it (`links`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.horizon.density.jit import jit
from tidegauge.horizon.model.parameters import ALPHA, LOG_SLOPE
from tidegauge.horizon.sampler.links import (
    LinkWork,
    link_backward,
    link_forward,
    new_link_work,
    shared_horizons,
    shared_slopes,
)


class AgentWork(NamedTuple):
    """What the way forward keeps for the way back."""

    deviation: FloatArray  # of the pairs from their centre (levels that are linked: unused)
    located: FloatArray  # log2 horizons that share a prior, as runs and slopes tell them
    slopes: LinkWork
    horizons: LinkWork


@jit
def new_agent_work(expansion):  # type: ignore[no-untyped-def]
    """Make room for the agents."""
    return AgentWork(
        np.zeros(2 * expansion.pivot.size),
        np.zeros(expansion.horizons.variance.size),
        new_link_work(expansion.slopes),
        new_link_work(expansion.horizons),
    )


@jit
def _softplus(s):  # type: ignore[no-untyped-def]
    return max(s, 0.0) + math.log1p(math.exp(-abs(s)))


@jit
def _inverse_softplus(steepness):  # type: ignore[no-untyped-def]
    return steepness + math.log(-math.expm1(-steepness))


@jit
def agents_forward(z, x, data, expansion, work):  # type: ignore[no-untyped-def]
    """Write the agents and what they share into `x`; return the log determinant."""
    at, n = data.at, expansion.pivot.size
    log_determinant = _slopes_forward(z, x, data, expansion, work)
    root, center, pivot = expansion.root, expansion.center, expansion.pivot
    deviation, linked = work.deviation, expansion.horizons.variance.size
    # Levels follow the slopes' deviations, and those with a prior of their own one another.
    for i in range(n - 1, -1, -1):
        deviation[i] = 0.0
        for j in range(max(i + 1, linked), 2 * n):
            deviation[i] += root[i, j] * deviation[j]
        a = int(expansion.order[i])
        steepness = math.exp(x[at[LOG_SLOPE] + a])
        if i < linked:
            work.located[i] = pivot[a] + (center[a] + deviation[i]) / steepness
        else:
            deviation[i] += root[i, i] * z[at[ALPHA] + i]
            log_determinant += math.log(root[i, i])
            x[at[ALPHA] + a] = center[a] + deviation[i] + steepness * pivot[a]
    if linked > 0:
        horizon = np.empty(linked)
        log_determinant += link_forward(
            z,
            x,
            at[ALPHA],
            work.located,
            expansion.order,
            data,
            expansion.horizons,
            shared_horizons(at, expansion.horizons),
            work.horizons,
            horizon,
        )
        for i in range(linked):
            a = int(expansion.order[i])
            log_slope = x[at[LOG_SLOPE] + a]
            x[at[ALPHA] + a] = horizon[i] * math.exp(log_slope)
            log_determinant += log_slope
    return log_determinant


@jit
def _slopes_forward(z, x, data, expansion, work):  # type: ignore[no-untyped-def]
    """Write the log slopes; keep the deviations of s from its centre."""
    at, n = data.at, expansion.pivot.size
    root, center, deviation = expansion.root, expansion.center, work.deviation
    log_determinant = 0.0
    if expansion.slopes.variance.size > 0:
        log_slopes, natural = np.empty(n), np.arange(n).astype(np.float64)
        log_determinant += link_forward(
            z,
            x,
            at[LOG_SLOPE],
            expansion.slope_location,
            natural,
            data,
            expansion.slopes,
            shared_slopes(at),
            work.slopes,
            log_slopes,
        )
        for a in range(n):
            x[at[LOG_SLOPE] + a] = log_slopes[a]
            deviation[n + a] = _inverse_softplus(math.exp(log_slopes[a])) - center[n + a]
        return log_determinant
    for i in range(2 * n - 1, n - 1, -1):
        deviation[i] = root[i, i] * z[at[ALPHA] + i]
        for j in range(i + 1, 2 * n):
            deviation[i] += root[i, j] * deviation[j]
        log_determinant += math.log(root[i, i])
        steepness = _softplus(center[i] + deviation[i])
        log_slope = math.log(steepness)
        x[at[LOG_SLOPE] + i - n] = log_slope
        log_determinant += math.log(-math.expm1(-steepness)) - log_slope
    return log_determinant


@jit
def agents_backward(z, x, gx, gz, data, expansion, work):  # type: ignore[no-untyped-def]
    """Carry the gradient by the agents in `gx` back to `z`, last step first."""
    at, n = data.at, expansion.pivot.size
    root, pivot, center = expansion.root, expansion.pivot, expansion.center
    linked = expansion.horizons.variance.size
    by_deviation, by_located = np.zeros(2 * n), np.zeros(linked)
    if linked > 0:
        by_horizon = np.empty(linked)
        for i in range(linked):
            a = int(expansion.order[i])
            steepness, by_alpha = math.exp(x[at[LOG_SLOPE] + a]), gx[at[ALPHA] + a]
            by_horizon[i] = by_alpha * steepness
            gx[at[LOG_SLOPE] + a] += by_alpha * x[at[ALPHA] + a] + 1
        link_backward(
            z,
            x,
            gx,
            gz,
            at[ALPHA],
            data,
            expansion.horizons,
            shared_horizons(at, expansion.horizons),
            work.horizons,
            by_horizon,
            by_located,
        )
    for i in range(n):
        a = int(expansion.order[i])
        steepness = math.exp(x[at[LOG_SLOPE] + a])
        if i < linked:
            level = (center[a] + work.deviation[i]) / steepness
            by_deviation[i] = by_located[i] / steepness
            gx[at[LOG_SLOPE] + a] -= by_located[i] * level
        else:
            by_alpha = gx[at[ALPHA] + a]
            by_deviation[i] += by_alpha
            gx[at[LOG_SLOPE] + a] += by_alpha * steepness * pivot[a]
            gz[at[ALPHA] + i] = by_deviation[i] * root[i, i]
        for j in range(max(i + 1, linked), 2 * n):
            by_deviation[j] += root[i, j] * by_deviation[i]
    _slopes_backward(z, x, gx, gz, data, expansion, work, by_deviation)


@jit
def _slopes_backward(z, x, gx, gz, data, expansion, work, by_deviation):  # type: ignore[no-untyped-def]
    at, n, root = data.at, expansion.pivot.size, expansion.root
    if expansion.slopes.variance.size > 0:
        by_log_slope, by_location = np.empty(n), np.empty(n)  # a constant: goes nowhere
        for a in range(n):
            steepness = math.exp(x[at[LOG_SLOPE] + a])
            stretch = steepness / -math.expm1(-steepness)  # derivative of s by the log slope
            by_log_slope[a] = gx[at[LOG_SLOPE] + a] + by_deviation[n + a] * stretch
        link_backward(
            z,
            x,
            gx,
            gz,
            at[LOG_SLOPE],
            data,
            expansion.slopes,
            shared_slopes(at),
            work.slopes,
            by_log_slope,
            by_location,
        )
        return
    for i in range(n, 2 * n):
        steepness = math.exp(x[at[LOG_SLOPE] + i - n])
        steepening = -math.expm1(-steepness)  # derivative of the steepness by s
        by_deviation[i] += steepening * (gx[at[LOG_SLOPE] + i - n] - 1) / steepness
        by_deviation[i] += 1 - steepening  # of the log determinant
        gz[at[ALPHA] + i] = root[i, i] * by_deviation[i]
        for j in range(i + 1, 2 * n):
            by_deviation[j] += root[i, j] * by_deviation[i]
