"""A Gaussian tree as its conditional means plus innovations: one map, forward and backward.

Tasks lie about the level of their family, families about a root. Given the variances and a
pseudo-observation of each task (a precision d and an information b, precision times location), all
of it is Gaussian, so each level is its conditional mean given the level above plus its conditional
sd times an innovation z: partial centring, as far from centred and non-centred as the data ask.
docs/coordinates.md has the equations. A tree may lack its root (then it is zero) and its families
(then tasks lie about zero).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.horizon.density.jit import jit


class Places(NamedTuple):
    """Positions in `z` of root, first family and first task; -1 for what is lacking."""

    root: int
    family: int
    task: int


class PseudoObservations(NamedTuple):
    """A Gaussian pseudo-observation of each task: precision, and precision times location."""

    precision: FloatArray
    information: FloatArray


class Levels(NamedTuple):
    """Values of the families (the root's in the last entry) and of the tasks, or gradients."""

    family: FloatArray
    task: FloatArray


class TreeWork(NamedTuple):
    """Per family its shrinkage, precision and information; of the root in the last entry."""

    shrinkage: FloatArray
    precision: FloatArray
    information: FloatArray


class Tree(NamedTuple):
    """A tree: where it lies, what is observed of its tasks, and what forward keeps for backward."""

    places: Places
    observed: PseudoObservations
    levels: Levels
    work: TreeWork


@jit
def new_tree(places, n_families, n_tasks):  # type: ignore[no-untyped-def]
    """Make room for a tree."""
    by_task, by_family = np.zeros((3, n_tasks)), np.zeros((4, n_families + 1))
    return Tree(
        places,
        PseudoObservations(by_task[0], by_task[1]),
        Levels(by_family[0], by_task[2]),
        TreeWork(by_family[1], by_family[2], by_family[3]),
    )


@jit
def tree_forward(z, tree, first_task, root_prior, var_family, var_task):  # type: ignore[no-untyped-def]
    """Write the levels of `z` and return the log determinant of the map.

    `var_family` is the variance of families about the root, `var_task` of tasks about their family.
    """
    places, observed, levels, work = tree.places, tree.observed, tree.levels, tree.work
    root, family, task = places.root, places.family, places.task
    n_families = first_task.size - 1
    log_determinant, level = 0.0, 0.0
    if family >= 0:
        precision_all = 1 / (root_prior[1] * root_prior[1])
        information_all = root_prior[0] * precision_all
        for f in range(n_families):
            q, h = 0.0, 0.0
            for t in range(int(first_task[f]), int(first_task[f + 1])):
                shrink = 1 / (1 + var_task * observed.precision[t])
                q += observed.precision[t] * shrink
                h += observed.information[t] * shrink
            work.shrinkage[f] = 1 / (1 + var_family * q)
            work.precision[f], work.information[f] = q, h
            precision_all += q * work.shrinkage[f]
            information_all += h * work.shrinkage[f]
        work.precision[n_families], work.information[n_families] = precision_all, information_all
        if root >= 0:
            level = information_all / precision_all + z[root] / math.sqrt(precision_all)
            log_determinant -= 0.5 * math.log(precision_all)
    levels.family[n_families] = level
    for f in range(n_families):
        mean = level
        if family >= 0:
            shrink = work.shrinkage[f]
            sd = math.sqrt(var_family * shrink)
            mean = shrink * (level + var_family * work.information[f]) + sd * z[family + f]
            log_determinant += math.log(sd)
        levels.family[f] = mean
        for t in range(int(first_task[f]), int(first_task[f + 1])):
            shrink = 1 / (1 + var_task * observed.precision[t])
            sd = math.sqrt(var_task * shrink)
            shrunk = shrink * (mean + var_task * observed.information[t])
            levels.task[t] = shrunk + sd * z[task + t]
            log_determinant += math.log(sd)
    return log_determinant


@jit
def tree_backward(z, gz, tree, first_task, var_family, var_task, by, by_observed):  # type: ignore[no-untyped-def]
    """Carry the gradient `by` the levels, and of the log determinant, back to `z`.

    Reverse mode by hand: writes `gz` at the levels and the gradient by the pseudo-observations into
    `by_observed`; returns the gradient by the log standard deviations of families and tasks.
    """
    places, observed, levels, work = tree.places, tree.observed, tree.levels, tree.work
    root, family, task = places.root, places.family, places.task
    n_families = first_task.size - 1
    level, by_level = levels.family[n_families], by.family[n_families]
    by_shrink = np.empty(observed.precision.size)
    by_family_shrink, by_h = np.zeros(n_families), np.zeros(n_families)
    by_task_scale, by_family_scale = 0.0, 0.0
    for f in range(n_families):
        mean = levels.family[f]
        by_mean = by.family[f]
        for t in range(int(first_task[f]), int(first_task[f + 1])):
            i, b, g_task = task + t, observed.information[t], by.task[t]
            shrink = 1 / (1 + var_task * observed.precision[t])
            g = g_task * math.sqrt(var_task * shrink)
            gz[i] = g
            by_mean += g_task * shrink
            by_observed.information[t] = g_task * shrink * var_task
            by_shrink[t] = g_task * (mean + var_task * b) + 0.5 * (g * z[i] + 1) / shrink
            by_task_scale += 2 * by_observed.information[t] * b + g * z[i] + 1
        if family >= 0:
            shrink, h = work.shrinkage[f], work.information[f]
            g = by_mean * math.sqrt(var_family * shrink)
            gz[family + f] = g
            by_level += by_mean * shrink
            by_h[f] = by_mean * shrink * var_family
            by_family_shrink[f] = by_mean * (level + var_family * h)
            by_family_shrink[f] += 0.5 * (g * z[family + f] + 1) / shrink
            by_family_scale += 2 * by_h[f] * h + g * z[family + f] + 1
    by_information, by_precision = 0.0, 0.0
    if root >= 0:
        precision_all, information_all = work.precision[n_families], work.information[n_families]
        gz[root] = by_level / math.sqrt(precision_all)
        by_information = by_level / precision_all
        by_precision = -by_information * information_all - 0.5 * gz[root] * z[root] - 0.5
        by_precision /= precision_all
    # Through the root's and the families' precisions and informations, to the tasks below.
    for f in range(n_families):
        by_q, by_hf = 0.0, 0.0
        if family >= 0:
            shrink, q, h = work.shrinkage[f], work.precision[f], work.information[f]
            by_k = by_family_shrink[f] + by_information * h + by_precision * q
            by_q = by_precision * shrink - by_k * var_family * shrink * shrink
            by_hf = by_h[f] + by_information * shrink
            by_family_scale -= 2 * by_k * q * var_family * shrink * shrink
        for t in range(int(first_task[f]), int(first_task[f + 1])):
            d, b = observed.precision[t], observed.information[t]
            shrink = 1 / (1 + var_task * d)
            by_k = by_shrink[t] + by_q * d + by_hf * b
            by_observed.precision[t] = by_q * shrink - by_k * var_task * shrink * shrink
            by_observed.information[t] += by_hf * shrink
            by_task_scale -= 2 * by_k * d * var_task * shrink * shrink
    return by_family_scale, by_task_scale
