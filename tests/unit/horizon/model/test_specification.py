"""The PyMC specification of every option against the same joint density written with SciPy."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

from density_checks import PLAIN
from designs import draw_design, usual_truth
from joint_density import log_joint
from tidegauge.engine.priors import half_cauchy
from tidegauge.errors import InputError
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.model.options import DEFAULT_PRIORS, FULL, HorizonOptions
from tidegauge.horizon.model.specification import build_model, model_graph
from tidegauge.horizon.model.specification_noise import (
    Noise,
    NormalNoise,
    StudentNoise,
    WeibullNoise,
)

CASES: list[dict[str, Any]] = [
    {},
    {"residual": "task"},
    {"residual": "family"},
    {"noise": "student_t"},
    {"noise": "weibull"},
    {"human_scale": "source"},
    {"human_prior": "half_normal_2"},
    {"human_prior": "half_cauchy_1"},
    {"noise_growth": True},
    {"rounding": True},
    {"failures": "censor"},
    {"estimate_bias": True},
    {"estimate_prior": "log_normal_1.8"},
    {"discrimination": True},
    {"cells": "beta_binomial"},
    {"lapses": True},
    {"lapses": True, "cells": "beta_binomial"},
    {"logit_prior": "mean_task"},
    {"slopes": "pooled"},
    {"slopes": "pooled", "trend": "linear", "logit_prior": "mean_task"},
    FULL.changed,
    {"pooling": "all"},
    {"pooling": "lab"},
    {"pooling": "family"},
    {"scores": "re_bench"},
    {"scores": "continuous"},
    {"trend": "linear"},
    {"trend": "quadratic"},
    {"trend": "kink"},
    {"trend": "logistic"},
    {"noise": "student_t", "rounding": True, "failures": "censor", "noise_growth": True},
    {"noise": "weibull", "rounding": True, "failures": "censor", "human_scale": "source"},
    {"residual": "family", "discrimination": True, "pooling": "lab", "trend": "kink"},
]


def named(case: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in case.items()) or "core"


@pytest.fixture(scope="module")
def design() -> Design:
    """Three sources, whole and odd minutes, fractional scores, two labs, one agent undated."""
    rng = np.random.default_rng(3)
    drawn = draw_design(usual_truth(rng, n_agents=4, n_tasks=12, n_families=4), rng, failed=7)
    minutes = 2.0**drawn.run_log2
    minutes[::2] = np.maximum(np.round(minutes[::2]), 1)
    drawn.attempts[1, 2:5] = drawn.successes[1, 2:5] = 0  # some cells were never tried
    share = rng.uniform(0.8, 1, drawn.successes.shape)
    return dataclasses.replace(
        drawn,
        agents=("Claude A", "Claude B", "GPT-4 C", "GPT-4 D"),
        task_source=("HCAST",) * 5 + ("RE-Bench",) * 3 + ("SWAA",) * 4,
        score_sum=drawn.successes * share,
        run_log2=np.log2(minutes),
        agent_years=np.array([-1.5, np.nan, 0.2, 1.3]),
    )


@pytest.mark.parametrize("case", CASES, ids=named)
def test_log_density_equals_the_sum_of_scipy_densities(
    design: Design, case: dict[str, Any]
) -> None:
    options = HorizonOptions(**case)
    model = build_model(design, options=options)
    log_terms, to_own_units = _log_terms(model), _own_units(model)
    rng = np.random.default_rng(5)
    start = model.initial_point()
    for scale in (0.1, 0.5, 1.0):
        point = {name: value + rng.normal(0, scale, value.shape) for name, value in start.items()}
        values = to_own_units(point)
        expected = log_joint(design, DEFAULT_PRIORS, options, values)
        np.testing.assert_allclose(log_terms(point), expected, rtol=1e-9)


def test_slopes_are_minus_exp_of_their_unconstrained_value_whatever_their_prior(
    design: Design,
) -> None:
    for case in ({}, {"pooling": "all"}, {"trend": "linear"}):
        model = build_model(design, options=HorizonOptions(**case))
        point = {**model.initial_point(), "beta_interval__": np.log([0.2, 0.5, 1.0, 3.0])}
        np.testing.assert_allclose(_own_units(model)(point)["beta"], [-0.2, -0.5, -1, -3])


def test_a_prior_that_was_given_outlives_the_human_prior_option(design: Design) -> None:
    priors = dataclasses.replace(DEFAULT_PRIORS, sigma_human=half_cauchy(3))
    options = HorizonOptions(human_prior="half_normal_2")
    model = build_model(design, priors=priors, options=options)
    values = _own_units(model)(model.initial_point())
    expected = log_joint(design, priors, options, values)
    np.testing.assert_allclose(_log_terms(model)(model.initial_point()), expected, rtol=1e-9)


def test_graph_shows_what_the_options_add_and_where_it_enters(design: Design) -> None:
    options = HorizonOptions(
        residual="family", noise="student_t", estimate_bias=True, pooling="lab", trend="kink"
    )
    graph = model_graph(build_model(design, options=options))
    edges = set(re.findall(r"^(\w+) --> (\w+)$", graph, re.M))
    assert edges >= {
        ("residual_family", "residual"),
        ("residual", "successes"),
        ("nu_minus_one", "log2_duration"),
        ("delta_estimate", "log2_estimate"),
        ("group_slope", "beta"),
        ("trend_kink", "alpha"),
    }
    weibull = model_graph(build_model(design, options=HorizonOptions(noise="weibull")))
    assert "log2_duration ~ LogWeibull" in weibull


def test_a_trend_needs_two_release_dates(design: Design) -> None:
    undated = dataclasses.replace(design, agent_years=np.array([np.nan, np.nan, 0.0, np.nan]))
    with pytest.raises(InputError, match="at least two release dates"):
        build_model(undated, options=HorizonOptions(trend="linear"))


def _noises() -> list[tuple[Noise, Any]]:
    sd = np.pi / np.sqrt(6)
    return [
        (NormalNoise(), stats.norm()),
        *((StudentNoise(nu=pt.constant(np.float64(nu))), stats.t(nu)) for nu in (1.05, 3, 40)),
        (WeibullNoise(), stats.gumbel_l(np.euler_gamma / sd, 1 / sd)),
    ]


@pytest.mark.parametrize(("noise", "exact"), _noises(), ids=lambda value: type(value).__name__)
def test_survival_and_its_slope_against_scipy_far_into_both_tails(noise: Noise, exact: Any) -> None:
    z = np.array([-30, -8.0, -3, -0.5, -1e-9, 1e-9, 0.5, 2, 2.5, 6, 12])
    at = pt.dvector()
    survival = noise.log_survival(at)
    value, slope = (
        output.eval({at: z}, mode=PLAIN) for output in (survival, pt.grad(survival.sum(), at))
    )
    np.testing.assert_allclose(value, exact.logsf(z), rtol=1e-11, atol=1e-15)
    hazard = np.exp(exact.logpdf(z) - exact.logsf(z))
    np.testing.assert_allclose(-slope, hazard, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("width", [1e-3, 0.3, 2.0])
@pytest.mark.parametrize(("noise", "exact"), _noises(), ids=lambda value: type(value).__name__)
def test_interval_probability_against_scipy(noise: Noise, exact: Any, width: float) -> None:
    low = np.array([-6.0, -1, -0.1, 0.5])
    ours = noise.log_interval(pt.constant(low), pt.constant(low + width)).eval(mode=PLAIN)
    in_tail = [abs(tail(low + width) - tail(low)) for tail in (exact.sf, exact.cdf)]
    np.testing.assert_allclose(ours, np.log(np.where(low > 0, *in_tail)), rtol=1e-9)


def _log_terms(model: pm.Model):  # type: ignore[no-untyped-def]
    """A function from the unconstrained values to the log density, without the Jacobian."""
    terms = model.compile_logp(jacobian=False, sum=False, mode=PLAIN)
    return lambda point: sum(term.sum() for term in terms(point))


def _own_units(model: pm.Model):  # type: ignore[no-untyped-def]
    """A function from the unconstrained values to the parameters by name."""
    outputs = model.replace_rvs_by_values(model.free_RVs)
    function = model.compile_fn(outputs, inputs=model.value_vars, point_fn=True, mode=PLAIN)

    def convert(point: dict[str, Any]) -> dict[str, Any]:
        return dict(zip((v.name for v in model.free_RVs), function(point), strict=True))

    return convert
