"""Simulation-extrapolation: what it estimates by hand, and what it repairs on simulated data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from designs import draw_design, usual_truth
from tidegauge.engine.logistic import logistic_ridge
from tidegauge.errors import InputError
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.methods.regression import RegressionOptions, fit_regression
from tidegauge.horizon.methods.simex import (
    ADDED,
    SimexOptions,
    _extrapolation_weights,
    extrapolate,
    fit_simex,
    human_run_sd,
    length_sd,
)


@pytest.fixture
def design() -> Design:
    rng = np.random.default_rng(5)
    truth = usual_truth(rng, n_agents=3, n_tasks=20, n_families=5)
    return draw_design(truth, rng, runs_per_cell=8, human_runs=3)


def test_extrapolation_weights_are_the_least_squares_quadratic_at_minus_one() -> None:
    added = np.array([0.0, *ADDED])
    values = np.random.default_rng(1).normal(size=added.size)
    expected = np.polyval(np.polyfit(added, values, 2), -1)
    assert _extrapolation_weights(added) @ values == pytest.approx(expected, rel=1e-10)


def test_spread_of_runs_is_pooled_within_tasks_by_hand(design: Design) -> None:
    two_tasks = replace(
        design,
        run_task=np.array([0, 0, 1, 1, 1, 2]),
        run_log2=np.array([1.0, 3.0, 5.0, 6.0, 7.0, 100.0]),
    )
    # Squares about the means: 1 + 1, and 1 + 0 + 1; degrees of freedom: 1 + 2; one run tells none.
    assert human_run_sd(two_tasks) == pytest.approx(np.sqrt(4 / 3))
    sd = length_sd(two_tasks, SimexOptions(estimate_sd_log2=2.5))
    one = np.sqrt(4 / 3)
    np.testing.assert_allclose(sd[:3], [one / np.sqrt(2), 2.5 * 0 + one / np.sqrt(3), one])
    np.testing.assert_allclose(sd[3::2], 2.5)  # odd tasks have an estimate only
    np.testing.assert_allclose(length_sd(two_tasks)[3::2], one)  # as good as one run


def test_noise_that_nothing_tells_of_is_an_error_with_a_remedy(design: Design) -> None:
    once = replace(design, run_task=np.array([0, 2]), run_log2=np.array([1.0, 2.0]))
    with pytest.raises(InputError, match="no task has two successful human runs"):
        fit_simex(once, regression=RegressionOptions(replicates=2))
    given = SimexOptions(run_sd_log2=0.5)
    fit = fit_simex(once, regression=RegressionOptions(replicates=2), options=given)
    assert np.isfinite(fit.centre.beta).all()


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"run_sd_log2": -1.0}, "run_sd_log2=-1.0"),
        ({"estimate_sd_log2": np.nan}, "estimate_sd_log2=nan"),
        ({"noises": 1}, "noises=1"),
    ],
)
def test_impossible_options_are_refused(choice: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SimexOptions(**choice)  # type: ignore[arg-type]


def test_lengths_without_noise_give_the_plain_regression(design: Design) -> None:
    regression = RegressionOptions(replicates=3)
    exact = fit_simex(
        design, regression=regression, options=SimexOptions(run_sd_log2=0.0, estimate_sd_log2=0.0)
    )
    plain = fit_regression(design, options=regression)
    np.testing.assert_allclose(exact.centre.beta, plain.centre.beta, rtol=1e-6)
    np.testing.assert_allclose(exact.centre.alpha, plain.centre.alpha, rtol=1e-6)
    np.testing.assert_allclose(exact.beta, plain.beta, rtol=1e-5)


def test_agents_that_never_or_always_succeed_stay_as_the_regression_has_them(
    design: Design,
) -> None:
    successes = design.successes.copy()
    successes[0], successes[1] = 0.0, design.attempts[1]
    fit = fit_simex(
        replace(design, successes=successes), regression=RegressionOptions(replicates=2)
    )
    assert fit.centre.alpha[:2].tolist() == [-np.inf, np.inf]
    assert fit.centre.beta[:2].tolist() == [0, 0]
    assert np.isfinite(fit.centre.beta[2])


def test_simex_removes_most_of_the_attenuation_of_noisy_lengths() -> None:
    """Against the fit at the true lengths, paired over replicates, with its standard error."""
    rng = np.random.default_rng(11)
    n_tasks, n_agents, sd, runs = 120, 6, 1.2, 8
    alpha, beta = np.linspace(2, 5, n_agents), np.full(n_agents, -0.7)
    naive, corrected = [], []
    for _ in range(40):
        x = rng.normal(5, 2.5, n_tasks)
        won = rng.binomial(runs, expit(alpha[:, None] + beta[:, None] * x)).astype(float)
        lost = runs - won
        measured = x + rng.normal(0, sd, n_tasks)
        noise = rng.normal(0, sd, (10, n_tasks))
        true_slope = logistic_ridge(x, won, lost, ridge=1e-5).slope
        plain = logistic_ridge(measured, won, lost, ridge=1e-5).slope
        simex = extrapolate(measured, won, lost, noise=noise, ridge=1e-5).slope
        naive.append(np.mean(plain - true_slope))
        corrected.append(np.mean(simex - true_slope))
    flat, left = np.array(naive), np.array(corrected)

    def z(values: np.ndarray) -> float:
        return float(values.mean() / (values.std(ddof=1) / np.sqrt(values.size)))

    assert z(flat) > 10  # noise flattens the curve: its slope is nearer to zero
    # What simex leaves, on either side, is less than half of that, by four standard errors.
    assert z(flat / 2 - left) > 4
    assert z(flat / 2 + left) > 4
