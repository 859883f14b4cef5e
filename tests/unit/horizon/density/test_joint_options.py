"""Every option's block of the fused density against its PyMC twin, and in round coordinates."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.stats import t as student_t

from density_checks import check_against_pymc, numerical_jacobian
from designs import draw_design, usual_truth
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.density.buffer import pack_data
from tidegauge.horizon.density.human_noise import (
    digamma,
    interval_terms,
    noise_constant,
    survival_terms,
)
from tidegauge.horizon.density.joint import log_density
from tidegauge.horizon.model.human_noise import NORMAL, STUDENT_T, WEIBULL
from tidegauge.horizon.model.options import DEFAULT_PRIORS, FULL, HorizonOptions
from tidegauge.horizon.model.parameters import BLOCKS, layout_of
from tidegauge.horizon.sampler.coordinates import whitened_log_density
from tidegauge.horizon.sampler.expansion import reference_at
from tidegauge.horizon.sampler.target import (
    start_point,
    start_reference,
    to_centred,
    whitened_density,
)

VARIANTS = {
    "residual of tasks": HorizonOptions(residual="task"),
    "residual and 2PL": HorizonOptions(residual="family", discrimination=True),
    "student-t per source, rounded, censored": HorizonOptions(
        noise="student_t", human_scale="source", rounding=True, failures="censor"
    ),
    "weibull, growing, censored": HorizonOptions(
        noise="weibull", noise_growth=True, failures="censor", human_prior="half_cauchy_1"
    ),
    "weibull, rounded": HorizonOptions(noise="weibull", rounding=True),
    "normal, growing, rounded": HorizonOptions(
        noise_growth=True, rounding=True, human_prior="half_normal_2"
    ),
    "biased estimates, continuous scores": HorizonOptions(estimate_bias=True, scores="continuous"),
    "beta-binomial": HorizonOptions(cells="beta_binomial"),
    "lapses": HorizonOptions(lapses=True),
    "lapses, beta-binomial, 2PL": HorizonOptions(
        lapses=True, cells="beta_binomial", residual="task", discrimination=True
    ),
    "logit at the mean task, pooled slopes": HorizonOptions(
        logit_prior="mean_task", slopes="pooled", estimate_prior="log_normal_1.8"
    ),
    "full": FULL,
    "full on a kink": dataclasses.replace(FULL, trend="kink", lapses=True),
    "full by labs": dataclasses.replace(FULL, pooling="lab"),
    "pooled": HorizonOptions(pooling="all"),
    "labs on a line": HorizonOptions(pooling="lab", trend="linear"),
    "quadratic": HorizonOptions(trend="quadratic"),
    "kink": HorizonOptions(trend="kink", residual="family"),
    "families on a logistic": HorizonOptions(trend="logistic", pooling="family"),
}


@pytest.fixture(scope="module")
def design() -> Design:
    """Two sources, whole and broken minutes, failures, graded runs, one agent without a date."""
    rng = np.random.default_rng(3)
    drawn = draw_design(usual_truth(rng, n_agents=5, n_tasks=12, n_families=4), rng, failed=7)
    drawn.attempts[1, 2:5] = drawn.successes[1, 2:5] = 0
    minutes = np.exp2(drawn.run_log2)
    minutes[::2] = np.maximum(np.floor(minutes[::2]), 1)
    return dataclasses.replace(
        drawn,
        agents=("gpt 1", "claude 2", "stranger", "claude 4", "o1"),
        task_source=tuple("SWAA" if t % 3 == 0 else "HCAST" for t in range(12)),
        run_log2=np.log2(minutes),
        score_sum=drawn.successes * 0.75 + 0.1 * (drawn.attempts > 0),
        agent_years=np.array([-2.0, -0.5, np.nan, 1.0, 1.5]),
    )


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_value_and_gradient_equal_the_pymc_twin(design: Design, options: HorizonOptions) -> None:
    check_against_pymc(design, options)


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_round_coordinates_are_an_exact_change_of_variables(
    design: Design, options: HorizonOptions
) -> None:
    reference = start_reference(design, DEFAULT_PRIORS, options)
    density = whitened_density(design, DEFAULT_PRIORS, options, reference)
    data, z = pack_data(design, DEFAULT_PRIORS, options), density.initial(1)
    x = to_centred(density, z)
    jacobian = numerical_jacobian(lambda v: to_centred(density, v), z)
    gradient = np.empty(z.size)
    value = whitened_log_density(z, gradient, density.data)
    expected = log_density(x, np.empty(x.size), data) + np.linalg.slogdet(jacobian)[1]
    np.testing.assert_allclose(value, expected, rtol=1e-7)
    slopes = numerical_jacobian(
        lambda v: np.array([whitened_log_density(v, np.empty(v.size), density.data)]), z
    )[0]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("log_scale", [-30.0, 30.0])
@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_a_scale_that_vanished_or_ran_away_still_shapes_coordinates(
    design: Design, options: HorizonOptions, log_scale: float
) -> None:
    layout = layout_of(design, options)
    scales = [b for b, name in enumerate(BLOCKS) if name.startswith("sigma_") and layout.has(b)]
    for block in scales:
        x = start_point(design, DEFAULT_PRIORS, options)
        x[layout.place(block)] = log_scale
        expansion = reference_at(design, DEFAULT_PRIORS, options, x).expansion
        for name, part in expansion.sections().items():
            assert np.isfinite(part).all(), (BLOCKS[block], name)


@pytest.mark.parametrize("nu", [1.01, 1.5, 4.0, 30.0, 300.0])
@pytest.mark.parametrize("e", [-3.0, 0.2, 2.0, 10.0, 50.0])
def test_student_survival_against_scipy(nu: float, e: float) -> None:
    value, hazard, by_nu = survival_terms(e, STUDENT_T, nu, noise_constant(STUDENT_T, nu))
    step = 1e-4 * nu
    ahead, behind = student_t.logsf(e, nu + step), student_t.logsf(e, nu - step)
    np.testing.assert_allclose(value, student_t.logsf(e, nu), rtol=1e-9)
    np.testing.assert_allclose(hazard, student_t.pdf(e, nu) / student_t.sf(e, nu), rtol=1e-8)
    # Central differences with a step of 1e-4 are good to about 1e-7.
    np.testing.assert_allclose(by_nu, (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("kind", [NORMAL, STUDENT_T, WEIBULL])
@pytest.mark.parametrize("ends", [(0.0, 1.0), (-0.3, 0.1), (3.0, 4.4), (-9.0, -5.0), (-40.0, 40.0)])
def test_interval_is_the_difference_of_survivals(kind: float, ends: tuple[float, float]) -> None:
    nu, (low, high) = 4.0, ends
    constants = noise_constant(kind, nu)
    value = interval_terms(low, high, 0.0, 1.0, kind, nu, constants)[0]
    before = survival_terms(low, kind, nu, constants)[0]
    after = survival_terms(high, kind, nu, constants)[0]
    if low < -1 and kind != WEIBULL:  # by symmetry, from the tail where nothing cancels
        before = survival_terms(-high, kind, nu, constants)[0]
        after = survival_terms(-low, kind, nu, constants)[0]
    np.testing.assert_allclose(value, before + np.log1p(-np.exp(after - before)), atol=1e-7)


def test_digamma_at_known_values() -> None:
    euler = 0.5772156649015329
    np.testing.assert_allclose(digamma(1.0), -euler, rtol=1e-12)
    np.testing.assert_allclose(digamma(0.5), -euler - 2 * np.log(2), rtol=1e-12)
