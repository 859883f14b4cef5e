"""Human times in the fused log density: runs, estimates and censored failures."""

from __future__ import annotations

import math

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
def human_times(x, gradient, data, mu_task, by_task):  # type: ignore[no-untyped-def]
    """Add human runs, failed runs and estimates; write the gradient."""
    at, source, runs, failed = data.at, data.source, data.intervals, data.failed
    noise, n_runs = data.settings.noise, runs.task.size
    logp = _plain_runs(x, gradient, at, source, data.runs, mu_task, by_task)
    logp += _estimates(x, gradient, at, data.estimates, mu_task, by_task)
    if n_runs == 0 and failed.task.size == 0:
        return logp
    has_nu = at[NU_MINUS_ONE + 1] > at[NU_MINUS_ONE]
    excess = math.exp(x[at[NU_MINUS_ONE]]) if has_nu else 0.0
    growth, nu = _growth(x, at), 1 + excess
    constants = noise_constant(noise, nu)
    by_growth, by_nu = 0.0, 0.0
    for i in range(n_runs + failed.task.size):
        timed = i < n_runs
        j = i if timed else i - n_runs
        t = int(runs.task[j] if timed else failed.task[j])
        scale = at[SIGMA_HUMAN] + int(source[t])
        distance = mu_task[t] - USUAL_LOG2_MINUTES
        sd = math.exp(x[scale] + _LN2 * growth * distance)
        if timed:
            value, by_mean, by_log_sd, nu_slope = interval_terms(
                runs.low[j], runs.high[j], mu_task[t], sd, noise, nu, constants
            )
        else:
            e = (failed.log2[j] - mu_task[t]) / sd
            value, hazard, nu_slope = survival_terms(e, noise, nu, constants)
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
        count = moments.number[t]
        if count > 0:
            scale = at[SIGMA_HUMAN] + int(source[t])
            precision = math.exp(-2 * x[scale])
            distance = moments.mean[t] - mu_task[t]
            square = moments.square[t] + count * distance * distance
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
        count = moments.number[t]
        distance = moments.mean[t] - bias - mu_task[t]
        total += moments.square[t] + count * distance * distance
        number += count
        by_task[t] += count * distance * precision
        pull += count * distance * precision
    gradient[at[SIGMA_ESTIMATE]] += total * precision - number
    if has_bias:
        gradient[at[DELTA_ESTIMATE]] += pull
    return -0.5 * total * precision - number * log_sigma
