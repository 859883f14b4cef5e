"""Masses by bridge sampling against masses that are known."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest
from numba import carray, cfunc, types

from tidegauge.engine.bridge import log_density_at, log_mass
from tidegauge.engine.sampling import LogDensity

SIZE = 40
_POINTER = types.CPointer(types.float64)
_DENSITY = types.int64(types.uint64, *[_POINTER] * 4)


@cfunc(_DENSITY, error_model="numpy")
def _gaussian(n, x_, gradient_, logp_, data_):  # type: ignore[no-untyped-def]
    """A correlated Gaussian without its constant; no density where the first entry is below -9."""
    x = carray(x_, (n,))
    total = -0.5 * x[0] ** 2
    for i in range(1, n):
        total -= 0.5 * (x[i] - 0.8 * x[i - 1]) ** 2
    logp_[0] = total
    return 1 if x[0] < -9 else 0


@cfunc(_DENSITY, error_model="numpy")
def _logs_of_gamma(n, x_, gradient_, logp_, data_):  # type: ignore[no-untyped-def]
    """Logarithms of Gamma(3) variables: skew, and of mass Gamma(3) each."""
    x = carray(x_, (n,))
    total = 0.0
    for i in range(n):
        total += 3 * x[i] - math.exp(x[i])
    logp_[0] = total
    return 0


def density_of(function: numba.core.ccallback.CFunc) -> LogDensity:
    return LogDensity(function, function, np.zeros(1), SIZE, lambda seed: np.zeros(SIZE))


def gaussian_draws(rng: np.random.Generator) -> np.ndarray:
    x = rng.normal(size=(4, 250, SIZE))
    for i in range(1, SIZE):
        x[..., i] += 0.8 * x[..., i - 1]
    return x


@pytest.mark.parametrize(
    ("function", "draw", "known"),
    [
        (_gaussian, gaussian_draws, 0.5 * SIZE * math.log(2 * math.pi)),
        (
            _logs_of_gamma,
            lambda rng: np.log(rng.gamma(3, size=(4, 250, SIZE))),
            SIZE * math.lgamma(3),
        ),
    ],
    ids=["gaussian", "skew"],
)
def test_known_masses_are_recovered(function, draw, known) -> None:  # type: ignore[no-untyped-def]
    density = density_of(function)
    errors = [
        log_mass(density, draw(np.random.default_rng(seed)), seed=seed + 100) - known
        for seed in range(20)
    ]
    spread = np.std(errors, ddof=1)
    assert abs(np.mean(errors)) < 4 * spread / math.sqrt(20)
    assert spread < 0.5  # so that masses are good to a factor of two or three


def test_a_point_without_density_has_none() -> None:
    points = np.zeros((2, SIZE))
    points[1, 0] = -10
    np.testing.assert_array_equal(log_density_at(density_of(_gaussian), points), [0, -np.inf])


def test_the_same_seed_gives_the_same_mass() -> None:
    density, draws = density_of(_gaussian), gaussian_draws(np.random.default_rng(1))
    assert log_mass(density, draws, seed=3) == log_mass(density, draws, seed=3)


def test_a_chain_that_is_stuck_is_weighed_too() -> None:
    draws = gaussian_draws(np.random.default_rng(1))
    draws[..., 3] = draws[0, 0, 3]
    stuck = log_mass(density_of(_gaussian), draws, seed=3)
    moving = log_mass(density_of(_gaussian), gaussian_draws(np.random.default_rng(1)), seed=3)
    assert stuck < moving - 10
