"""Coordinates in which the posterior is nearly a standard normal; an exact change of variables.

Lengths, residuals and log discriminations are trees (`tree`): conditional means plus innovations,
given pseudo-observations of the tasks (`task_evidence`). An agent is the pair (its logit at its
pivot, the difficulty where its runs are informative; s with beta = -log(1 + exp(s)), a logarithm
where the slope is flat and the slope itself where it is steep); all pairs together are a centre
plus a triangular matrix times innovations, from their marginal precision at the expansion point.
Horizons with a shared prior and levels of groups are partially centred (`agent_levels`). What is
constant in all this comes from `expansion`; docs/coordinates.md has the equations.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tidegauge.horizon.density.buffer import read_data, read_expansion
from tidegauge.horizon.density.jit import jit
from tidegauge.horizon.density.joint import log_density
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
from tidegauge.horizon.sampler.agent_levels import (
    groups_backward,
    groups_forward,
    horizons_backward,
    horizons_forward,
)
from tidegauge.horizon.sampler.task_evidence import (
    TaskTerms,
    observe_lengths,
    observe_lengths_backward,
    regress_logits_backward,
)
from tidegauge.horizon.sampler.tree import (
    Places,
    PseudoObservations,
    Tree,
    TreeWork,
    tree_backward,
    tree_forward,
)


class Work(NamedTuple):
    """The trees of lengths, residuals and log discriminations, and the parts they are made of."""

    lengths: Tree
    residuals: Tree
    sharpness: Tree
    terms: TaskTerms


@jit
def _shared_forward(z, x, at, expansion, deviation):  # type: ignore[no-untyped-def]
    """Write the coefficients that agents share: conditional means plus innovations."""
    shared, pull, root = expansion.shared, expansion.shared_pull, expansion.shared_root
    log_determinant = 0.0
    for i in range(shared.size):
        value = shared[i]
        for j in range(deviation.size):
            value += pull[i, j] * deviation[j]
        for j in range(i, shared.size):
            value += root[i, j] * z[at[MU_SLOPE] + j]
        x[at[MU_SLOPE] + i] = value
        log_determinant += math.log(root[i, i])
    return log_determinant


@jit
def _shared_backward(gx, gz, at, expansion, by_pair):  # type: ignore[no-untyped-def]
    shared, pull, root = expansion.shared, expansion.shared_pull, expansion.shared_root
    for i in range(shared.size):
        gz[at[MU_SLOPE] + i] = 0
    for i in range(shared.size):
        g = gx[at[MU_SLOPE] + i]
        for j in range(by_pair.size):
            by_pair[j] += g * pull[i, j]
        for j in range(i, shared.size):
            gz[at[MU_SLOPE] + j] += root[i, j] * g


@jit
def _softplus(s):  # type: ignore[no-untyped-def]
    return max(s, 0.0) + math.log1p(math.exp(-abs(s)))


@jit
def _agents_forward(z, x, at, expansion):  # type: ignore[no-untyped-def]
    """Write the agents of `z` into `x`; return their deviations and the log determinant."""
    pivot, center, root = expansion.pivot, expansion.center, expansion.root
    n = pivot.size
    deviation = np.zeros(2 * n)
    log_determinant = 0.0
    for i in range(2 * n):
        log_determinant += math.log(root[i, i])
        for j in range(i, 2 * n):
            deviation[i] += root[i, j] * z[at[ALPHA] + j]
    for a in range(n):
        steepness = _softplus(center[n + a] + deviation[n + a])
        log_slope = math.log(steepness)
        x[at[LOG_SLOPE] + a] = log_slope
        x[at[ALPHA] + a] = center[a] + deviation[a] + steepness * pivot[a]
        log_determinant += math.log(-math.expm1(-steepness)) - log_slope
    return deviation, log_determinant


@jit
def _agents_backward(x, gx, gz, by_pair, at, expansion):  # type: ignore[no-untyped-def]
    """Carry the gradient by the agents, and `by_pair` that came through the tasks, back to `z`."""
    pivot, root = expansion.pivot, expansion.root
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
            gz[at[ALPHA] + j] += root[i, j] * by_pair[i]


@jit
def _pseudo_observations(n_tasks):  # type: ignore[no-untyped-def]
    parts = np.empty((2, n_tasks))
    return PseudoObservations(parts[0], parts[1])


@jit
def _tree(places, data):  # type: ignore[no-untyped-def]
    parts = np.empty((3, data.first_task.size))
    work = TreeWork(parts[0], parts[1], parts[2])
    return Tree(places, _pseudo_observations(data.source.size), work)


@jit
def _new_work(data):  # type: ignore[no-untyped-def]
    """Lay out the trees: where their levels and scales lie, and room for their parts."""
    at = data.at
    lengths = Places(at[MU_GLOBAL], at[MU_FAMILY], at[MU_TASK], at[SIGMA_GLOBAL], at[SIGMA_FAMILY])
    has_family = at[RESIDUAL_FAMILY + 1] > at[RESIDUAL_FAMILY]
    family = at[RESIDUAL_FAMILY] if has_family else -1
    scales = at[SIGMA_RESIDUAL_FAMILY], at[SIGMA_RESIDUAL_TASK]
    residuals = Places(-1, family, at[RESIDUAL], scales[0], scales[1])
    scale = at[SIGMA_DISCRIMINATION]
    sharpness = Places(-1, -1, at[LOG_DISCRIMINATION], scale, scale)
    p = np.empty((9, data.source.size))
    terms = TaskTerms(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8])
    return Work(_tree(lengths, data), _tree(residuals, data), _tree(sharpness, data), terms)


@jit
def _forward(z, x, data, expansion, work):  # type: ignore[no-untyped-def]
    """Write the centred point of `z` and return the log determinant of the map."""
    at, first_task, terms = data.at, data.first_task, work.terms
    x[1 : at[MU_SLOPE]] = z[1 : at[MU_SLOPE]]
    deviation, log_determinant = _agents_forward(z, x, at, expansion)
    log_determinant += _shared_forward(z, x, at, expansion, deviation)
    log_determinant += horizons_forward(x, at, data.agents.group, expansion)
    log_determinant += groups_forward(z, x, data)
    prior = (data.scalar_priors[0, 0], data.scalar_priors[0, 1])  # of mu_global
    observe_lengths(x, data, expansion, work.lengths.observed, terms)
    log_determinant += tree_forward(z, x, work.lengths, first_task, prior)
    if at[RESIDUAL + 1] > at[RESIDUAL]:
        observed = work.residuals.observed
        for t in range(terms.cross.size):
            given = terms.cross[t] * x[at[MU_TASK] + t]
            observed.precision[t] = terms.residual_precision[t]
            observed.information[t] = terms.residual_information[t] - given
        log_determinant += tree_forward(z, x, work.residuals, first_task, prior)
    if at[LOG_DISCRIMINATION + 1] > at[LOG_DISCRIMINATION]:
        observed, precision = work.sharpness.observed, expansion.sharpness_precision
        observed.precision[:] = precision
        observed.information[:] = precision * expansion.sharpness_location
        log_determinant += tree_forward(z, x, work.sharpness, first_task, prior)
    return log_determinant


@jit
def _backward(z, x, gx, gz, data, expansion, work):  # type: ignore[no-untyped-def]
    """Carry the gradient by `x`, and of the log determinant, back to `z`: last step first."""
    at, first_task, n_tasks = data.at, data.first_task, data.source.size
    by_lengths, by_residuals = _pseudo_observations(n_tasks), _pseudo_observations(n_tasks)
    by_pair = np.zeros(expansion.center.size)
    gz[:] = gx
    if at[LOG_DISCRIMINATION + 1] > at[LOG_DISCRIMINATION]:
        constant = _pseudo_observations(n_tasks)  # their gradient goes nowhere
        tree_backward(z, x, gx, gz, work.sharpness, first_task, constant)
    if at[RESIDUAL + 1] > at[RESIDUAL]:
        tree_backward(z, x, gx, gz, work.residuals, first_task, by_residuals)
        for t in range(n_tasks):
            gx[at[MU_TASK] + t] -= by_residuals.information[t] * work.terms.cross[t]
    tree_backward(z, x, gx, gz, work.lengths, first_task, by_lengths)
    observe_lengths_backward(x, gz, data, expansion, work.terms, by_lengths)
    regress_logits_backward(x, gx, at, expansion, work.terms, by_lengths, by_residuals)
    groups_backward(z, x, gx, gz, data)
    _shared_backward(gx, gz, at, expansion, by_pair)
    horizons_backward(x, gx, gz, at, data.agents.group, expansion)
    _agents_backward(x, gx, gz, by_pair, at, expansion)


@jit
def whitened_log_density(z, gz, buffer):  # type: ignore[no-untyped-def]
    """Return the log density at whitened `z` and write its gradient."""
    data, expansion = read_data(buffer), read_expansion(buffer)
    work = _new_work(data)
    x, gx = np.empty(z.size), np.empty(z.size)
    log_determinant = _forward(z, x, data, expansion, work)
    logp = log_density(x, gx, buffer)
    _backward(z, x, gx, gz, data, expansion, work)
    return logp + log_determinant


@jit
def map_all(z, x, buffer):  # type: ignore[no-untyped-def]
    """Write the centred point of every row of `z` into `x`."""
    data, expansion = read_data(buffer), read_expansion(buffer)
    work = _new_work(data)
    for i in range(z.shape[0]):
        _forward(z[i], x[i], data, expansion, work)
