"""Every kind of prior against SciPy and PyMC; unknown kinds are refused."""

from __future__ import annotations

import math

import numpy as np
import pymc as pm
import pytest
from scipy import integrate, stats

from tidegauge.engine.priors import (
    MAKERS,
    Prior,
    gamma,
    half_cauchy,
    half_normal,
    kinds_like,
    normal,
    truncated_normal,
    uniform_logit,
)

LAWS = [
    (normal(1, 2), stats.norm(1, 2), "Normal(1, 2)"),
    (half_normal(3), stats.halfnorm(scale=3), "HalfNormal(3)"),
    (half_cauchy(2), stats.halfcauchy(scale=2), "HalfCauchy(2)"),
    (gamma(mean=20, sd=10), stats.gamma(4, scale=5), "Gamma(mean 20, sd 10)"),
    (
        truncated_normal(-0.5, 1.5, upper=0),
        stats.truncnorm(-np.inf, 1 / 3, -0.5, 1.5),
        "Normal(-0.5, 1.5) up to 0",
    ),
    (uniform_logit(), stats.logistic(), "logit of Uniform(0, 1)"),
]
LAW = pytest.mark.parametrize(("prior", "law", "text"), LAWS, ids=[law[0].kind for law in LAWS])


@LAW
def test_density_and_quantiles_equal_scipys(prior: Prior, law: stats.rv_frozen, text: str) -> None:
    probability = np.linspace(0.01, 0.99, 21)
    values = law.ppf(probability)
    np.testing.assert_allclose(prior.quantile(probability), values, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(prior.logpdf(values), law.logpdf(values), rtol=1e-9)
    np.testing.assert_allclose(
        prior.log_kernel(values) + prior.log_normaliser, law.logpdf(values), rtol=1e-9
    )
    assert prior.support == pytest.approx(law.support())
    assert str(prior) == text


@LAW
def test_pymc_variable_has_the_same_density(prior: Prior, law: stats.rv_frozen, text: str) -> None:
    values = law.ppf([0.05, 0.5, 0.95])
    with pm.Model():
        variable = prior.to_pymc("one")
        logs = pm.logp(variable, values).eval()
    np.testing.assert_allclose(logs, prior.logpdf(values), rtol=1e-6)


def test_density_is_nothing_outside_the_support() -> None:
    outside = np.array([-1.0, 1.0])
    assert half_normal(1).logpdf(outside)[0] == -np.inf
    assert gamma(mean=1, sd=1).logpdf(outside)[0] == -np.inf
    assert truncated_normal(0, 1, upper=0).logpdf(outside)[1] == -np.inf


@pytest.mark.parametrize("power", [0.5, 2.0])
@pytest.mark.parametrize(
    "prior", [normal(1, 2), half_normal(2), truncated_normal(-1, 2, upper=0)], ids=str
)
def test_a_powered_prior_is_proportional_to_the_power(prior: Prior, power: float) -> None:
    powered = prior.powered(power)
    assert powered is not None
    values = prior.quantile(np.linspace(0.1, 0.9, 9))
    off = powered.logpdf(values) - power * prior.logpdf(values)
    np.testing.assert_allclose(off, off[0], rtol=1e-9)
    total, _ = integrate.quad(lambda value: math.exp(powered.logpdf(value)), *powered.support)
    assert total == pytest.approx(1)


def test_powers_of_other_kinds_are_of_no_kind() -> None:
    assert half_cauchy(1).powered(2.0) is None
    assert gamma(mean=1, sd=1).powered(2.0) is None


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="no prior of kind 'laplace'; choose from normal"):
        Prior("laplace", 0.0, 1.0)


def test_kinds_with_the_same_support_may_stand_for_each_other() -> None:
    assert kinds_like(half_normal(1)) == ("half_normal", "half_cauchy", "gamma", "log_normal")
    assert kinds_like(normal(0, 1)) == ("normal",)
    assert kinds_like(truncated_normal(0, 1, upper=0)) == ("truncated_normal",)
    assert all(maker.__name__ == kind for kind, maker in MAKERS.items())
