"""The kernel is the specification, and forecasts are what the model says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student

from tidegauge.engine.priors import half_cauchy
from tidegauge.fvc.data.cohort import Cohort, Questions
from tidegauge.fvc.data.covariates import FeatureScaling
from tidegauge.fvc.forecasters.hierarchical import KEPT_DRAWS, HierarchicalFit, split_r_hat
from tidegauge.fvc.model.density import log_density, make_density
from tidegauge.fvc.model.design import DEFAULT_PRIORS, SCALARS, design_cohort
from tidegauge.fvc.model.specification import build_model


@pytest.fixture(scope="module")
def design(cohort: Cohort):
    few = cohort.take(np.arange(12))
    scaling = FeatureScaling.of(few.baselines.features)
    return design_cohort(few, np.arange(8), scaling)


def test_kernel_equals_the_pymc_specification_up_to_a_constant(design) -> None:
    model = build_model(design)
    density = make_density(design, DEFAULT_PRIORS)
    n, p = len(design.patients.unit_ml), design.patients.x.shape[1]
    value_of, gradient_of = (
        compiled(mode="FAST_COMPILE") for compiled in (model.compile_logp, model.compile_dlogp)
    )
    names = [variable.name for variable in model.value_vars]

    def to_point(x: np.ndarray) -> dict[str, np.ndarray]:
        parts = dict(zip(SCALARS, x[: len(SCALARS)], strict=True))
        point = {name: parts.get(name.removesuffix("_log__")) for name in names}
        point |= {f"{k.removeprefix('log_')}_log__": v for k, v in parts.items()}
        ours = {
            "effect_z": x[10 : 10 + p],
            "level": x[10 + p : 10 + p + n],
            "slope": x[10 + p + n :],
        }
        point |= {"log_nu": x[8], "log_nu_slope": x[9]} | ours
        return {name: np.asarray(point[name]) for name in names}

    differences = []
    for seed in range(4):
        x = density.initial(seed)
        gradient = np.empty_like(x)
        value = log_density(x, gradient, density.data)
        differences.append(value - float(value_of(to_point(x))))
        theirs = gradient_of(to_point(x))
        sizes = np.cumsum([np.size(to_point(x)[name]) for name in names])[:-1]
        parts = dict(zip(names, np.split(theirs, sizes), strict=True))
        np.testing.assert_allclose(gradient[10 : 10 + p], parts["effect_z"], rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(gradient[10 + p : 10 + p + n], parts["level"], rtol=1e-8)
        np.testing.assert_allclose(gradient[10 + p + n :], parts["slope"], rtol=1e-8, atol=1e-8)
        last = [parts[k][0] for k in ("growth", "log_nu", "log_nu_slope")]
        np.testing.assert_allclose(gradient[7:10], last, rtol=1e-7)
        np.testing.assert_allclose(gradient[6], parts["sigma_log__"][0], rtol=1e-8)
    np.testing.assert_allclose(differences, differences[0], atol=1e-7)


def population(**changes: float) -> HierarchicalFit:
    values = {
        "level_mean": 27.0,
        "level_expected": 0.0,
        "log_level_sd": 2.0,
        "slope_mean": -1.0,
        "log_effect_sd": -3.0,
        "log_slope_sd": 0.0,
        "log_sigma": 0.0,
        "growth": 0.0,
        "log_nu": 1.0,
        "log_nu_slope": 1.0,
    } | changes
    n = 40 * KEPT_DRAWS
    return HierarchicalFit(
        np.tile([values[name] for name in SCALARS], (n, 1)),
        np.zeros((n, 0)),
        np.random.default_rng(8).random((n, 4)),
        np.array([], dtype=int),
        FeatureScaling(np.empty(0), np.empty(0)),
    )


def test_a_prior_the_kernel_does_not_have_is_refused(design) -> None:
    priors = replace(DEFAULT_PRIORS, level_sd=half_cauchy(10.0))
    with pytest.raises(ValueError, match=r"log_level_sd: HalfCauchy\(10\): must be a normal or a"):
        make_density(design, priors)


def test_far_forecast_is_the_population_of_slopes(cohort: Cohort) -> None:
    base = cohort.baselines.take(np.array([0]))
    draws = population(log_sigma=-6.0).forecast(base, Questions(np.array([0]), np.array([380.0])))
    unit = 100 * np.sqrt(base.fvc_ml[0] / 2700)
    change = (draws[0] - base.fvc_ml[0]) / unit
    nu = 1 + np.exp(1.0)
    levels = np.array([0.2, 0.5, 0.8])
    expected = -10 + 10 * student.ppf(levels, nu)
    below = (change[:, None] < expected).mean(axis=0)
    # one of the hundred draws either way, and three standard errors of 40,000 random ones
    np.testing.assert_allclose(below, levels, atol=0.01 + 3 * 0.5 / np.sqrt(40 * KEPT_DRAWS))


def test_level_given_a_noisy_first_visit_agrees_with_numerical_bayes(cohort: Cohort) -> None:
    base = cohort.baselines.take(np.array([1]))
    fit = population(log_level_sd=0.5, log_sigma=0.7)
    draws = fit.forecast(base, Questions(np.array([0]), np.array([0.0])))
    unit = 100 * np.sqrt(base.fvc_ml[0] / 2700)
    grid = np.linspace(-40, 40, 8001)
    nu, sigma = 1 + np.exp(1.0), np.exp(0.7)
    prior_mean = (2700 - base.fvc_ml[0]) / unit
    log_prior = -0.5 * ((grid - prior_mean) / (np.exp(0.5) * 100 / unit)) ** 2
    posterior = np.exp(log_prior) * student.pdf(-grid / sigma, nu)
    mean = (grid * posterior).sum() / posterior.sum()
    assert draws.mean() == pytest.approx(base.fvc_ml[0] + unit * mean, abs=0.06 * unit)


def test_noise_grows_with_the_level(cohort: Cohort) -> None:
    big = cohort.baselines.take(np.array([0, 0]))
    big.fvc_ml[:] = [1500.0, 5000.0]
    draws = population(growth=0.5).forecast(big, Questions(np.array([0, 1]), np.zeros(2)))
    spread = np.subtract(*np.quantile(draws, [0.75, 0.25], axis=1))
    assert spread[1] > 2 * spread[0]


def test_chains_apart_have_a_large_r_hat_and_alike_near_one() -> None:
    rng = np.random.default_rng(1)
    alike = rng.normal(size=(2, 400, 3))
    assert split_r_hat(alike) == pytest.approx(1.0, abs=0.02)
    apart = alike + np.array([0.0, 3.0])[:, None, None] * [0, 0, 1]
    assert split_r_hat(apart) > 1.5
