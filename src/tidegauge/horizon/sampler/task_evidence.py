"""Pseudo-observations of each task's length and residual, from human runs, estimates and agents.

They shape the coordinates and nothing else. The agents' part moves with them: their logits at the
expansion point, with the weights they have there, are regressed on the length with the current
slopes (weighted least squares), so that it shifts and sharpens as slopes steepen.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tidegauge.arrays import FloatArray
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


class TaskTerms(NamedTuple):
    """Parts of the pseudo-observations, by task, kept for the way back.

    `human` and `estimate` are precisions of the length. From the agents come the length's
    precision and information with the residual integrated out, the residual's own precision and
    information given a length of zero, their `cross` term, and the residual's `share` of the
    length and its `level`: its conditional mean is ``level - share * length``.
    """

    human: FloatArray
    estimate: FloatArray
    length_precision: FloatArray
    length_information: FloatArray
    residual_precision: FloatArray
    residual_information: FloatArray
    cross: FloatArray
    share: FloatArray
    level: FloatArray


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
def _regress_logits(x, at, expansion, terms):  # type: ignore[no-untyped-def]
    """Write the agents' part of `terms`, by weighted least squares of their logits."""
    weights, weighted = expansion.logit_weight, expansion.weighted_logit
    alpha, beta = _curves(x, at)
    for t in range(weights.shape[0]):
        of_length, both, of_rest, by_length, by_rest = _least_squares(
            weights[t], weighted[t], alpha, beta
        )
        share, level = 0.0, 0.0
        if at[RESIDUAL + 1] > at[RESIDUAL]:
            share = both / (of_rest + expansion.residual_precision[t])
            level = by_rest / (of_rest + expansion.residual_precision[t])
        terms.length_precision[t] = of_length - share * both
        terms.length_information[t] = by_length - share * by_rest
        terms.residual_precision[t], terms.residual_information[t] = of_rest, by_rest
        terms.cross[t] = both
        terms.share[t], terms.level[t] = share, level


@jit
def regress_logits_backward(x, gx, at, expansion, terms, by_length, by_rest):  # type: ignore[no-untyped-def]
    """Carry gradients by the agents' pseudo-observations back to the agents."""
    weights, weighted = expansion.logit_weight, expansion.weighted_logit
    has_residual = at[RESIDUAL + 1] > at[RESIDUAL]
    alpha, beta = _curves(x, at)
    by_alpha, by_beta = np.zeros(alpha.size), np.zeros(alpha.size)
    for t in range(weights.shape[0]):
        by_d, by_b = by_length.precision[t], by_length.information[t]
        share, level = terms.share[t], terms.level[t]
        by_e = by_rest.information[t] if has_residual else 0.0
        by_weight = by_b * level + by_e * x[at[MU_TASK] + t]
        for a in range(alpha.size):
            weight, over = weights[t, a], beta[a] - share
            left = weighted[t, a] - weight * alpha[a]
            by_alpha[a] -= weight * (by_b * over + by_e)
            by_beta[a] += by_b * left + weight * (2 * by_d * over - by_weight)
    for a in range(alpha.size):
        gx[at[ALPHA] + a] += by_alpha[a]
        gx[at[LOG_SLOPE] + a] += by_beta[a] * beta[a]


@jit
def observe_lengths(x, data, expansion, observed, terms):  # type: ignore[no-untyped-def]
    """Write the pseudo-observation of each task's length: runs, estimates and agents together."""
    at, estimates = data.at, data.estimates
    bias = x[at[DELTA_ESTIMATE]] if at[DELTA_ESTIMATE + 1] > at[DELTA_ESTIMATE] else 0.0
    estimate = math.exp(-2 * x[at[SIGMA_ESTIMATE]])
    _regress_logits(x, at, expansion, terms)
    for t in range(observed.precision.size):
        log_scale = x[at[SIGMA_HUMAN] + int(data.source[t])]
        by_human = expansion.human_count[t] * math.exp(-2 * log_scale)
        by_estimate = estimates.number[t] * estimate
        observed.precision[t] = by_human + by_estimate + terms.length_precision[t]
        observed.information[t] = (
            by_human * expansion.human_mean[t]
            + by_estimate * (estimates.mean[t] - bias)
            + terms.length_information[t]
        )
        terms.human[t], terms.estimate[t] = by_human, by_estimate


@jit
def observe_lengths_backward(x, gz, data, expansion, terms, by_observed):  # type: ignore[no-untyped-def]
    """Carry gradients by the pseudo-observations back to the scales and the estimates' bias."""
    at, estimates = data.at, data.estimates
    has_bias = at[DELTA_ESTIMATE + 1] > at[DELTA_ESTIMATE]
    bias = x[at[DELTA_ESTIMATE]] if has_bias else 0.0
    for t in range(by_observed.precision.size):
        by_d, by_b = by_observed.precision[t], by_observed.information[t]
        scale = at[SIGMA_HUMAN] + int(data.source[t])
        gz[scale] -= 2 * terms.human[t] * (by_d + by_b * expansion.human_mean[t])
        gz[at[SIGMA_ESTIMATE]] -= 2 * terms.estimate[t] * (by_d + by_b * (estimates.mean[t] - bias))
        if has_bias:
            gz[at[DELTA_ESTIMATE]] -= by_b * terms.estimate[t]
