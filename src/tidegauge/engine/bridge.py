"""The mass that draws stand for, by bridge sampling: how much one mode holds beside another.

Chains in one mode tell nothing of how large it is. A Gaussian of known mass is fitted to some of
the draws and bridged to the others (Meng and Wong 1996): neither needs to cover the other, and in
coordinates in which the mode is nearly round a few hundred draws give its logarithm to about one.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from tidegauge.arrays import FloatArray
from tidegauge.engine.sampling import LogDensity

_ITERATIONS, _CLOSE = 1000, 1e-9
_LEAST_SD = 1e-12  # of a chain that is stuck: it has no mass to speak of, but is no crash
_C_POINTER = ctypes.POINTER(ctypes.c_double)
_C_DENSITY = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_uint64, _C_POINTER, _C_POINTER, _C_POINTER, ctypes.c_void_p
)


@dataclass(frozen=True)
class _Gaussian:
    """A Gaussian by its mean and the Cholesky factor of its covariance."""

    mean: FloatArray
    root: FloatArray

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        drawn: FloatArray = self.mean + rng.normal(size=(count, self.mean.size)) @ self.root.T
        return drawn

    def log_density(self, points: FloatArray) -> FloatArray:
        u = solve_triangular(self.root, (points - self.mean).T, lower=True)
        log_scale = np.log(np.diag(self.root)).sum() + 0.5 * self.mean.size * np.log(2 * np.pi)
        density: FloatArray = -0.5 * (u * u).sum(axis=0) - log_scale
        return density


def log_mass(density: LogDensity, position: FloatArray, *, seed: int) -> float:
    """Return the logarithm of the integral of a density over the mode that the draws are of.

    Parameters
    ----------
    position : ndarray, shape (chain, draw, size)
        Draws, all of one mode.
    """
    rng = np.random.default_rng(seed)
    one, other = np.array_split(position.reshape(-1, density.size), 2)
    # Draws that shaped the Gaussian lie too well in it to be bridged to it: each half in turn.
    return 0.5 * (_bridge(density, one, other, rng) + _bridge(density, other, one, rng))


def log_density_at(density: LogDensity, points: FloatArray) -> FloatArray:
    """Return the log density at every point (point, size); minus infinity where there is none."""
    function = _C_DENSITY(density.function.address)
    gradient, value = np.empty(density.size), np.empty(1)
    data = density.data.ctypes.data_as(ctypes.c_void_p)
    out = [array.ctypes.data_as(_C_POINTER) for array in (gradient, value)]
    found = np.full(len(points), -np.inf)
    for i, point in enumerate(np.ascontiguousarray(points)):
        if function(density.size, point.ctypes.data_as(_C_POINTER), *out, data) == 0:
            found[i] = value[0]
    return found


def _bridge(
    density: LogDensity, shaping: FloatArray, bridged: FloatArray, rng: np.random.Generator
) -> float:
    """Fit a Gaussian to some draws; return the log mass at which it and the others agree."""
    gaussian = _fit(shaping)
    own = gaussian.draw(len(bridged), rng)
    of_draws = log_density_at(density, bridged) - gaussian.log_density(bridged)
    of_own = log_density_at(density, own) - gaussian.log_density(own)
    found = float(np.median(of_draws))
    for _ in range(_ITERATIONS):
        # Both sets have the same size, so it cancels from the optimal bridge.
        above = logsumexp(of_own - np.logaddexp(of_own, found))
        below = logsumexp(-np.logaddexp(of_draws, found))
        last, found = found, float(above - below)
        if abs(found - last) < _CLOSE:
            break
    return found


def _fit(draws: FloatArray) -> _Gaussian:
    """Fit mean and covariance, correlations shrunk by as much as their number outruns the draws."""
    count, size = draws.shape
    mean, sd = draws.mean(axis=0), np.maximum(draws.std(axis=0), _LEAST_SD)
    scaled = (draws - mean) / sd
    shrunk = min(1.0, size / count)
    correlation = (1 - shrunk) * scaled.T @ scaled / count + shrunk * np.eye(size)
    return _Gaussian(mean, sd[:, None] * np.linalg.cholesky(correlation))
