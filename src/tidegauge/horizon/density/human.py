"""Human times in the fused log density: runs, estimates and censored failures."""

from __future__ import annotations

import math

from tidegauge.horizon.density.buffer import NOISE
from tidegauge.horizon.density.human_noise import interval_terms, noise_constant, survival_terms
from tidegauge.horizon.density.jit import jit
from tidegauge.horizon.model.options import USUAL_LOG2_MINUTES
from tidegauge.horizon.model.parameters import (
    DELTA_ESTIMATE,
    NOISE_GROWTH,
    NU_MINUS_ONE,
    SIGMA_ESTIMATE,
    SIGMA_HUMAN,
)

_LN2 = math.log(2)


@jit
def _growth(x, at):  # type: ignore[no-untyped-def]
    return x[at[NOISE_GROWTH]] if at[NOISE_GROWTH + 1] > at[NOISE_GROWTH] else 0.0


@jit
def human_times(x, gradient, buffer, at, data, mu_task, by_task):  # type: ignore[no-untyped-def]
    """Add human runs, failed runs and estimates; write the gradient."""
    _, source, moments, runs, failed, _, _ = data
    logp = _plain_runs(x, gradient, at, source, moments, mu_task, by_task)
    logp += _estimates(x, gradient, at, moments, mu_task, by_task)
    if runs.shape[1] == 0 and failed.shape[1] == 0:
        return logp
    has_nu = at[NU_MINUS_ONE + 1] > at[NU_MINUS_ONE]
    excess = math.exp(x[at[NU_MINUS_ONE]]) if has_nu else 0.0
    growth, nu = _growth(x, at), 1 + excess
    constants = noise_constant(buffer[NOISE], nu)
    by_growth, by_nu = 0.0, 0.0
    for i in range(runs.shape[1] + failed.shape[1]):
        timed = i < runs.shape[1]
        j = i if timed else i - runs.shape[1]
        t = int(runs[0, j] if timed else failed[0, j])
        scale = at[SIGMA_HUMAN] + int(source[t])
        distance = mu_task[t] - USUAL_LOG2_MINUTES
        sd = math.exp(x[scale] + _LN2 * growth * distance)
        if timed:
            value, by_mean, by_log_sd, nu_slope = interval_terms(
                runs[1, j], runs[2, j], mu_task[t], sd, buffer[NOISE], nu, constants
            )
        else:
            e = (failed[1, j] - mu_task[t]) / sd
            value, hazard, nu_slope = survival_terms(e, buffer[NOISE], nu, constants)
            by_mean, by_log_sd = hazard / sd, hazard * e
        logp += value
        by_task[t] += by_mean + by_log_sd * _LN2 * growth
        gradient[scale] += by_log_sd
        by_growth += by_log_sd * _LN2 * distance
        by_nu += nu_slope
    if has_nu:
        gradient[at[NU_MINUS_ONE]] += by_nu * excess
    if at[NOISE_GROWTH + 1] > at[NOISE_GROWTH]:
        gradient[at[NOISE_GROWTH]] += by_growth
    return logp


@jit
def _plain_runs(x, gradient, at, source, moments, mu_task, by_task):  # type: ignore[no-untyped-def]
    """Add runs with plain Normal noise by their sufficient statistics."""
    logp = 0.0
    for t in range(mu_task.size):
        count = moments[0, t]
        if count > 0:
            scale = at[SIGMA_HUMAN] + int(source[t])
            precision = math.exp(-2 * x[scale])
            distance = moments[1, t] - mu_task[t]
            square = moments[2, t] + count * distance * distance
            by_task[t] += count * distance * precision
            gradient[scale] += square * precision - count
            logp -= 0.5 * square * precision + count * x[scale]
    return logp


@jit
def _estimates(x, gradient, at, moments, mu_task, by_task):  # type: ignore[no-untyped-def]
    """Add the estimates, which may all be off by one factor."""
    has_bias = at[DELTA_ESTIMATE + 1] > at[DELTA_ESTIMATE]
    bias = x[at[DELTA_ESTIMATE]] if has_bias else 0.0
    log_sigma = x[at[SIGMA_ESTIMATE]]
    precision = math.exp(-2 * log_sigma)
    total, number, pull = 0.0, 0.0, 0.0
    for t in range(mu_task.size):
        count = moments[3, t]
        distance = moments[4, t] - bias - mu_task[t]
        total += moments[5, t] + count * distance * distance
        number += count
        by_task[t] += count * distance * precision
        pull += count * distance * precision
    gradient[at[SIGMA_ESTIMATE]] += total * precision - number
    if has_bias:
        gradient[at[DELTA_ESTIMATE]] += pull
    return -0.5 * total * precision - number * log_sigma
