"""A Gaussian tree as its conditional means plus innovations: one map, forward and backward.

Tasks lie about the level of their family, families about a root. Given the scales and a
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
    """Positions in the vector of root, first family and first task; -1 for what is lacking."""

    root: int
    family: int
    task: int
    family_scale: int  # logarithm of the sd of families about the root
    task_scale: int  # and of tasks about their family


class PseudoObservations(NamedTuple):
    """A Gaussian pseudo-observation of each task: precision, and precision times location."""

    precision: FloatArray
    information: FloatArray


class TreeWork(NamedTuple):
    """Per family its shrinkage, precision and information; of the root in the last entry."""

    shrinkage: FloatArray
    precision: FloatArray
    information: FloatArray


class Tree(NamedTuple):
    """A tree: where it lies, what is observed of its tasks, and what forward keeps for backward."""

    places: Places
    observed: PseudoObservations
    work: TreeWork


@jit
def tree_forward(z, x, tree, first_task, root_prior):  # type: ignore[no-untyped-def]
    """Write the levels of `z` into `x` and return the log determinant of the map."""
    places, observed, work = tree.places, tree.observed, tree.work
    root, family, task = places.root, places.family, places.task
    n_families = first_task.size - 1
    var_task = math.exp(2 * x[places.task_scale])
    log_determinant, level = 0.0, 0.0
    var_top = math.exp(2 * x[places.family_scale]) if family >= 0 else 0.0
    if family >= 0:
        precision_all = 1 / (root_prior[1] * root_prior[1])
        information_all = root_prior[0] * precision_all
        for f in range(n_families):
            q, h = 0.0, 0.0
            for t in range(int(first_task[f]), int(first_task[f + 1])):
                shrink = 1 / (1 + var_task * observed.precision[t])
                q += observed.precision[t] * shrink
                h += observed.information[t] * shrink
            work.shrinkage[f] = 1 / (1 + var_top * q)
            work.precision[f], work.information[f] = q, h
            precision_all += q * work.shrinkage[f]
            information_all += h * work.shrinkage[f]
        work.precision[n_families], work.information[n_families] = precision_all, information_all
        if root >= 0:
            level = information_all / precision_all + z[root] / math.sqrt(precision_all)
            x[root] = level
            log_determinant -= 0.5 * math.log(precision_all)
    for f in range(n_families):
        mean = level
        if family >= 0:
            shrink = work.shrinkage[f]
            sd = math.sqrt(var_top * shrink)
            mean = shrink * (level + var_top * work.information[f]) + sd * z[family + f]
            x[family + f] = mean
            log_determinant += math.log(sd)
        for t in range(int(first_task[f]), int(first_task[f + 1])):
            shrink = 1 / (1 + var_task * observed.precision[t])
            sd = math.sqrt(var_task * shrink)
            x[task + t] = shrink * (mean + var_task * observed.information[t]) + sd * z[task + t]
            log_determinant += math.log(sd)
    return log_determinant


@jit
def tree_backward(z, x, gx, gz, tree, first_task, by_observed):  # type: ignore[no-untyped-def]
    """Carry the gradient by the levels in `x`, and of the log determinant, back to `z`.

    Reverse mode by hand: writes `gz` at the levels, adds to it at the scales, and writes the
    gradient by the pseudo-observations into `by_observed`.
    """
    places, observed, work = tree.places, tree.observed, tree.work
    root, family, task = places.root, places.family, places.task
    n_families = first_task.size - 1
    var_task = math.exp(2 * x[places.task_scale])
    var_top = math.exp(2 * x[places.family_scale]) if family >= 0 else 0.0
    level = x[root] if root >= 0 else 0.0
    by_level = gx[root] if root >= 0 else 0.0
    by_shrink = np.empty(observed.precision.size)
    by_family_shrink, by_h = np.zeros(n_families), np.zeros(n_families)
    by_task_scale, by_top_scale = 0.0, 0.0
    for f in range(n_families):
        mean = x[family + f] if family >= 0 else level
        by_mean = gx[family + f] if family >= 0 else 0.0
        for t in range(int(first_task[f]), int(first_task[f + 1])):
            i, b = task + t, observed.information[t]
            shrink = 1 / (1 + var_task * observed.precision[t])
            g = gx[i] * math.sqrt(var_task * shrink)
            gz[i] = g
            by_mean += gx[i] * shrink
            by_observed.information[t] = gx[i] * shrink * var_task
            by_shrink[t] = gx[i] * (mean + var_task * b) + 0.5 * (g * z[i] + 1) / shrink
            by_task_scale += 2 * by_observed.information[t] * b + g * z[i] + 1
        if family >= 0:
            shrink, h = work.shrinkage[f], work.information[f]
            g = by_mean * math.sqrt(var_top * shrink)
            gz[family + f] = g
            by_level += by_mean * shrink
            by_h[f] = by_mean * shrink * var_top
            by_family_shrink[f] = by_mean * (level + var_top * h)
            by_family_shrink[f] += 0.5 * (g * z[family + f] + 1) / shrink
            by_top_scale += 2 * by_h[f] * h + g * z[family + f] + 1
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
            by_q = by_precision * shrink - by_k * var_top * shrink * shrink
            by_hf = by_h[f] + by_information * shrink
            by_top_scale -= 2 * by_k * q * var_top * shrink * shrink
        for t in range(int(first_task[f]), int(first_task[f + 1])):
            d, b = observed.precision[t], observed.information[t]
            shrink = 1 / (1 + var_task * d)
            by_k = by_shrink[t] + by_q * d + by_hf * b
            by_observed.precision[t] = by_q * shrink - by_k * var_task * shrink * shrink
            by_observed.information[t] += by_hf * shrink
            by_task_scale -= 2 * by_k * d * var_task * shrink * shrink
    gz[places.task_scale] += by_task_scale
    if family >= 0:
        gz[places.family_scale] += by_top_scale
