"""Pseudo-observations of each task: of its length by people, of its equivalent length by agents.

They shape the coordinates and nothing else. The agents' part moves with them: their logits at the
expansion point, with the weights they have there, are regressed on the equivalent length with the
current slopes (weighted least squares), so that it shifts and sharpens as slopes steepen.
"""

from __future__ import annotations

import math

import numpy as np

from tidegauge.horizon.density.jit import jit, jit_sum
from tidegauge.horizon.model.parameters import (
    ALPHA,
    DELTA_ESTIMATE,
    LOG_SLOPE,
    SIGMA_ESTIMATE,
    SIGMA_HUMAN,
)


@jit
def _curves(x, at):  # type: ignore[no-untyped-def]
    """Return the agents' intercepts and slopes."""
    return x[at[ALPHA] : at[ALPHA + 1]], -np.exp(x[at[LOG_SLOPE] : at[LOG_SLOPE + 1]])


@jit_sum
def _least_squares(weight, weighted_logit, alpha, beta):  # type: ignore[no-untyped-def]
    """Return precision and information of a length from logits alpha + beta length."""
    precision, information = 0.0, 0.0
    for a in range(alpha.size):
        precision += weight[a] * beta[a] * beta[a]
        information += beta[a] * (weighted_logit[a] - weight[a] * alpha[a])
    return precision, information


@jit
def agents_observe(x, at, expansion, seen):  # type: ignore[no-untyped-def]
    """Write what the agents' runs say of each equivalent length."""
    weights, weighted = expansion.logit_weight, expansion.weighted_logit
    alpha, beta = _curves(x, at)
    for t in range(weights.shape[0]):
        seen.precision[t], seen.information[t] = _least_squares(
            weights[t], weighted[t], alpha, beta
        )


@jit
def agents_observe_backward(x, gx, at, expansion, by_seen):  # type: ignore[no-untyped-def]
    """Carry gradients by the agents' pseudo-observations back to the agents."""
    weights, weighted = expansion.logit_weight, expansion.weighted_logit
    alpha, beta = _curves(x, at)
    by_alpha, by_beta = np.zeros(alpha.size), np.zeros(alpha.size)
    for t in range(weights.shape[0]):
        by_d, by_b = by_seen.precision[t], by_seen.information[t]
        for a in range(alpha.size):
            weight = weights[t, a]
            by_alpha[a] -= by_b * weight * beta[a]
            by_beta[a] += 2 * by_d * weight * beta[a]
            by_beta[a] += by_b * (weighted[t, a] - weight * alpha[a])
    for a in range(alpha.size):
        gx[at[ALPHA] + a] += by_alpha[a]
        gx[at[LOG_SLOPE] + a] += by_beta[a] * beta[a]


@jit
def people_observe(x, data, expansion, seen):  # type: ignore[no-untyped-def]
    """Write what human runs and estimates say of each length."""
    at, estimates = data.at, data.estimates
    bias = x[at[DELTA_ESTIMATE]] if at[DELTA_ESTIMATE + 1] > at[DELTA_ESTIMATE] else 0.0
    estimate = math.exp(-2 * x[at[SIGMA_ESTIMATE]])
    for t in range(seen.precision.size):
        log_scale = x[at[SIGMA_HUMAN] + int(data.source[t])]
        by_human = expansion.human_count[t] * math.exp(-2 * log_scale)
        by_estimate = estimates.number[t] * estimate
        seen.precision[t] = by_human + by_estimate
        seen.information[t] = by_human * expansion.human_mean[t]
        seen.information[t] += by_estimate * (estimates.mean[t] - bias)


@jit
def people_observe_backward(x, gz, data, expansion, by_seen):  # type: ignore[no-untyped-def]
    """Carry gradients by these back to the scales and the estimates' bias."""
    at, estimates = data.at, data.estimates
    has_bias = at[DELTA_ESTIMATE + 1] > at[DELTA_ESTIMATE]
    bias = x[at[DELTA_ESTIMATE]] if has_bias else 0.0
    estimate = math.exp(-2 * x[at[SIGMA_ESTIMATE]])
    for t in range(by_seen.precision.size):
        by_d, by_b = by_seen.precision[t], by_seen.information[t]
        scale = at[SIGMA_HUMAN] + int(data.source[t])
        by_human = expansion.human_count[t] * math.exp(-2 * x[scale])
        by_estimate = estimates.number[t] * estimate
        gz[scale] -= 2 * by_human * (by_d + by_b * expansion.human_mean[t])
        gz[at[SIGMA_ESTIMATE]] -= 2 * by_estimate * (by_d + by_b * (estimates.mean[t] - bias))
        if has_bias:
            gz[at[DELTA_ESTIMATE]] -= by_b * by_estimate
