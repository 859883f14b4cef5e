"""Coordinate of the estimates' bias: its conditional mean given agents and timed runs, plus its sd.

Where most tasks have an estimate and no timed run, moving all lengths by a constant and the bias by
its negative changes little, so the bias follows what agents and people say of the lengths. Of task
t with n_t estimates of mean e_t, agents tell an equivalent length (precision A_t, information B_t)
and timed runs a length (h_t, i_t); with the residual's variance v and k_t = 1 / (1 + A_t v):

    q_t = h_t + A_t k_t      j_t = i_t + B_t k_t      r_t = n_t / (n_t + q_t sigma_estimate^2)
    Lambda = 1 / sd_0^2 + sum_t r_t q_t
    bias = (m_0 / sd_0^2 + sum_t r_t (q_t e_t - j_t)) / Lambda + z / sqrt(Lambda)
"""

from __future__ import annotations

import math

from tidegauge.horizon.density.jit import jit
from tidegauge.horizon.model.parameters import DELTA_ESTIMATE, SIGMA_ESTIMATE, SIGMA_HUMAN


@jit
def _timed(x, data, expansion, t):  # type: ignore[no-untyped-def]
    """Return precision and information of a task's length from its timed runs."""
    scale = x[data.at[SIGMA_HUMAN] + int(data.source[t])]
    precision = expansion.human_count[t] * math.exp(-2 * scale)
    return precision, precision * expansion.human_mean[t]


@jit
def _known(x, data, expansion, agents, t, residual_variance):  # type: ignore[no-untyped-def]
    """Return k, q, j and r of a task."""
    h, i = _timed(x, data, expansion, t)
    k = 1 / (1 + agents.precision[t] * residual_variance)
    q = h + agents.precision[t] * k
    n, variance = data.estimates.number[t], math.exp(2 * x[data.at[SIGMA_ESTIMATE]])
    return k, q, i + agents.information[t] * k, n / (n + q * variance)


@jit
def _totals(x, data, expansion, agents, residual_variance):  # type: ignore[no-untyped-def]
    """Return Lambda and Lambda times the conditional mean."""
    prior = data.scalar_priors[data.at[DELTA_ESTIMATE]]
    precision = 1 / (prior[1] * prior[1])
    information = prior[0] * precision
    for t in range(data.source.size):
        if data.estimates.number[t] > 0:
            _, q, j, r = _known(x, data, expansion, agents, t, residual_variance)
            precision += r * q
            information += r * (q * data.estimates.mean[t] - j)
    return precision, information


@jit
def bias_forward(z, x, data, expansion, agents, residual_variance):  # type: ignore[no-untyped-def]
    """Write the bias of `z` into `x` and return the log determinant."""
    place = data.at[DELTA_ESTIMATE]
    precision, information = _totals(x, data, expansion, agents, residual_variance)
    x[place] = information / precision + z[place] / math.sqrt(precision)
    return -0.5 * math.log(precision)


@jit
def bias_backward(z, x, gz, data, expansion, agents, residual_variance, by_agents):  # type: ignore[no-untyped-def]
    """Carry the gradient by the bias, in `gz`, back to `z`, the scales, and what agents say.

    Adds to `by_agents`; returns the gradient by the residual's variance.
    """
    at = data.at
    place = at[DELTA_ESTIMATE]
    precision, information = _totals(x, data, expansion, agents, residual_variance)
    g, by_residual_variance = gz[place], 0.0
    gz[place] = g / math.sqrt(precision)
    by_information = g / precision
    by_precision = -by_information * information - 0.5 * gz[place] * z[place] - 0.5
    by_precision /= precision
    variance = math.exp(2 * x[at[SIGMA_ESTIMATE]])
    for t in range(data.source.size):
        n, e = data.estimates.number[t], data.estimates.mean[t]
        if n > 0:
            k, q, j, r = _known(x, data, expansion, agents, t, residual_variance)
            by_r = by_information * (q * e - j) + by_precision * q
            by_q = by_information * r * e + by_precision * r - by_r * r * r * variance / n
            by_j = -by_information * r
            gz[at[SIGMA_ESTIMATE]] -= 2 * variance * by_r * r * r * q / n
            h, i = _timed(x, data, expansion, t)
            gz[at[SIGMA_HUMAN] + int(data.source[t])] -= 2 * (h * by_q + i * by_j)
            by_k = by_q * agents.precision[t] + by_j * agents.information[t]
            by_agents.precision[t] += by_q * k - by_k * residual_variance * k * k
            by_agents.information[t] += by_j * k
            by_residual_variance -= by_k * agents.precision[t] * k * k
    return by_residual_variance
