"""The fused density against the PyMC specification, and the whitened one against the fused."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from scipy.special import expit, log_ndtr

from density_checks import check_against_pymc, numerical_jacobian
from designs import draw_design, usual_truth
from tidegauge.engine.priors import half_cauchy, normal
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.density.buffer import pack_data
from tidegauge.horizon.density.human_noise import log_normal_survival
from tidegauge.horizon.density.joint import log_density
from tidegauge.horizon.density.logistic import logistic_terms
from tidegauge.horizon.model.options import DEFAULT_PRIORS, HorizonOptions, HorizonPriors
from tidegauge.horizon.model.specification import build_model, model_graph
from tidegauge.horizon.sampler.coordinates import whitened_log_density
from tidegauge.horizon.sampler.target import start_reference, to_centred, whitened_density

CAUCHY = dataclasses.replace(
    DEFAULT_PRIORS, sigma_human=half_cauchy(1), mu_global=normal(3, 2), sigma_family=half_cauchy(2)
)


@pytest.fixture(scope="module")
def design() -> Design:
    rng = np.random.default_rng(3)
    truth = usual_truth(rng, n_agents=3, n_tasks=12, n_families=4)
    drawn = draw_design(truth, rng, failed=7)
    drawn.attempts[1, 2:5] = drawn.successes[1, 2:5] = 0  # some cells were never tried
    return drawn


@pytest.mark.parametrize("priors", [DEFAULT_PRIORS, CAUCHY], ids=["default", "cauchy"])
@pytest.mark.parametrize("failures", ["ignore", "censor"])
def test_value_and_gradient_equal_the_pymc_model(
    design: Design, failures: str, priors: HorizonPriors
) -> None:
    check_against_pymc(design, HorizonOptions(failures=failures), priors)


def test_graph_shows_every_variable_and_what_it_depends_on(design: Design) -> None:
    model = build_model(design)
    graph = model_graph(model)
    nodes = re.findall(r"^(\w+)\(\[", graph, re.M)
    assert sorted(nodes) == sorted(variable.name for variable in model.basic_RVs)
    assert set(re.findall(r"^(\w+) --> (\w+)$", graph, re.M)) == {
        *(("mu_global", "mu_family"), ("sigma_global", "mu_family")),
        *(("mu_family", "mu_task"), ("sigma_family", "mu_task")),
        *(("mu_task", "log2_duration"), ("sigma_human", "log2_duration")),
        *(("mu_task", "log2_estimate"), ("sigma_estimate", "log2_estimate")),
        *((parent, "successes") for parent in ("alpha", "beta", "mu_task")),
    }


@pytest.mark.parametrize("failures", ["ignore", "censor"])
def test_whitened_density_is_the_change_of_variables_of_the_fused_one(
    design: Design, failures: str
) -> None:
    options = HorizonOptions(failures=failures)
    density = whitened_density(design, DEFAULT_PRIORS, options, start_reference(design))
    data = pack_data(design, DEFAULT_PRIORS, options)
    for seed in range(3):
        z = density.initial(seed)
        x = to_centred(density, z[None])[0]
        jacobian = numerical_jacobian(lambda v: to_centred(density, v[None])[0], z)
        expected = log_density(x, np.empty(x.size), data) + np.linalg.slogdet(jacobian)[1]
        got = whitened_log_density(z, np.empty(z.size), density.data)
        np.testing.assert_allclose(got, expected, rtol=1e-7)


def test_whitened_gradient_against_central_differences(design: Design) -> None:
    options = HorizonOptions(failures="censor")
    density = whitened_density(design, DEFAULT_PRIORS, options, start_reference(design))
    scratch = np.empty(density.size)

    def value(z: np.ndarray) -> np.ndarray:
        return np.array([whitened_log_density(z, scratch, density.data)])

    for seed in range(3):
        z = density.initial(seed)
        gradient = np.empty(z.size)
        whitened_log_density(z, gradient, density.data)
        expected = numerical_jacobian(value, z)[0]
        # Central differences of a value near 1e3 with step 1e-5 are good to about 1e-7.
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5)


def test_a_scale_that_vanishes_keeps_value_and_gradient_finite(design: Design) -> None:
    density = whitened_density(design, DEFAULT_PRIORS, HorizonOptions(), start_reference(design))
    z = density.initial(0)
    z[1:3] = -40.0  # sigma_global and sigma_family of 1e-17: the neck of the funnel
    gradient = np.empty(z.size)
    assert np.isfinite(whitened_log_density(z, gradient, density.data))
    assert np.isfinite(gradient).all()


def test_logistic_terms_against_scipy() -> None:
    eta = np.concatenate([np.linspace(-690, 690, 2001), np.linspace(-3, 3, 1001), [0.0, -0.0]])
    won, softplus, scratch = (np.empty_like(eta) for _ in range(3))
    logistic_terms(eta, won, softplus, scratch)
    np.testing.assert_allclose(won, expit(eta), rtol=2e-15)
    np.testing.assert_allclose(softplus, np.logaddexp(0, eta), rtol=2e-15)


def test_logistic_terms_far_out_are_finite() -> None:
    eta = np.array([-1e6, 1e6])
    won, softplus, scratch = (np.empty_like(eta) for _ in range(3))
    logistic_terms(eta, won, softplus, scratch)
    np.testing.assert_allclose(won, [0, 1], atol=1e-300)
    np.testing.assert_allclose(softplus, [0, 1e6], atol=1e-300)


@pytest.mark.parametrize("z", [-30.0, -5.0, 0.0, 4.999, 5.001, 12.0, 40.0, 1e4])
def test_log_survival_against_scipy(z: float) -> None:
    value, hazard = log_normal_survival(z)
    step = 1e-6 * max(1.0, abs(z))
    slope = (log_ndtr(-z - step) - log_ndtr(-z + step)) / (2 * step)
    np.testing.assert_allclose(value, log_ndtr(-z), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(hazard, -slope, rtol=1e-6, atol=1e-12)
