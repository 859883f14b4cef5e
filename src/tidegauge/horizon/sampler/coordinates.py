"""Coordinates in which the posterior is nearly a standard normal; an exact change of variables.

Agents come first, slopes before levels (`agents`), with what they share (`links`); then the tasks'
equivalent lengths given the agents, and lengths given those (`lengths`); log discriminations are a
tree of their own, lapses lie about their mean. What is constant in all this comes from
`expansion`; docs/coordinates.md has the equations.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tidegauge.horizon.density.buffer import read_data, read_expansion
from tidegauge.horizon.density.jit import jit
from tidegauge.horizon.density.joint import log_density
from tidegauge.horizon.model.parameters import (
    LOG_DISCRIMINATION,
    LOGIT_LAPSE,
    MU_LAPSE,
    MU_SLOPE,
    SIGMA_DISCRIMINATION,
    SIGMA_LAPSE,
)
from tidegauge.horizon.sampler.agents import (
    AgentWork,
    agents_backward,
    agents_forward,
    new_agent_work,
)
from tidegauge.horizon.sampler.lengths import (
    TaskWork,
    lengths_backward,
    lengths_forward,
    new_task_work,
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


class Work(NamedTuple):
    """What the way forward keeps for the way back."""

    agents: AgentWork
    tasks: TaskWork
    sharpness: Tree


@jit
def _new_work(data, expansion):  # type: ignore[no-untyped-def]
    n_families, n_tasks = data.first_task.size - 1, data.source.size
    places = Places(-1, -1, data.at[LOG_DISCRIMINATION])
    sharpness = new_tree(places, n_families, n_tasks)
    return Work(new_agent_work(expansion), new_task_work(data), sharpness)


@jit
def _forward(z, x, data, expansion, work):  # type: ignore[no-untyped-def]
    """Write the centred point of `z` and return the log determinant of the map."""
    at, first_task = data.at, data.first_task
    x[1 : at[MU_SLOPE]] = z[1 : at[MU_SLOPE]]
    log_determinant = agents_forward(z, x, data, expansion, work.agents)
    log_determinant += lengths_forward(z, x, data, expansion, work.tasks)
    if at[LOG_DISCRIMINATION + 1] > at[LOG_DISCRIMINATION]:
        tree, precision = work.sharpness, expansion.sharpness_precision
        tree.observed.precision[:] = precision
        tree.observed.information[:] = precision * expansion.sharpness_location
        variance = math.exp(2 * x[at[SIGMA_DISCRIMINATION]])
        log_determinant += tree_forward(z, tree, first_task, (0.0, 1.0), 0.0, variance)
        x[at[LOG_DISCRIMINATION] : at[LOG_DISCRIMINATION + 1]] = tree.levels.task
    sigma = x[at[SIGMA_LAPSE]]
    for i in range(at[LOGIT_LAPSE], at[LOGIT_LAPSE + 1]):
        x[i] = x[at[MU_LAPSE]] + math.exp(sigma) * z[i]
        log_determinant += sigma
    return log_determinant


@jit
def _backward(z, x, gx, gz, data, expansion, work):  # type: ignore[no-untyped-def]
    """Carry the gradient by `x`, and of the log determinant, back to `z`: last step first."""
    at, first_task, n_tasks = data.at, data.first_task, data.source.size
    gz[:] = gx
    for i in range(at[LOGIT_LAPSE], at[LOGIT_LAPSE + 1]):
        spread = math.exp(x[at[SIGMA_LAPSE]])
        gz[i] = gx[i] * spread
        gz[at[MU_LAPSE]] += gx[i]
        gz[at[SIGMA_LAPSE]] += gz[i] * z[i] + 1
    if at[LOG_DISCRIMINATION + 1] > at[LOG_DISCRIMINATION]:
        variance, parts = math.exp(2 * x[at[SIGMA_DISCRIMINATION]]), np.empty((2, n_tasks))
        by = Levels(
            np.zeros(first_task.size), gx[at[LOG_DISCRIMINATION] : at[LOG_DISCRIMINATION + 1]]
        )
        constant = PseudoObservations(parts[0], parts[1])  # their gradient goes nowhere
        _, by_scale = tree_backward(z, gz, work.sharpness, first_task, 0.0, variance, by, constant)
        gz[at[SIGMA_DISCRIMINATION]] += by_scale
    lengths_backward(z, x, gx, gz, data, expansion, work.tasks)
    agents_backward(z, x, gx, gz, data, expansion, work.agents)


@jit
def whitened_log_density(z, gz, buffer):  # type: ignore[no-untyped-def]
    """Return the log density at whitened `z` and write its gradient."""
    data, expansion = read_data(buffer), read_expansion(buffer)
    work = _new_work(data, expansion)
    x, gx = np.empty(z.size), np.empty(z.size)
    log_determinant = _forward(z, x, data, expansion, work)
    logp = log_density(x, gx, buffer)
    _backward(z, x, gx, gz, data, expansion, work)
    return logp + log_determinant


@jit
def map_all(z, x, buffer):  # type: ignore[no-untyped-def]
    """Write the centred point of every row of `z` into `x`."""
    data, expansion = read_data(buffer), read_expansion(buffer)
    work = _new_work(data, expansion)
    for i in range(z.shape[0]):
        _forward(z[i], x[i], data, expansion, work)
