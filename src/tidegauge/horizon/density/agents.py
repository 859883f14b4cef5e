"""Agents in the fused log density: their runs, their priors, and the trend they share."""

from __future__ import annotations

import math

import numpy as np

from tidegauge.horizon.density.buffer import NOT_IN_TREND
from tidegauge.horizon.density.cells import cell_terms, log_rising
from tidegauge.horizon.density.jit import jit, jit_sum
from tidegauge.horizon.density.logistic import logistic_terms
from tidegauge.horizon.model.parameters import (
    ALPHA,
    GROUP_HORIZON,
    GROUP_SLOPE,
    LOG_DISCRIMINATION,
    LOG_SLOPE,
    LOGIT_LAPSE,
    MU_FAMILY,
    MU_SLOPE,
    PHI,
    RESIDUAL,
    SIGMA_HORIZON,
    SIGMA_SLOPE,
    TREND_LEVEL,
)
from tidegauge.horizon.model.trend_shapes import CONSTANT, HINGE_YEARS, KINK, LINEAR, QUADRATIC


@jit
def _logistic(u):  # type: ignore[no-untyped-def]
    return 1 / (1 + math.exp(-u)) if u > 0 else 1 - 1 / (1 + math.exp(u))


@jit
def trend_terms(kind, terms, year, first, last, slopes):  # type: ignore[no-untyped-def]
    """Return `model.trend_shapes.trend_at` at a year; write its slopes by level and terms."""
    slopes[0] = 1.0
    if kind == CONSTANT or year == NOT_IN_TREND:
        slopes[1:] = 0
        return terms[0]
    slopes[1] = year
    value = terms[0] + terms[1] * year
    if kind == LINEAR:
        return value
    if kind == QUADRATIC:
        slopes[2] = 0.5 * year * year
        return value + terms[2] * slopes[2]
    if kind == KINK:
        share = _logistic(terms[3])
        u = (year - first - (last - first) * share) / HINGE_YEARS
        slopes[2] = HINGE_YEARS * (max(u, 0.0) + math.log1p(math.exp(-abs(u))))
        slopes[3] = -terms[2] * _logistic(u) * (last - first) * share * (1 - share)
        return value + terms[2] * slopes[2]
    height, middle, rate = math.exp(terms[2]), terms[3], terms[1]
    here, origin = 4 * rate * (year - middle) / height, -4 * rate * middle / height
    risen, risen_origin = _logistic(here), _logistic(origin)
    by_here, by_origin = risen * (1 - risen), risen_origin * (1 - risen_origin)
    slopes[1] = 4 * (year - middle) * by_here + 4 * middle * by_origin
    slopes[2] = height * (risen - risen_origin - here * by_here + origin * by_origin)
    slopes[3] = 4 * rate * (by_origin - by_here)
    return terms[0] + height * (risen - risen_origin)


@jit
def agent_priors(x, gradient, data):  # type: ignore[no-untyped-def]
    """Add the priors of every agent's curve: its own, or the one it shares with others."""
    at, settings = data.at, data.settings
    group, years, joint = data.agents.group, data.agents.years, data.agents.joint
    terms = x[at[TREND_LEVEL] : at[MU_FAMILY]]
    by_terms = gradient[at[TREND_LEVEL] : at[MU_FAMILY]]
    slopes = np.zeros(4)
    has_groups = at[GROUP_HORIZON + 1] > at[GROUP_HORIZON]
    logp = 0.0
    for a in range(group.size):
        alpha, log_slope = x[at[ALPHA] + a], x[at[LOG_SLOPE] + a]
        g = int(group[a])
        if joint[a] == 1:
            log2_horizon = alpha * math.exp(-log_slope)
            mean = trend_terms(
                settings.trend, terms, years[a], settings.first_year, settings.last_year, slopes
            )
            if has_groups:
                mean += x[at[GROUP_HORIZON] + g]
            log_sigma = x[at[SIGMA_HORIZON]]
            scaled = (log2_horizon - mean) * math.exp(-log_sigma)
            slope = -scaled * math.exp(-log_sigma)
            logp -= 0.5 * scaled * scaled + log_sigma + log_slope
            gradient[at[SIGMA_HORIZON]] += scaled * scaled - 1
            gradient[at[ALPHA] + a] += slope * math.exp(-log_slope)
            gradient[at[LOG_SLOPE] + a] -= slope * log2_horizon + 1
            for i in range(terms.size):
                by_terms[i] -= slope * slopes[i]
            if has_groups:
                gradient[at[GROUP_HORIZON] + g] -= slope
        else:
            by_length = -math.exp(log_slope) * settings.prior_length
            scaled = (alpha + by_length - settings.alpha_mean) / settings.alpha_sd
            logp -= 0.5 * scaled * scaled
            gradient[at[ALPHA] + a] -= scaled / settings.alpha_sd
            gradient[at[LOG_SLOPE] + a] -= scaled / settings.alpha_sd * by_length
        logp += _slope_prior(x, gradient, settings, at, a, g, has_groups)
    return logp


@jit
def _slope_prior(x, gradient, settings, at, a, g, has_groups):  # type: ignore[no-untyped-def]
    log_slope = x[at[LOG_SLOPE] + a]
    if settings.pooled == 0:
        beta = -math.exp(log_slope)
        scaled = (beta - settings.beta_mean) / settings.beta_sd
        gradient[at[LOG_SLOPE] + a] += 1 - beta * scaled / settings.beta_sd
        return log_slope - 0.5 * scaled * scaled  # with the Jacobian of the logarithm
    mean = x[at[MU_SLOPE]] + (x[at[GROUP_SLOPE] + g] if has_groups else 0.0)
    log_sigma = x[at[SIGMA_SLOPE]]
    scaled = (log_slope - mean) * math.exp(-log_sigma)
    slope = -scaled * math.exp(-log_sigma)
    gradient[at[LOG_SLOPE] + a] += slope
    gradient[at[MU_SLOPE]] -= slope
    gradient[at[SIGMA_SLOPE]] += scaled * scaled - 1
    if has_groups:
        gradient[at[GROUP_SLOPE] + g] -= slope
    return -0.5 * scaled * scaled - log_sigma


@jit_sum
def _total(values):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(values.size):
        total += values[i]
    return total


@jit_sum
def _dot(left, right):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(left.size):
        total += left[i] * right[i]
    return total


@jit
def agent_runs(x, gradient, data, mu_task, by_task):  # type: ignore[no-untyped-def]
    """Add the cells: the only part of size agents x tasks."""
    at, n_tasks = data.at, mu_task.size
    eta, won, by_eta = np.empty(n_tasks), np.empty(n_tasks), np.empty(n_tasks)
    softplus, scratch = np.empty(n_tasks), np.empty(n_tasks)
    has_residual = at[RESIDUAL + 1] > at[RESIDUAL]
    has_sharpness = at[LOG_DISCRIMINATION + 1] > at[LOG_DISCRIMINATION]
    has_lapses = at[LOGIT_LAPSE + 1] > at[LOGIT_LAPSE]
    phi = math.exp(x[at[PHI]]) if at[PHI + 1] > at[PHI] else math.inf
    sharpness = np.ones(n_tasks)
    if has_sharpness:
        sharpness[:] = np.exp(x[at[LOG_DISCRIMINATION] : at[LOG_DISCRIMINATION] + n_tasks])
    length, by_length = mu_task.copy(), np.zeros(n_tasks)
    if has_residual:
        length += x[at[RESIDUAL] : at[RESIDUAL] + n_tasks]
    by_sharpness = np.zeros(n_tasks)
    logp, by_phi = 0.0, 0.0
    for a in range(data.attempts.shape[0]):
        alpha, beta = x[at[ALPHA] + a], -math.exp(x[at[LOG_SLOPE] + a])
        attempts, successes = data.attempts[a], data.successes[a]
        for t in range(n_tasks):
            eta[t] = sharpness[t] * (alpha + beta * length[t])
        logistic_terms(eta, won, softplus, scratch)
        if phi == math.inf and not has_lapses:
            logp += _dot(successes, eta) - _dot(attempts, softplus)
            for t in range(n_tasks):
                by_eta[t] = successes[t] - attempts[t] * won[t]
        else:
            lapse = _logistic(x[at[LOGIT_LAPSE] + a]) if has_lapses else 0.0
            value, by_lapse, by_this_phi = cell_terms(
                successes, attempts, eta, won, softplus, lapse, phi, by_eta
            )
            logp += value
            by_phi += by_this_phi
            if has_lapses:
                gradient[at[LOGIT_LAPSE] + a] += by_lapse * lapse * (1 - lapse)
        for t in range(n_tasks):
            by_sharpness[t] += by_eta[t] * eta[t]
            by_eta[t] *= sharpness[t]
            by_length[t] += beta * by_eta[t]
        gradient[at[ALPHA] + a] += _total(by_eta)
        gradient[at[LOG_SLOPE] + a] += beta * _dot(by_eta, length)
    if phi < math.inf:
        for i in range(data.cells.attempts.size):
            value, slope = log_rising(phi, data.cells.attempts[i])
            logp -= data.cells.number[i] * value
            by_phi -= data.cells.number[i] * slope
        gradient[at[PHI]] += by_phi * phi
    by_task += by_length
    if has_residual:
        gradient[at[RESIDUAL] : at[RESIDUAL] + n_tasks] += by_length
    if has_sharpness:
        gradient[at[LOG_DISCRIMINATION] : at[LOG_DISCRIMINATION] + n_tasks] += by_sharpness
    return logp
