"""The grid posterior against adaptive quadrature, and at the edges of the data."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate
from scipy.special import expit

from tidegauge.arrays import weighted_quantiles
from tidegauge.horizon.methods.exact import agent_grid
from tidegauge.horizon.model.options import DEFAULT_PRIORS

X = np.array([0.0, 2.0, 4.0, 6.0, 8.0])


def density(alpha: float, beta: float, k: np.ndarray, n: np.ndarray) -> float:
    p = expit(alpha + beta * X)
    likelihood = np.prod(p**k * (1 - p) ** (n - k))
    return float(likelihood * np.exp(-0.5 * (alpha / 5) ** 2 - 0.5 * ((beta + 0.5) / 1.5) ** 2))


def test_posterior_means_against_quadrature() -> None:
    k, n = np.array([4.0, 3.0, 3.0, 1.0, 0.0]), np.full(5, 4.0)
    grid = agent_grid(X, k, n, DEFAULT_PRIORS)

    def integral(weight) -> float:  # type: ignore[no-untyped-def]
        return float(
            integrate.dblquad(
                lambda b, a: weight(a, b) * density(a, b, k, n), -25, 25, -8, 0, epsabs=1e-12
            )[0]
        )

    total = integral(lambda a, b: 1.0)
    for values, expected in (
        (grid.alpha, integral(lambda a, b: a) / total),
        (grid.beta, integral(lambda a, b: b) / total),
        (grid.beta**2, integral(lambda a, b: b * b) / total),
    ):
        np.testing.assert_allclose(grid.weight @ values, expected, rtol=2e-4)


@pytest.mark.parametrize("share", [0.0, 1.0], ids=["never", "always"])
@pytest.mark.parametrize("runs", [1.0, 1000.0])
def test_one_sided_agents_have_a_proper_posterior(share: float, runs: float) -> None:
    n = np.full(5, runs)
    grid = agent_grid(X, share * n, n, DEFAULT_PRIORS)
    assert np.isfinite(grid.weight).all()
    np.testing.assert_allclose(grid.weight.sum(), 1)
    log2 = -grid.alpha / grid.beta
    median = weighted_quantiles(log2, grid.weight, [0.5])[0]
    assert median < 0 if share == 0 else median > 8


def test_a_million_runs_are_resolved() -> None:
    n = np.full(5, 2e5)
    k = np.round(n * expit(2.0 - 0.5 * X))
    grid = agent_grid(X, k, n, DEFAULT_PRIORS)
    log2 = -grid.alpha / grid.beta
    low, median, high = weighted_quantiles(log2, grid.weight, [0.025, 0.5, 0.975])
    assert low < 4.0 < high
    assert abs(median - 4.0) < 0.02
    assert high - low < 0.05
    assert (grid.weight > 1e-4 * grid.weight.max()).sum() > 300


def test_weighted_quantiles_of_equal_weights_are_those_of_the_sample() -> None:
    values = np.random.default_rng(1).normal(size=4001)
    found = weighted_quantiles(values, np.ones(4001), [0.025, 0.5, 0.975])
    np.testing.assert_allclose(found, np.quantile(values, [0.025, 0.5, 0.975]), atol=0.01)
