"""Log densities of the human noise and their slopes, compiled: normal, Student-t, Weibull.

A standardised error e has mean 0. Normal and Student-t have scale 1; the logarithm of a Weibull
duration is a Gumbel of minima, here with standard deviation 1.
"""

from __future__ import annotations

import math

import numpy as np

from tidegauge.horizon.density.jit import jit
from tidegauge.horizon.model.human_noise import (
    GUMBEL_MEAN,
    GUMBEL_SD,
    NORMAL,
    STUDENT_T,
    WEIBULL,
)

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_LOG_GUMBEL_SD = math.log(GUMBEL_SD)
_PANEL_NODES, _PANEL_WEIGHTS = np.polynomial.legendre.leggauss(4)
_TAIL_NODES, _TAIL_WEIGHTS = np.polynomial.legendre.leggauss(40)
_MOST_PANELS = 200


@jit
def digamma(x):  # type: ignore[no-untyped-def]
    """Return the derivative of log Gamma at x > 0."""
    value = 0.0
    while x < 10:
        value -= 1 / x
        x += 1
    s = 1 / (x * x)
    series = s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s * (1 / 132)))))
    return value + math.log(x) - 0.5 / x - series


@jit
def noise_constant(kind, nu):  # type: ignore[no-untyped-def]
    """Return the log density's constant and its slope by nu."""
    if kind == NORMAL:
        return -_HALF_LOG_2PI, 0.0
    if kind == STUDENT_T:
        value = math.lgamma(0.5 * (nu + 1)) - math.lgamma(0.5 * nu) - 0.5 * math.log(math.pi * nu)
        slope = 0.5 * (digamma(0.5 * (nu + 1)) - digamma(0.5 * nu) - 1 / nu)
        return value, slope
    return _LOG_GUMBEL_SD, 0.0


@jit
def log_density_of_error(e, kind, nu, constant, constant_slope):  # type: ignore[no-untyped-def]
    """Return the log density at an error, and its slopes by the error and by nu."""
    if kind == NORMAL:
        return constant - 0.5 * e * e, -e, 0.0
    if kind == STUDENT_T:
        square = e * e
        log_term = math.log1p(square / nu)
        by_nu = constant_slope - 0.5 * log_term + 0.5 * (nu + 1) * square / (nu * (nu + square))
        return constant - 0.5 * (nu + 1) * log_term, -(nu + 1) * e / (nu + square), by_nu
    w = GUMBEL_SD * e + GUMBEL_MEAN
    up = math.exp(min(w, 700.0))
    return constant + w - up, GUMBEL_SD * (1 - up), 0.0


@jit
def interval_terms(lower, upper, mean, sd, kind, nu, constants):  # type: ignore[no-untyped-def]
    """Return the log probability of an interval, and its slopes by mean, log sd and nu.

    Gauss-Legendre in panels over which the density neither turns nor falls much: exact to about
    1e-9. The Weibull, which falls too steeply for that, has a closed form. An interval without
    width is a density.
    """
    constant, constant_slope = constants
    if upper == lower:
        e = (lower - mean) / sd
        value, slope, by_nu = log_density_of_error(e, kind, nu, constant, constant_slope)
        return value - math.log(sd), -slope / sd, -1 - e * slope, by_nu
    low, high = (lower - mean) / sd, (upper - mean) / sd
    if kind == WEIBULL:
        return _weibull_interval(low, high, sd)
    nearest = min(max(0.0, low), high)
    top, slope, _ = log_density_of_error(nearest, kind, nu, constant, constant_slope)
    panels = min(1 + int((high - low) * (2 + 0.5 * abs(slope))), _MOST_PANELS)
    half = 0.5 * (high - low) / panels
    total, by_error, by_scale, by_nu = 0.0, 0.0, 0.0, 0.0
    for panel in range(panels):
        middle = low + (2 * panel + 1) * half
        for k in range(_PANEL_NODES.size):
            e = middle + half * _PANEL_NODES[k]
            value, slope, nu_slope = log_density_of_error(e, kind, nu, constant, constant_slope)
            weight = _PANEL_WEIGHTS[k] * math.exp(min(value - top, 700.0))
            total += weight
            by_error += weight * slope
            by_scale += weight * e * slope
            by_nu += weight * nu_slope
    if not total > 0:  # so far out that the largest term vanishes: only tuning comes here
        return -math.inf, 0.0, 0.0, 0.0
    value = top + math.log(total * half)
    return value, -by_error / total / sd, -1 - by_scale / total, by_nu / total


@jit
def _weibull_interval(low, high, sd):  # type: ignore[no-untyped-def]
    """Return the terms of an interval of the Gumbel of minima: a difference of two survivals."""
    near = math.exp(min(GUMBEL_SD * low + GUMBEL_MEAN, 700.0))
    far = math.exp(min(GUMBEL_SD * high + GUMBEL_MEAN, 700.0))
    inside = -math.expm1(near - far)  # of those beyond `low`, the share before `high`
    ratio = math.exp(near - far) / inside
    by_low, by_high = -GUMBEL_SD * near / inside, GUMBEL_SD * far * ratio
    by_error, by_scale = by_low + by_high, by_low * low + by_high * high
    return -near + math.log(inside), -by_error / sd, -by_scale, 0.0


@jit
def log_normal_survival(e):  # type: ignore[no-untyped-def]
    """Return log P(E > e) of a standard normal and its hazard, without underflow."""
    if e < 5:
        tail = 0.5 * math.erfc(e / math.sqrt(2.0))
        hazard = math.exp(-0.5 * e * e - _HALF_LOG_2PI) / tail
        value = math.log(tail) if e > 0 else math.log1p(-0.5 * math.erfc(-e / math.sqrt(2.0)))
        return value, hazard
    # Continued fraction of the Mills ratio: forty levels are exact to the last digit from here.
    ratio = e
    for level in range(40, 0, -1):
        ratio = e + level / ratio
    return -0.5 * e * e - _HALF_LOG_2PI - math.log(ratio), ratio


@jit
def _student_tail(e, nu, constants):  # type: ignore[no-untyped-def]
    """Return log P(E > e) for e >= 0 and its slope by nu, by the angle of e: e = sqrt(nu) tan.

    In the angle the density is a power of the cosine; the range ends where it has fallen by
    exp(-40), so that forty nodes always see all of it.
    """
    start = math.atan(e / math.sqrt(nu))
    log_cosine = -0.5 * math.log1p(e * e / nu)
    power = nu - 1
    end = 0.5 * math.pi
    if power > 0:
        end = math.acos(math.exp(max(log_cosine - 40 / power, -700.0)))
    reach = end - start
    total, by_power = 0.0, 0.0
    for k in range(_TAIL_NODES.size):
        # The cube of v keeps the power of the cosine smooth where it vanishes, at a right angle.
        v = 0.5 * (1 + _TAIL_NODES[k])
        log_c = math.log(math.cos(end - reach * v * v * v))
        weight = 1.5 * v * v * _TAIL_WEIGHTS[k] * math.exp(power * (log_c - log_cosine))
        total += weight
        by_power += weight * log_c
    constant, constant_slope = constants
    # In the angle, the density's constant is sqrt(nu) times the one by e.
    value = math.log(total * reach) + power * log_cosine + constant + 0.5 * math.log(nu)
    by_start = 1 / (total * reach)  # the density at the start, relative to the tail
    start_slope = -0.5 * e / (math.sqrt(nu) * (nu + e * e))
    by_nu = by_power / total - by_start * start_slope + constant_slope + 0.5 / nu
    return value, by_nu


@jit
def survival_terms(e, kind, nu, constants):  # type: ignore[no-untyped-def]
    """Return log P(E > e), its hazard (minus its slope by e) and its slope by nu."""
    if kind == NORMAL:
        value, hazard = log_normal_survival(e)
        return value, hazard, 0.0
    if kind == STUDENT_T:
        value, by_nu = _student_tail(abs(e), nu, constants)
        if e < 0:
            below = math.exp(value)
            value = math.log1p(-below)
            by_nu = -by_nu * below / (1 - below)
        density, _, _ = log_density_of_error(e, kind, nu, constants[0], constants[1])
        return value, math.exp(density - value), by_nu
    up = math.exp(min(GUMBEL_SD * e + GUMBEL_MEAN, 700.0))
    return -up, GUMBEL_SD * up, 0.0
