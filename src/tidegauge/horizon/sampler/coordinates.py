"""Coordinates in which the posterior is round; exact, since only the coordinates change.

Lengths, residuals and discriminations are trees (`tree`): conditional means plus innovations.
What the agents say of a task (`evidence`) enters as weighted least squares of its logits, with
weights and logits of a reference point that shapes the coordinates and nothing else: it moves, and
sharpens, with the agents, so that a common shift or stretch of all difficulties is no ridge.
An agent is the pair (its logit at the difficulty where its runs are informative, s with
beta = -log(1 + exp(s)): a logarithm where the slope is flat, the slope itself where it is steep);
all agents together are a reference plus a matrix times innovations, by their marginal precision.
Horizons that share a prior lie about its trend, and about those of their group, as closely as
their scatter and their runs say (`scatter`): a small scatter is no neck. Groups of agents lie as
their agents tell (`groups`).
"""

from __future__ import annotations

import math

import numpy as np

from tidegauge.horizon.density.buffer import HEADER, N_AGENTS, N_TASKS, STARTS
from tidegauge.horizon.density.jit import jit
from tidegauge.horizon.density.joint import length_of, log_density, parts_of, starts_of
from tidegauge.horizon.model.parameters import (
    ALPHA,
    LOG_DISCRIMINATION,
    LOG_SLOPE,
    MU_FAMILY,
    MU_GLOBAL,
    MU_SLOPE,
    MU_TASK,
    RESIDUAL,
    RESIDUAL_FAMILY,
    SIGMA_DISCRIMINATION,
    SIGMA_FAMILY,
    SIGMA_GLOBAL,
    SIGMA_RESIDUAL_FAMILY,
    SIGMA_RESIDUAL_TASK,
)
from tidegauge.horizon.sampler.agent_levels import horizons_backward, horizons_forward
from tidegauge.horizon.sampler.group_levels import groups_backward, groups_forward
from tidegauge.horizon.sampler.task_evidence import (
    agents_said_backward,
    lengths_backward,
    said_of_lengths,
)
from tidegauge.horizon.sampler.tree import tree_backward, tree_forward


@jit
def _shape_of(buffer):  # type: ignore[no-untyped-def]
    """Return the reference: rows per task, the agents' pivots and centres, and the matrices."""
    at = length_of(buffer)
    n_agents, n_tasks = int(buffer[N_AGENTS]), int(buffer[N_TASKS])
    pairs = 2 * n_agents
    rows = buffer[at : at + 5 * n_tasks].reshape(5, n_tasks)
    at += 5 * n_tasks
    pivot, center = buffer[at : at + n_agents], buffer[at + n_agents : at + 3 * n_agents]
    at += 3 * n_agents
    told = buffer[at : at + pairs * n_tasks].reshape(2, n_tasks, n_agents)
    at += pairs * n_tasks
    spread = buffer[at : at + pairs * pairs].reshape(pairs, pairs)
    at += pairs * pairs
    n_shared = _n_shared(buffer)
    shared = buffer[at : at + n_shared]
    at += n_shared
    shared_pull = buffer[at : at + n_shared * pairs].reshape(n_shared, pairs)
    at += n_shared * pairs
    shared_spread = buffer[at : at + n_shared * n_shared].reshape(n_shared, n_shared)
    at += n_shared * n_shared
    horizons = buffer[at : at + 6 * n_agents].reshape(6, n_agents)
    return rows, pivot, center, told, spread, (shared, shared_pull, shared_spread), horizons


@jit
def _n_shared(buffer):  # type: ignore[no-untyped-def]
    """Return how many terms the agents share: a mean slope, the terms of a trend."""
    return int(buffer[STARTS + MU_FAMILY]) - int(buffer[STARTS + MU_SLOPE])


@jit
def _shared_forward(z, x, at, shape, deviation):  # type: ignore[no-untyped-def]
    """Write what agents share: its reference, moved by the agents, plus innovations."""
    shared, pull, spread = shape[5]
    log_determinant = 0.0
    for i in range(shared.size):
        value = shared[i]
        for j in range(deviation.size):
            value += pull[i, j] * deviation[j]
        for j in range(i, shared.size):
            value += spread[i, j] * z[at[MU_SLOPE] + j]
        x[at[MU_SLOPE] + i] = value
        log_determinant += math.log(spread[i, i])
    return log_determinant


@jit
def _shared_backward(gx, gz, at, shape, by_pair):  # type: ignore[no-untyped-def]
    shared, pull, spread = shape[5]
    for i in range(shared.size):
        gz[at[MU_SLOPE] + i] = 0
    for i in range(shared.size):
        g = gx[at[MU_SLOPE] + i]
        for j in range(by_pair.size):
            by_pair[j] += g * pull[i, j]
        for j in range(i, shared.size):
            gz[at[MU_SLOPE] + j] += spread[i, j] * g


@jit
def _softplus(s):  # type: ignore[no-untyped-def]
    return max(s, 0.0) + math.log1p(math.exp(-abs(s)))


@jit
def _agents_forward(z, x, at, shape):  # type: ignore[no-untyped-def]
    """Write the agents of `z` into `x`; return their deviations and the log determinant."""
    _, pivot, center, _, spread, _, _ = shape
    n = pivot.size
    deviation = np.zeros(2 * n)
    log_determinant = 0.0
    for i in range(2 * n):
        log_determinant += math.log(spread[i, i])
        for j in range(i, 2 * n):
            deviation[i] += spread[i, j] * z[at[ALPHA] + j]
    for a in range(n):
        steepness = _softplus(center[n + a] + deviation[n + a])
        log_slope = math.log(steepness)
        x[at[LOG_SLOPE] + a] = log_slope
        x[at[ALPHA] + a] = center[a] + deviation[a] + steepness * pivot[a]
        log_determinant += math.log(-math.expm1(-steepness)) - log_slope
    return deviation, log_determinant


@jit
def _agents_backward(x, gx, gz, by_pair, at, shape):  # type: ignore[no-untyped-def]
    """Carry the gradient by the agents, and `by_pair` that came through the tasks, back to `z`."""
    _, pivot, _, _, spread, _, _ = shape
    n = pivot.size
    for a in range(n):
        by_alpha, by_log_slope = gx[at[ALPHA] + a], gx[at[LOG_SLOPE] + a]
        steepness = math.exp(x[at[LOG_SLOPE] + a])
        steepening = -math.expm1(-steepness)  # derivative of the steepness by s
        by_pair[a] += by_alpha
        by_pair[n + a] += steepening * (by_alpha * pivot[a] + (by_log_slope - 1) / steepness)
        by_pair[n + a] += 1 - steepening  # of the log determinant
    gz[at[ALPHA] :] = 0
    for i in range(2 * n):
        for j in range(i, 2 * n):
            gz[at[ALPHA] + j] += spread[i, j] * by_pair[i]


@jit
def _trees(at):  # type: ignore[no-untyped-def]
    """Return where the trees of lengths, residuals and discriminations lie."""
    lengths = (at[MU_GLOBAL], at[MU_FAMILY], at[MU_TASK])
    has_family = at[RESIDUAL_FAMILY + 1] > at[RESIDUAL_FAMILY]
    residuals = (-1, at[RESIDUAL_FAMILY] if has_family else -1, at[RESIDUAL])
    sharpness = (-1, -1, at[LOG_DISCRIMINATION])
    return lengths, residuals, sharpness


@jit
def _forward(z, x, buffer, at, data, shape, kept):  # type: ignore[no-untyped-def]
    """Write the centred point of `z` and return the log determinant of the map."""
    said, work, parts = kept
    first_task, rows = data[0], shape[0]
    x[1 : at[MU_SLOPE]] = z[1 : at[MU_SLOPE]]
    deviation, log_determinant = _agents_forward(z, x, at, shape)
    log_determinant += _shared_forward(z, x, at, shape, deviation)
    log_determinant += horizons_forward(x, at, data[5][0], (shape[1], shape[6]))
    log_determinant += groups_forward(z, x, buffer, at, data[5])
    lengths, residuals, sharpness = _trees(at)
    prior = (buffer[HEADER], buffer[HEADER + 1])
    said_of_lengths(x, at, data, shape, said[0], parts)
    scales = (at[SIGMA_GLOBAL], at[SIGMA_FAMILY])
    log_determinant += tree_forward(z, x, lengths, scales, first_task, said[0], prior, work[0])
    if at[RESIDUAL + 1] > at[RESIDUAL]:
        for t in range(rows.shape[1]):
            said[1, 0, t] = parts[4, t]
            said[1, 1, t] = parts[5, t] - parts[6, t] * x[at[MU_TASK] + t]
        scales = (at[SIGMA_RESIDUAL_FAMILY], at[SIGMA_RESIDUAL_TASK])
        log_determinant += tree_forward(
            z, x, residuals, scales, first_task, said[1], prior, work[1]
        )
    if at[LOG_DISCRIMINATION + 1] > at[LOG_DISCRIMINATION]:
        said[2, 0], said[2, 1] = rows[3], rows[3] * rows[4]
        scales = (at[SIGMA_DISCRIMINATION], at[SIGMA_DISCRIMINATION])
        log_determinant += tree_forward(
            z, x, sharpness, scales, first_task, said[2], prior, work[2]
        )
    return log_determinant


@jit
def _backward(z, x, gx, gz, buffer, at, data, shape, kept):  # type: ignore[no-untyped-def]
    """Carry the gradient by `x`, and of the log determinant, back to `z`: last step first."""
    said, work, parts = kept
    first_task = data[0]
    by_said, by_pair = np.empty(said.shape), np.zeros(shape[2].size)
    gz[:] = gx
    lengths, residuals, sharpness = _trees(at)
    if at[LOG_DISCRIMINATION + 1] > at[LOG_DISCRIMINATION]:
        scales = (at[SIGMA_DISCRIMINATION], at[SIGMA_DISCRIMINATION])
        tree_backward(z, x, gx, gz, sharpness, scales, first_task, said[2], work[2], by_said[2])
    if at[RESIDUAL + 1] > at[RESIDUAL]:
        scales = (at[SIGMA_RESIDUAL_FAMILY], at[SIGMA_RESIDUAL_TASK])
        tree_backward(z, x, gx, gz, residuals, scales, first_task, said[1], work[1], by_said[1])
        for t in range(said.shape[2]):
            gx[at[MU_TASK] + t] -= by_said[1, 1, t] * parts[6, t]
    scales = (at[SIGMA_GLOBAL], at[SIGMA_FAMILY])
    tree_backward(z, x, gx, gz, lengths, scales, first_task, said[0], work[0], by_said[0])
    lengths_backward(x, gz, at, data, shape, parts, by_said[0])
    agents_said_backward(x, gx, at, shape, parts, by_said[0], by_said[1])
    groups_backward(z, x, gx, gz, buffer, at, data[5])
    _shared_backward(gx, gz, at, shape, by_pair)
    horizons_backward(x, gx, gz, at, data[5][0], (shape[1], shape[6]))
    _agents_backward(x, gx, gz, by_pair, at, shape)


@jit
def _kept(data):  # type: ignore[no-untyped-def]
    n_tasks, n_families = data[1].size, data[0].size - 1
    return np.empty((3, 2, n_tasks)), np.empty((3, 3, n_families + 1)), np.empty((9, n_tasks))


@jit
def whitened_log_density(z, gz, buffer):  # type: ignore[no-untyped-def]
    """Return the log density at whitened `z` and write its gradient."""
    at, data, shape = starts_of(buffer), parts_of(buffer), _shape_of(buffer)
    kept = _kept(data)
    x, gx = np.empty(z.size), np.empty(z.size)
    log_determinant = _forward(z, x, buffer, at, data, shape, kept)
    logp = log_density(x, gx, buffer)
    _backward(z, x, gx, gz, buffer, at, data, shape, kept)
    return logp + log_determinant


@jit
def map_all(z, x, buffer):  # type: ignore[no-untyped-def]
    """Write the centred point of every row of `z` into `x`."""
    at, data, shape = starts_of(buffer), parts_of(buffer), _shape_of(buffer)
    kept = _kept(data)
    for i in range(z.shape[0]):
        _forward(z[i], x[i], buffer, at, data, shape, kept)


@jit
def whole_length_of(buffer):  # type: ignore[no-untyped-def]
    """Return the length of the whole buffer, data and reference."""
    n_agents, n_tasks = int(buffer[N_AGENTS]), int(buffer[N_TASKS])
    pairs = 2 * n_agents
    length = length_of(buffer) + 5 * n_tasks + n_agents + pairs
    n_shared = _n_shared(buffer)
    length += pairs * n_tasks + pairs * pairs
    return length + n_shared * (1 + pairs + n_shared) + 6 * n_agents
