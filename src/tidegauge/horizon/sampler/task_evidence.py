"""What is said of each task's length and residual: by human runs, estimates and the agents.

Each part is a Gaussian pseudo-observation that shapes the coordinates and nothing else. What the
agents say follows them: their logits at a reference, weighed as there, are regressed on the
length with the slopes of the moment, so that it moves and sharpens as slopes steepen.
"""

from __future__ import annotations

import math

import numpy as np

from tidegauge.horizon.density.jit import jit, jit_sum
from tidegauge.horizon.model.parameters import (
    ALPHA,
    DELTA_ESTIMATE,
    LOG_SLOPE,
    MU_TASK,
    RESIDUAL,
    SIGMA_ESTIMATE,
    SIGMA_HUMAN,
)


@jit
def _curves(x, at):  # type: ignore[no-untyped-def]
    """Return the agents' intercepts and slopes."""
    return x[at[ALPHA] : at[ALPHA + 1]], -np.exp(x[at[LOG_SLOPE] : at[LOG_SLOPE + 1]])


@jit_sum
def _least_squares(weight, weighted_logit, alpha, beta):  # type: ignore[no-untyped-def]
    """Return the sums of a task's normal equations: its logits on alpha + beta length + rest."""
    of_length, both, of_rest = 0.0, 0.0, 0.0
    by_length, by_rest = 0.0, 0.0
    for a in range(alpha.size):
        left = weighted_logit[a] - weight[a] * alpha[a]
        of_length += weight[a] * beta[a] * beta[a]
        both += weight[a] * beta[a]
        of_rest += weight[a]
        by_length += beta[a] * left
        by_rest += left
    return of_length, both, of_rest, by_length, by_rest


@jit
def _said_by_agents(x, at, shape, parts):  # type: ignore[no-untyped-def]
    """Write what the agents say of each task, by weighted least squares of their logits.

    Rows 2 to 8 of `parts`: precision and information of the length with the residual summed out,
    the residual's weight, its information, and how both hang on the length and on each other.
    """
    rows, told = shape[0], shape[3]
    alpha, beta = _curves(x, at)
    for t in range(rows.shape[1]):
        of_length, both, of_rest, by_length, by_rest = _least_squares(
            told[0, t], told[1, t], alpha, beta
        )
        share, level = 0.0, 0.0
        if at[RESIDUAL + 1] > at[RESIDUAL]:
            share, level = both / (of_rest + rows[2, t]), by_rest / (of_rest + rows[2, t])
        parts[2, t], parts[3, t] = of_length - share * both, by_length - share * by_rest
        parts[4, t], parts[5, t], parts[6, t] = of_rest, by_rest, both
        parts[7, t], parts[8, t] = share, level


@jit
def agents_said_backward(x, gx, at, shape, parts, by_length, by_rest):  # type: ignore[no-untyped-def]
    """Carry gradients by what the agents say of lengths and residuals back to the agents."""
    told, has_residual = shape[3], at[RESIDUAL + 1] > at[RESIDUAL]
    alpha, beta = _curves(x, at)
    by_alpha, by_beta = np.zeros(alpha.size), np.zeros(alpha.size)
    for t in range(told.shape[1]):
        by_d, by_b, share, level = by_length[0, t], by_length[1, t], parts[7, t], parts[8, t]
        by_e = by_rest[1, t] if has_residual else 0.0
        by_weight = by_b * level + by_e * x[at[MU_TASK] + t]
        for a in range(alpha.size):
            weight, over = told[0, t, a], beta[a] - share
            left = told[1, t, a] - weight * alpha[a]
            by_alpha[a] -= weight * (by_b * over + by_e)
            by_beta[a] += by_b * left + weight * (2 * by_d * over - by_weight)
    for a in range(alpha.size):
        gx[at[ALPHA] + a] += by_alpha[a]
        gx[at[LOG_SLOPE] + a] += by_beta[a] * beta[a]


@jit
def said_of_lengths(x, at, data, shape, said, parts):  # type: ignore[no-untyped-def]
    """Write what runs, estimates and agents say of each task's length; keep the first two."""
    rows, source, moments = shape[0], data[1], data[2]
    bias = x[at[DELTA_ESTIMATE]] if at[DELTA_ESTIMATE + 1] > at[DELTA_ESTIMATE] else 0.0
    estimate = math.exp(-2 * x[at[SIGMA_ESTIMATE]])
    _said_by_agents(x, at, shape, parts)
    for t in range(said.shape[1]):
        by_human = rows[0, t] * math.exp(-2 * x[at[SIGMA_HUMAN] + int(source[t])])
        by_estimate = moments[3, t] * estimate
        said[0, t] = by_human + by_estimate + parts[2, t]
        said[1, t] = by_human * rows[1, t] + by_estimate * (moments[4, t] - bias) + parts[3, t]
        parts[0, t], parts[1, t] = by_human, by_estimate


@jit
def lengths_backward(x, gz, at, data, shape, parts, by_said):  # type: ignore[no-untyped-def]
    """Carry gradients by what is said of lengths back to the scales and the estimates' bias."""
    rows, source, moments = shape[0], data[1], data[2]
    has_bias = at[DELTA_ESTIMATE + 1] > at[DELTA_ESTIMATE]
    bias = x[at[DELTA_ESTIMATE]] if has_bias else 0.0
    for t in range(by_said.shape[1]):
        by_d, by_b = by_said[0, t], by_said[1, t]
        gz[at[SIGMA_HUMAN] + int(source[t])] -= 2 * parts[0, t] * (by_d + by_b * rows[1, t])
        gz[at[SIGMA_ESTIMATE]] -= 2 * parts[1, t] * (by_d + by_b * (moments[4, t] - bias))
        if has_bias:
            gz[at[DELTA_ESTIMATE]] -= by_b * parts[1, t]
