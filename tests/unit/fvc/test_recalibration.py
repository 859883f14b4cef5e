"""Recalibration undoes a known fault of a forecaster, and a stack finds the better member."""

from __future__ import annotations

import numpy as np
import pytest

from tidegauge.arrays import FloatArray
from tidegauge.fvc.data.cohort import Cohort, Questions
from tidegauge.fvc.forecasters import laplace_draws
from tidegauge.fvc.forecasters.stack import blend_draws, fit_stack
from tidegauge.fvc.recalibration import Calibration, fit_calibration


@pytest.fixture
def asked(cohort: Cohort) -> Questions:
    rng = np.random.default_rng(3)
    return Questions(rng.integers(0, cohort.n_patients, 3000), rng.uniform(20, 56, 3000))


def truths(cohort: Cohort, asked: Questions, confidence: FloatArray) -> FloatArray:
    noise = np.random.default_rng(4).laplace(size=len(asked)) * confidence / np.sqrt(2)
    return cohort.baselines.fvc_ml[asked.patient] + noise


def test_overconfident_draws_are_widened_to_cover(cohort: Cohort, asked: Questions) -> None:
    median = cohort.baselines.fvc_ml[asked.patient]
    true_ml = truths(cohort, asked, np.full(len(asked), 250.0))
    draws = laplace_draws(median, np.full(len(asked), 125.0))
    fitted = fit_calibration(draws, true_ml, cohort.baselines, asked)
    assert fitted.widen == pytest.approx(np.log(2), abs=0.06)
    assert fitted.widen_by_gap == pytest.approx(0, abs=0.06)
    wide = fitted.apply(draws, cohort.baselines, asked)
    inside = np.abs((wide < true_ml[:, None]).mean(axis=1) - 0.5) < 0.4
    assert inside.mean() == pytest.approx(0.8, abs=0.03)


def test_width_that_should_grow_with_the_gap_grows(cohort: Cohort, asked: Questions) -> None:
    u = (asked.gap_weeks - 38) / 20
    true_ml = truths(cohort, asked, 200 * np.exp(0.5 * u))
    draws = laplace_draws(cohort.baselines.fvc_ml[asked.patient], np.full(len(asked), 200.0))
    fitted = fit_calibration(draws, true_ml, cohort.baselines, asked)
    assert fitted.widen_by_gap == pytest.approx(0.5, abs=0.12)


def test_bias_that_grows_with_time_is_shifted_away(cohort: Cohort, asked: Questions) -> None:
    unit = 100 * np.sqrt(cohort.baselines.fvc_ml[asked.patient] / 2700)
    true_ml = truths(cohort, asked, np.full(len(asked), 100.0)) - unit * asked.gap_weeks / 38
    draws = laplace_draws(cohort.baselines.fvc_ml[asked.patient], np.full(len(asked), 200.0))
    fitted = fit_calibration(draws, true_ml, cohort.baselines, asked)
    assert fitted.shift == pytest.approx(-1.0, abs=0.05)


def test_no_visits_leave_draws_as_they_are(cohort: Cohort) -> None:
    nobody = Questions(np.empty(0, dtype=int), np.empty(0))
    assert fit_calibration(np.empty((0, 100)), np.empty(0), cohort.baselines, nobody) == (
        Calibration()
    )


def test_stack_gives_all_weight_to_the_only_good_member() -> None:
    rng = np.random.default_rng(1)
    true_ml = rng.normal(2500, 400, 600)
    good = laplace_draws(true_ml + rng.laplace(0, 60, 600), np.full(600, 90.0))
    bad = laplace_draws(rng.normal(2500, 400, 600), np.full(600, 600.0))
    stack = fit_stack([bad, good], true_ml, np.arange(600) % 5)
    assert stack.weights == (0.0, 1.0)
    np.testing.assert_array_equal(stack.unseen_draws, good)


def test_stack_of_equals_is_equal() -> None:
    true_ml = np.random.default_rng(2).normal(2500, 300, 200)
    draws = laplace_draws(np.full(200, 2500.0), np.full(200, 400.0))
    assert fit_stack([draws, draws], true_ml, np.arange(200) % 5).weights == (0.5, 0.5)


def test_blend_averages_quantiles() -> None:
    low = laplace_draws(np.array([1000.0]), np.array([100.0]))
    high = laplace_draws(np.array([2000.0]), np.array([300.0]))
    expected = laplace_draws(np.array([1500.0]), np.array([200.0]))
    np.testing.assert_allclose(blend_draws([low, high], (0.5, 0.5)), expected)
