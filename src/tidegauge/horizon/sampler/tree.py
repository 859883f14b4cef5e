"""A Gaussian tree as its conditional means plus innovations: one map, forward and backward.

Tasks lie about the level of their family, families about a root. Given the scales and what is
said of each task (a precision d and an information b, precision times location), all of it is
Gaussian, so each level is written as its conditional mean given the level above plus its
conditional sd times an innovation z: neither centred nor non-centred, but as far from either as
the data ask. A tree may lack its root (then it is zero) and its families (then tasks lie about
zero); `places` are the positions of root, first family and first task, -1 for what is lacking.
"""

from __future__ import annotations

import math

import numpy as np

from tidegauge.horizon.density.jit import jit


@jit
def tree_forward(z, x, places, scales, first_task, said, root_prior, work):  # type: ignore[no-untyped-def]
    """Write the levels of `z` into `x` and return the log determinant of the map.

    `said` has d and b per task; `work` (3, families + 1) keeps, per family, its shrinkage,
    precision and information, and the root's precision and information at the end.
    """
    root, family, task = places
    n_families = first_task.size - 1
    var_task = math.exp(2 * x[scales[1]])
    log_determinant, level = 0.0, 0.0
    var_top = math.exp(2 * x[scales[0]]) if family >= 0 else 0.0
    if family >= 0:
        precision_all = 1 / (root_prior[1] * root_prior[1])
        information_all = root_prior[0] * precision_all
        for f in range(n_families):
            q, h = 0.0, 0.0
            for t in range(int(first_task[f]), int(first_task[f + 1])):
                shrink = 1 / (1 + var_task * said[0, t])
                q += said[0, t] * shrink
                h += said[1, t] * shrink
            work[0, f], work[1, f], work[2, f] = 1 / (1 + var_top * q), q, h
            precision_all += q * work[0, f]
            information_all += h * work[0, f]
        work[0, n_families], work[1, n_families] = precision_all, information_all
        if root >= 0:
            level = information_all / precision_all + z[root] / math.sqrt(precision_all)
            x[root] = level
            log_determinant -= 0.5 * math.log(precision_all)
    for f in range(n_families):
        mean = level
        if family >= 0:
            shrink = work[0, f]
            sd = math.sqrt(var_top * shrink)
            mean = shrink * (level + var_top * work[2, f]) + sd * z[family + f]
            x[family + f] = mean
            log_determinant += math.log(sd)
        for t in range(int(first_task[f]), int(first_task[f + 1])):
            shrink = 1 / (1 + var_task * said[0, t])
            sd = math.sqrt(var_task * shrink)
            x[task + t] = shrink * (mean + var_task * said[1, t]) + sd * z[task + t]
            log_determinant += math.log(sd)
    return log_determinant


@jit
def tree_backward(z, x, gx, gz, places, scales, first_task, said, work, by_said):  # type: ignore[no-untyped-def]
    """Carry the gradient by the levels in `x`, and of the log determinant, back to `z`.

    Reverse mode by hand: writes `gz` at the levels, adds to it at the scales, and writes the
    gradient by what is said of each task into `by_said`.
    """
    root, family, task = places
    n_families = first_task.size - 1
    var_task = math.exp(2 * x[scales[1]])
    var_top = math.exp(2 * x[scales[0]]) if family >= 0 else 0.0
    level = x[root] if root >= 0 else 0.0
    by_level = gx[root] if root >= 0 else 0.0
    by_shrink = np.empty(said.shape[1])
    by_family_shrink, by_h = np.zeros(n_families), np.zeros(n_families)
    by_task_scale, by_top_scale = 0.0, 0.0
    for f in range(n_families):
        mean = x[family + f] if family >= 0 else level
        by_mean = gx[family + f] if family >= 0 else 0.0
        for t in range(int(first_task[f]), int(first_task[f + 1])):
            i, b = task + t, said[1, t]
            shrink = 1 / (1 + var_task * said[0, t])
            g = gx[i] * math.sqrt(var_task * shrink)
            gz[i] = g
            by_mean += gx[i] * shrink
            by_said[1, t] = gx[i] * shrink * var_task
            by_shrink[t] = gx[i] * (mean + var_task * b) + 0.5 * (g * z[i] + 1) / shrink
            by_task_scale += 2 * by_said[1, t] * b + g * z[i] + 1
        if family >= 0:
            shrink, h = work[0, f], work[2, f]
            g = by_mean * math.sqrt(var_top * shrink)
            gz[family + f] = g
            by_level += by_mean * shrink
            by_h[f] = by_mean * shrink * var_top
            by_family_shrink[f] = by_mean * (level + var_top * h)
            by_family_shrink[f] += 0.5 * (g * z[family + f] + 1) / shrink
            by_top_scale += 2 * by_h[f] * h + g * z[family + f] + 1
    by_information, by_precision = 0.0, 0.0
    if root >= 0:
        precision_all, information_all = work[0, n_families], work[1, n_families]
        gz[root] = by_level / math.sqrt(precision_all)
        by_information = by_level / precision_all
        by_precision = -by_information * information_all - 0.5 * gz[root] * z[root] - 0.5
        by_precision /= precision_all
    # Through the root's and the families' precisions and informations, to the tasks below.
    for f in range(n_families):
        by_q, by_hf = 0.0, 0.0
        if family >= 0:
            shrink, q, h = work[0, f], work[1, f], work[2, f]
            by_k = by_family_shrink[f] + by_information * h + by_precision * q
            by_q = by_precision * shrink - by_k * var_top * shrink * shrink
            by_hf = by_h[f] + by_information * shrink
            by_top_scale -= 2 * by_k * q * var_top * shrink * shrink
        for t in range(int(first_task[f]), int(first_task[f + 1])):
            d, b = said[0, t], said[1, t]
            shrink = 1 / (1 + var_task * d)
            by_k = by_shrink[t] + by_q * d + by_hf * b
            by_said[0, t] = by_q * shrink - by_k * var_task * shrink * shrink
            by_said[1, t] += by_hf * shrink
            by_task_scale -= 2 * by_k * d * var_task * shrink * shrink
    gz[scales[1]] += by_task_scale
    if family >= 0:
        gz[scales[0]] += by_top_scale
