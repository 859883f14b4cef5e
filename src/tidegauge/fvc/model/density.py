"""The hierarchical model's log density and gradient, fused: some ten microseconds a call.

The specification is `model.build_model`; a test compares the two. Unconstrained coordinates: the
scalars of `design.SCALARS`, then standardised effects, levels and slopes.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numba import carray, cfunc, types

from tidegauge.arrays import FloatArray
from tidegauge.engine.priors import Prior
from tidegauge.engine.sampling import LogDensity
from tidegauge.fvc.model.design import SCALARS, HierarchicalDesign, HierarchicalPriors

_N_SCALARS = len(SCALARS)
# Where each scalar is: constants to the compiler.
_LEVEL_MEAN = SCALARS.index("level_mean")
_LEVEL_EXPECTED = SCALARS.index("level_expected")
_LOG_LEVEL_SD = SCALARS.index("log_level_sd")
_SLOPE_MEAN = SCALARS.index("slope_mean")
_LOG_EFFECT_SD = SCALARS.index("log_effect_sd")
_LOG_SLOPE_SD = SCALARS.index("log_slope_sd")
_LOG_SIGMA = SCALARS.index("log_sigma")
_GROWTH = SCALARS.index("growth")
_LOG_NU = SCALARS.index("log_nu")
_LOG_NU_SLOPE = SCALARS.index("log_nu_slope")
_N_PRIORS = 2 * _N_SCALARS

_START = {  # near the posterior of published cohorts
    "level_mean": 27.0,
    "level_expected": 5.0,
    "log_level_sd": 2.0,
    "slope_mean": -1.5,
    "log_effect_sd": -1.5,
    "log_slope_sd": 0.5,
    "log_sigma": 0.3,
    "growth": 0.0,
    "log_nu": 1.2,
    "log_nu_slope": 1.2,
}

_density_type = types.int64(
    types.uint64,
    types.CPointer(types.double),
    types.CPointer(types.double),
    types.CPointer(types.double),
    types.voidptr,
)
_identity_type = types.int64(
    types.uint64,
    types.uint64,
    types.CPointer(types.double),
    types.CPointer(types.double),
    types.voidptr,
)


@numba.njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _digamma(x: float) -> float:
    total = 0.0
    while x < 8.0:
        total -= 1.0 / x
        x += 1.0
    r = 1.0 / (x * x)
    return total + math.log(x) - 0.5 / x - r * (1 / 12.0 - r * (1 / 120.0 - r / 252.0))


@numba.njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _t_constant(nu: float) -> tuple[float, float]:
    """Return the normalising constant of a unit Student-t and its derivative in nu."""
    value = math.lgamma(0.5 * (nu + 1)) - math.lgamma(0.5 * nu) - 0.5 * math.log(nu * math.pi)
    slope = 0.5 * (_digamma(0.5 * (nu + 1)) - _digamma(0.5 * nu) - 1.0 / nu)
    return value, slope


@numba.njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _scalars(x: FloatArray, grad: FloatArray, prior: FloatArray) -> float:
    """Add the priors of the scalars."""
    logp = 0.0
    for k in range(_N_SCALARS):
        mu, sd = prior[2 * k], prior[2 * k + 1]
        if sd > 0:  # a normal on the coordinate itself
            z = (x[k] - mu) / sd
            logp -= 0.5 * z * z
            grad[k] -= z / sd
        else:  # a half normal on its exponential, with the Jacobian
            z = math.exp(x[k]) / sd
            logp += x[k] - 0.5 * z * z
            grad[k] += 1.0 - z * z
    return logp


@numba.njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _level(
    x: FloatArray, grad: FloatArray, at: int, sd: float, centre: float, expected: float, seen: float
) -> float:
    """Add the normal prior of one patient's level."""
    r = (x[at] - (x[_LEVEL_MEAN] + x[_LEVEL_EXPECTED] * expected) * centre + seen) / sd
    g = r / sd
    grad[at] -= g
    grad[_LEVEL_MEAN] += g * centre
    grad[_LEVEL_EXPECTED] += g * centre * expected
    grad[_LOG_LEVEL_SD] += r * r - 1.0
    return float(-0.5 * r * r - x[_LOG_LEVEL_SD])


@numba.njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _slope(
    x: FloatArray,
    grad: FloatArray,
    at: int,
    cov: FloatArray,
    scales: tuple[float, float, float],
    constants: tuple[float, float],
) -> float:
    """Add the Student-t prior of one patient's slope."""
    effect_sd, slope_sd, nu = scales
    const, const_nu = constants
    mean = 0.0
    for k in range(len(cov)):
        mean += cov[k] * x[_N_SCALARS + k]
    e = (x[at] - x[_SLOPE_MEAN] - effect_sd * mean) / slope_sd
    rise = 1.0 + e * e / nu
    tail = math.log(rise)
    w = (nu + 1.0) * e / (nu * rise)  # minus the derivative in e
    g = w / slope_sd
    grad[at] -= g
    grad[_SLOPE_MEAN] += g
    grad[_LOG_EFFECT_SD] += g * effect_sd * mean
    for k in range(len(cov)):
        grad[_N_SCALARS + k] += g * effect_sd * cov[k]
    grad[_LOG_SLOPE_SD] += w * e - 1.0
    grad[_LOG_NU_SLOPE] += (const_nu - 0.5 * tail + 0.5 * w * e / nu) * (nu - 1.0)
    return float(const - x[_LOG_SLOPE_SD] - 0.5 * (nu + 1.0) * tail)


@numba.njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _visits(
    y: FloatArray, t: FloatArray, level: float, slope: float, inverse: float, nu: float
) -> tuple[float, float, float, float]:
    """Return one patient's sums over visits: of log tails, by level, by slope, and of squares."""
    product, total, by_level, by_slope, squares = 1.0, 0.0, 0.0, 0.0, 0.0
    for j in range(len(y)):
        e = (y[j] - level - slope * t[j]) * inverse
        rise = 1.0 + e * e / nu
        w = (nu + 1.0) * e / (nu * rise)
        by_level += w
        by_slope += w * t[j]
        squares += w * e
        product *= rise  # one logarithm a patient, not one a visit
        if product > 1e100:
            total += math.log(product)
            product = 1.0
    return total + math.log(product), by_level * inverse, by_slope * inverse, squares


@numba.njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def log_density(x: FloatArray, grad: FloatArray, data: FloatArray) -> float:
    """Return the log density at `x` and write its gradient; `data` is that of `pack`."""
    n, m, p = int(data[0]), int(data[1]), int(data[2])
    at = 3 + _N_PRIORS
    prior = data[3:at]
    observed, centre = data[at : at + n], data[at + n : at + 2 * n]
    expected, size = data[at + 2 * n : at + 3 * n], data[at + 3 * n : at + 4 * n]
    at += 4 * n
    cov = data[at : at + n * p].reshape((n, p))
    at += n * p
    begin = data[at : at + n + 1]
    at += n + 1
    t, y = data[at : at + m], data[at + m : at + 2 * m]
    grad[:] = 0.0
    logp: float = _scalars(x, grad, prior)
    nu = 1.0 + math.exp(x[_LOG_NU])
    const, const_nu = _t_constant(nu)
    level_sd = math.exp(x[_LOG_LEVEL_SD])
    scales = (
        math.exp(x[_LOG_EFFECT_SD]),
        math.exp(x[_LOG_SLOPE_SD]),
        1.0 + math.exp(x[_LOG_NU_SLOPE]),
    )
    constants = _t_constant(scales[2])
    for k in range(_N_SCALARS, _N_SCALARS + p):
        logp -= 0.5 * x[k] * x[k]
        grad[k] -= x[k]
    for i in range(n):
        a, b = _N_SCALARS + p + i, _N_SCALARS + p + n + i
        logp += _level(x, grad, a, level_sd * centre[i], centre[i], expected[i], observed[i])
        logp += _slope(x, grad, b, cov[i], scales, constants)
        log_scale = x[_LOG_SIGMA] + x[_GROWTH] * size[i]
        start, end = int(begin[i]), int(begin[i + 1])
        total, by_level, by_slope, squares = _visits(
            y[start:end], t[start:end], x[a], x[b], math.exp(-log_scale), nu
        )
        logp += (end - start) * (const - log_scale) - 0.5 * (nu + 1.0) * total
        grad[a] += by_level
        grad[b] += by_slope
        extra = squares - (end - start)
        grad[_LOG_SIGMA] += extra
        grad[_GROWTH] += extra * size[i]
        by_nu = (end - start) * const_nu - 0.5 * total + 0.5 * squares / nu
        grad[_LOG_NU] += by_nu * (nu - 1.0)
    return logp


@cfunc(_density_type, cache=True, error_model="numpy")
def _density(n, x_, grad_, logp_, data_):  # type: ignore[no-untyped-def]
    head = carray(data_, (3,), np.float64)
    length = 3 + _N_PRIORS + int(head[0]) * (5 + int(head[2])) + 1 + 2 * int(head[1])
    x, grad = carray(x_, (n,), np.float64), carray(grad_, (n,), np.float64)
    value = log_density(x, grad, carray(data_, (length,), np.float64))
    carray(logp_, (1,), np.float64)[0] = value
    return 0 if math.isfinite(value) else 1


@cfunc(_identity_type, cache=True)
def _identity(n, n_out, x_, out_, data_):  # type: ignore[no-untyped-def]
    carray(out_, (n_out,), np.float64)[:] = carray(x_, (n,), np.float64)
    return 0


def pack(design: HierarchicalDesign, priors: HierarchicalPriors) -> FloatArray:
    """Return data and priors as the one buffer that the kernel reads."""
    patients = design.patients
    flat = [_prior_row(name, priors) for name in SCALARS]
    sizes = [len(patients.unit_ml), len(design.t), patients.x.shape[1]]
    return np.concatenate(
        [
            np.array(sizes, dtype=float),
            np.ravel(flat),
            patients.observed,
            patients.centre,
            patients.expected,
            patients.log_size,
            patients.x.ravel(),
            np.searchsorted(design.patient, np.arange(sizes[0] + 1)).astype(float),
            design.t,
            design.change,
        ]
    )


def _prior_row(name: str, priors: HierarchicalPriors) -> tuple[float, float]:
    """Return mean and sd of a scalar's prior; a negative sd marks a half normal."""
    prior: Prior = getattr(priors, name.removeprefix("log_"), None) or getattr(priors, name)
    match prior.kind:
        case "normal":
            return prior.mu, prior.sd
        case "half_normal":
            return prior.mu, -prior.sd
        case _:
            raise ValueError(f"{name}: {prior}: must be a normal or a half normal prior")


def make_density(design: HierarchicalDesign, priors: HierarchicalPriors) -> LogDensity:
    """Return the compiled density of this data for `engine.sampling.sample_density`."""
    n, p = len(design.patients.unit_ml), design.patients.x.shape[1]
    scalars = [_START[name] for name in SCALARS]
    middle = np.concatenate([scalars, np.zeros(p + n), np.full(n, _START["slope_mean"])])

    def initial(seed: int) -> FloatArray:
        spread = np.random.default_rng(seed).uniform(-0.5, 0.5, len(middle))
        start: FloatArray = middle + spread
        return start

    return LogDensity(_density, _identity, pack(design, priors), len(middle), initial)
