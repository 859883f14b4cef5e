"""The full model as statistics: coverage, horizons of new tasks,
and data drawn from the very density that is fitted.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit

from coverage_study import full_coverage
from full_designs import (
    FullTruth,
    draw_full_design,
    full_prior_truth,
    full_usual_truth,
)
from tidegauge.engine.config import SamplerConfig
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.density.buffer import pack_data
from tidegauge.horizon.density.joint import log_density
from tidegauge.horizon.horizons.estimate import estimate_of_fit
from tidegauge.horizon.model.options import CORE, DEFAULT_PRIORS, FULL, HorizonOptions
from tidegauge.horizon.model.parameters import BLOCKS, is_log, layout_of
from tidegauge.horizon.result import HorizonFit
from tidegauge.horizon.sampler.fit import fit_horizon

SIZES = {"n_agents": 4, "n_tasks": 30, "n_families": 15}
QUICK = SamplerConfig(draws=400, tune=300, chains=2, cores=1)


def test_intervals_cover_typical_and_marginal_horizons() -> None:
    for kind, coverages in full_coverage(FULL, 12).items():
        for found in coverages:
            assert found.is_nominal, (kind, found)


@pytest.fixture(scope="module")
def sharp_fit() -> HorizonFit:
    options = HorizonOptions(residual="family", noise="student_t", discrimination=True)
    rng = np.random.default_rng(11)
    truth = full_usual_truth(rng, options=options, **SIZES)
    return fit_horizon(draw_full_design(truth, rng), options=options, sampler=QUICK, patient=False)


@pytest.mark.parametrize("success", [0.2, 0.5, 0.8, 0.95])
def test_marginal_horizons_against_simulated_new_tasks(
    sharp_fit: HorizonFit, success: float
) -> None:
    """At the marginal horizon of a draw, new tasks drawn with it are solved at that rate."""
    log2 = estimate_of_fit(sharp_fit).log2_horizons(success)
    point, rng, n_new = sharp_fit.point.flat(), np.random.default_rng(12), 100_000
    assert point.sigma_residual_family is not None
    assert point.sigma_residual_task is not None
    assert point.sigma_discrimination is not None
    scores = []
    for draw in range(0, log2.shape[0], log2.shape[0] // 12):
        family = rng.normal(0, point.sigma_residual_family[draw], n_new)
        residual = rng.normal(family, point.sigma_residual_task[draw])
        sharpness = np.exp(rng.normal(0, point.sigma_discrimination[draw], n_new))
        for a in range(SIZES["n_agents"]):
            length = log2[draw, a] + residual
            rates = expit(sharpness * (point.alpha[draw, a] + point.beta[draw, a] * length))
            scores.append((rates.mean() - success) / (rates.std() / np.sqrt(n_new)))
    # A dozen draws (agents of one share their new tasks): standard normals.
    assert np.abs(scores).max() < 4


def unconstrained(truth: FullTruth, design: Design) -> np.ndarray:
    """The truth as the vector that the compiled density takes."""
    layout = layout_of(design, truth.options)
    x = np.full(layout.size, np.nan)
    for block, name in enumerate(BLOCKS):
        if layout.has(block):
            value = np.asarray(truth.values[name])
            if name == "trend_kink":
                value = logit((value - layout.first_year) / (layout.last_year - layout.first_year))
            elif name == "beta" or is_log(name):
                value = np.log(np.abs(value))
            x[layout.place(block)] = value
    return x


@pytest.mark.parametrize(
    "options",
    [
        HorizonOptions(residual="family", discrimination=True, estimate_bias=True),
        HorizonOptions(noise="student_t", human_scale="source", failures="censor", rounding=True),
        HorizonOptions(noise="weibull", noise_growth=True, rounding=True, failures="censor"),
        HorizonOptions(pooling="lab", trend="linear", human_prior="half_normal_2"),
        HorizonOptions(pooling="all", trend="quadratic"),
        HorizonOptions(trend="kink", human_prior="half_cauchy_1"),
        HorizonOptions(trend="logistic", residual="task"),
        HorizonOptions(lapses=True, logit_prior="mean_task"),
        replace(FULL, lapses=True),
        replace(FULL, trend="linear", discrimination=True),
    ],
    ids=lambda options: " ".join(options.changed),
)
def test_slopes_of_the_density_average_to_zero_over_truths_and_data(
    options: HorizonOptions,
) -> None:
    """An identity of any density: it fails where data are not drawn from what is fitted."""
    slopes = []
    for seed in range(400):
        rng = np.random.default_rng([21, seed])
        truth = full_prior_truth(rng, options=options, n_agents=3, n_tasks=6, n_families=3)
        design = draw_full_design(truth, rng, runs_per_cell=3, human_runs=2)
        x = unconstrained(truth, design)
        gradient = np.empty(x.size)
        assert np.isfinite(log_density(x, gradient, pack_data(design, DEFAULT_PRIORS, options)))
        slopes.append(gradient)
    scores = np.mean(slopes, axis=0) / (np.std(slopes, axis=0) / np.sqrt(len(slopes)))
    assert np.abs(scores).max() < 4.5  # some thirty slopes


def test_agents_of_a_lab_that_lie_close_together_with_flat_curves_are_no_neck() -> None:
    rng = np.random.default_rng(4)
    options = replace(CORE, residual="task", pooling="lab")
    labs_apart = {"sigma_horizon": 0.15, "sigma_group_horizon": 2.5}
    flat = {"mu_slope": math.log(0.25), "sigma_slope": 0.6}
    sizes = {"n_agents": 9, "n_tasks": 30, "n_families": 10}
    truth = full_usual_truth(rng, options=options, **sizes, **labs_apart, **flat)
    design = draw_full_design(truth, rng, runs_per_cell=4)
    sampler = SamplerConfig(draws=500, tune=500, chains=4, seed=1)
    fit = fit_horizon(design, options=options, sampler=sampler, patient=False)
    # Where each agent finds its lab by itself, one draw in twenty diverges.
    assert fit.diagnosis.divergences < 0.01 * 4 * 500


@pytest.mark.parametrize("shape", ["linear", "kink"])
def test_agents_close_to_a_trend_are_no_neck(shape: str) -> None:
    """Agents drawn to a trend that stands still, not to that of the moment, diverge here."""
    rng, options = np.random.default_rng(3), replace(FULL, trend=shape)
    sizes = {"n_agents": 8, "n_tasks": 22, "n_families": 8}
    truth = full_usual_truth(rng, options=options, **sizes, sigma_horizon=0.05)
    design = draw_full_design(truth, rng)
    sampler = SamplerConfig(draws=500, tune=500, chains=4, target_accept=0.95, seed=1)
    fit = fit_horizon(design, options=options, sampler=sampler, patient=False)
    assert fit.diagnosis.divergences == 0
    # The prior has a tenth of its mass below 0.38; data this close to a trend leave it there.
    assert fit.point.sigma_horizon is not None
    assert np.quantile(fit.point.sigma_horizon, 0.01) < 0.1
