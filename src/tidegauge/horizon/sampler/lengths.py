"""Coordinates of the tasks: equivalent lengths first, then lengths given them.

Agents see a task only through its equivalent length D = mu + delta, so D is the tree that carries
their pseudo-observation; what people say of mu enters it with the variance of delta added. Given D,
the lengths are a tree of their own without a root, observed by people alone: with

    kappa = var_global / (var_global + var_residual_family)
    rho = var_family / (var_family + var_residual_task)

    mu_f = root + kappa (D_f - root) + w_f
    mu_t = root + kappa (D_f - root) + rho (D_t - D_f) + w_t

the w are Gaussian about zero (families) and about their family's (tasks), with the variances of
mu given D. Without a residual D is mu, and there is one tree.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tidegauge.horizon.density.jit import jit
from tidegauge.horizon.model.parameters import (
    DELTA_ESTIMATE,
    MU_FAMILY,
    MU_GLOBAL,
    MU_TASK,
    RESIDUAL,
    RESIDUAL_FAMILY,
    SIGMA_FAMILY,
    SIGMA_GLOBAL,
    SIGMA_RESIDUAL_FAMILY,
    SIGMA_RESIDUAL_TASK,
)
from tidegauge.horizon.sampler.estimate_bias import bias_backward, bias_forward
from tidegauge.horizon.sampler.task_evidence import (
    agents_observe,
    agents_observe_backward,
    people_observe,
    people_observe_backward,
)
from tidegauge.horizon.sampler.tree import (
    Levels,
    Places,
    PseudoObservations,
    Tree,
    new_tree,
    tree_backward,
    tree_forward,
)


class TaskWork(NamedTuple):
    """The trees of equivalent lengths and of lengths given them, and what was observed of each."""

    equivalent: Tree
    lengths: Tree
    agents: PseudoObservations
    people: PseudoObservations


class Variances(NamedTuple):
    """Of lengths and residuals, among families and among tasks of one; 0 for what is lacking."""

    family_length: float
    family_residual: float
    task_length: float
    task_residual: float


@jit
def _variances(x, at):  # type: ignore[no-untyped-def]
    of_family, of_task = 0.0, 0.0
    if at[RESIDUAL_FAMILY + 1] > at[RESIDUAL_FAMILY]:
        of_family = math.exp(2 * x[at[SIGMA_RESIDUAL_FAMILY]])
    if at[RESIDUAL + 1] > at[RESIDUAL]:
        of_task = math.exp(2 * x[at[SIGMA_RESIDUAL_TASK]])
    return Variances(
        math.exp(2 * x[at[SIGMA_GLOBAL]]), of_family, math.exp(2 * x[at[SIGMA_FAMILY]]), of_task
    )


@jit
def new_task_work(data):  # type: ignore[no-untyped-def]
    """Lay out the trees."""
    at, n_families, n_tasks = data.at, data.first_task.size - 1, data.source.size
    family = at[RESIDUAL_FAMILY] if at[RESIDUAL_FAMILY + 1] > at[RESIDUAL_FAMILY] else -1
    parts = np.zeros((4, n_tasks))
    return TaskWork(
        new_tree(Places(at[MU_GLOBAL], at[MU_FAMILY], at[MU_TASK]), n_families, n_tasks),
        new_tree(Places(-1, family, at[RESIDUAL]), n_families, n_tasks),
        PseudoObservations(parts[0], parts[1]),
        PseudoObservations(parts[2], parts[3]),
    )


@jit
def _shares(v):  # type: ignore[no-untyped-def]
    """Return the lengths' share in the variances of equivalent lengths: kappa and rho."""
    return (
        v.family_length / (v.family_length + v.family_residual),
        v.task_length / (v.task_length + v.task_residual),
    )


@jit
def lengths_forward(z, x, data, expansion, work):  # type: ignore[no-untyped-def]
    """Write lengths and residuals of `z` into `x` and return the log determinant of the map."""
    at, first_task, n_tasks = data.at, data.first_task, data.source.size
    n_families = first_task.size - 1
    agents, people, equivalent = work.agents, work.people, work.equivalent
    agents_observe(x, at, expansion, agents)
    v, log_determinant = _variances(x, at), 0.0
    rest = v.family_residual + v.task_residual
    if at[DELTA_ESTIMATE + 1] > at[DELTA_ESTIMATE]:
        log_determinant += bias_forward(z, x, data, expansion, agents, rest)
    people_observe(x, data, expansion, people)
    for t in range(n_tasks):
        dulled = 1 / (1 + people.precision[t] * rest)
        observed = equivalent.observed
        observed.precision[t] = agents.precision[t] + people.precision[t] * dulled
        observed.information[t] = agents.information[t] + people.information[t] * dulled
    prior = (data.scalar_priors[0, 0], data.scalar_priors[0, 1])  # of mu_global
    of_family, of_task = v.family_length + v.family_residual, v.task_length + v.task_residual
    log_determinant += tree_forward(z, equivalent, first_task, prior, of_family, of_task)
    d = equivalent.levels
    root = d.family[n_families]
    x[at[MU_GLOBAL]] = root
    has_residual = at[RESIDUAL + 1] > at[RESIDUAL]
    if not has_residual:
        x[at[MU_FAMILY] : at[MU_FAMILY] + n_families] = d.family[:n_families]
        x[at[MU_TASK] : at[MU_TASK] + n_tasks] = d.task
        return log_determinant
    by_family = at[RESIDUAL_FAMILY + 1] > at[RESIDUAL_FAMILY]
    kappa, rho = _shares(v)
    lengths = work.lengths
    for f in range(n_families):
        centre = root + kappa * (d.family[f] - root)
        x[at[MU_FAMILY] + f] = centre
        for t in range(int(first_task[f]), int(first_task[f + 1])):
            x[at[MU_TASK] + t] = centre + rho * (d.task[t] - d.family[f])
            lengths.observed.precision[t] = people.precision[t]
            given = people.precision[t] * x[at[MU_TASK] + t]
            lengths.observed.information[t] = people.information[t] - given
    log_determinant += tree_forward(
        z, lengths, first_task, prior, kappa * v.family_residual, rho * v.task_residual
    )
    for f in range(n_families):
        if by_family:
            x[at[MU_FAMILY] + f] += lengths.levels.family[f]
            x[at[RESIDUAL_FAMILY] + f] = d.family[f] - x[at[MU_FAMILY] + f]
    for t in range(n_tasks):
        x[at[MU_TASK] + t] += lengths.levels.task[t]
        x[at[RESIDUAL] + t] = d.task[t] - x[at[MU_TASK] + t]
    return log_determinant


@jit
def lengths_backward(z, x, gx, gz, data, expansion, work):  # type: ignore[no-untyped-def]
    """Carry the gradient by lengths and residuals back to `z`, the scales, and agents in `gx`."""
    at, first_task, n_tasks = data.at, data.first_task, data.source.size
    n_families = first_task.size - 1
    parts, by_f = np.zeros((6, n_tasks)), np.zeros((2, n_families + 1))
    by_agents = PseudoObservations(parts[0], parts[1])
    by_people = PseudoObservations(parts[2], parts[3])
    by_d, by_w = Levels(by_f[0], parts[4]), Levels(by_f[1], parts[5])
    agents, people, d = work.agents, work.people, work.equivalent.levels
    v, root = _variances(x, at), d.family[n_families]
    kappa, rho = _shares(v)
    has_residual = at[RESIDUAL + 1] > at[RESIDUAL]
    by_family = at[RESIDUAL_FAMILY + 1] > at[RESIDUAL_FAMILY]
    by_family_length, by_family_residual = 0.0, 0.0  # by the logarithms of the four scales
    by_task_length, by_task_residual = 0.0, 0.0
    by_d.family[n_families] = gx[at[MU_GLOBAL]]
    if has_residual:
        # delta = D - mu: what moves a residual moves D, and a length the other way.
        for t in range(n_tasks):
            by_d.task[t] = gx[at[RESIDUAL] + t]
            by_w.task[t] = gx[at[MU_TASK] + t] - by_d.task[t]
        for f in range(n_families):
            by_d.family[f] = gx[at[RESIDUAL_FAMILY] + f] if by_family else 0.0
            by_w.family[f] = gx[at[MU_FAMILY] + f] - by_d.family[f]
        by_centre = by_w.family.copy()
        if not by_family:
            by_w.family[:] = 0
        by_family_scale, by_task_scale = tree_backward(
            z,
            gz,
            work.lengths,
            first_task,
            kappa * v.family_residual,
            rho * v.task_residual,
            by_w,
            by_people,
        )
        by_task_length += (1 - rho) * by_task_scale
        by_task_residual += rho * by_task_scale
        if by_family:
            by_family_length += (1 - kappa) * by_family_scale
            by_family_residual += kappa * by_family_scale
        by_kappa, by_rho = 0.0, 0.0
        for f in range(n_families):
            centre = root + kappa * (d.family[f] - root)
            for t in range(int(first_task[f]), int(first_task[f + 1])):
                by_b = by_people.information[t]
                expected = centre + rho * (d.task[t] - d.family[f])
                by_expected = by_w.task[t] - by_b * people.precision[t]
                by_people.precision[t] -= by_b * expected
                by_centre[f] += by_expected
                by_d.task[t] += rho * by_expected
                by_d.family[f] -= rho * by_expected
                by_rho += by_expected * (d.task[t] - d.family[f])
            by_d.family[f] += kappa * by_centre[f]
            by_d.family[n_families] += (1 - kappa) * by_centre[f]
            by_kappa += by_centre[f] * (d.family[f] - root)
        by_task_length += 2 * rho * (1 - rho) * by_rho
        by_task_residual -= 2 * rho * (1 - rho) * by_rho
        by_family_length += 2 * kappa * (1 - kappa) * by_kappa
        by_family_residual -= 2 * kappa * (1 - kappa) * by_kappa
    else:
        by_d.family[:n_families] = gx[at[MU_FAMILY] : at[MU_FAMILY] + n_families]
        by_d.task[:] = gx[at[MU_TASK] : at[MU_TASK] + n_tasks]
    of_family, of_task = v.family_length + v.family_residual, v.task_length + v.task_residual
    by_family_scale, by_task_scale = tree_backward(
        z, gz, work.equivalent, first_task, of_family, of_task, by_d, by_agents
    )
    by_family_length += kappa * by_family_scale
    by_family_residual += (1 - kappa) * by_family_scale
    by_task_length += rho * by_task_scale
    by_task_residual += (1 - rho) * by_task_scale
    rest, by_rest = v.family_residual + v.task_residual, 0.0
    for t in range(n_tasks):
        h, i = people.precision[t], people.information[t]
        dulled = 1 / (1 + h * rest)
        by_dulled = by_agents.precision[t] * h + by_agents.information[t] * i
        by_people.precision[t] += by_agents.precision[t] * dulled
        by_people.precision[t] -= by_dulled * rest * dulled * dulled
        by_people.information[t] += by_agents.information[t] * dulled
        by_rest -= by_dulled * h * dulled * dulled
    people_observe_backward(x, gz, data, expansion, by_people)
    if at[DELTA_ESTIMATE + 1] > at[DELTA_ESTIMATE]:
        by_rest += bias_backward(z, x, gz, data, expansion, agents, rest, by_agents)
    gz[at[SIGMA_GLOBAL]] += by_family_length
    gz[at[SIGMA_FAMILY]] += by_task_length
    if by_family:
        gz[at[SIGMA_RESIDUAL_FAMILY]] += by_family_residual + 2 * v.family_residual * by_rest
    if has_residual:
        gz[at[SIGMA_RESIDUAL_TASK]] += by_task_residual + 2 * v.task_residual * by_rest
    agents_observe_backward(x, gx, at, expansion, by_agents)
