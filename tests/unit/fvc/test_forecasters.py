"""Every forecaster keeps the protocol: sorted draws, repeatable, restored exactly, no leaks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tidegauge.fvc.data.cohort import Cohort, Questions
from tidegauge.fvc.forecasters import DRAWS
from tidegauge.fvc.forecasters.carry import Carry
from tidegauge.fvc.forecasters.direct import Direct, _design, _loss
from tidegauge.fvc.forecasters.linear import Linear
from tidegauge.fvc.selection import FORECASTERS

NAMES = list(FORECASTERS)


def with_some_features(cohort: Cohort) -> Cohort:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(cohort.n_patients, 3)) * [1, 50, 0]
    features[::7] = np.nan
    return cohort.with_features(features, ("a", "b", "constant"))


@pytest.fixture(scope="module")
def fits(cohort: Cohort) -> dict[str, object]:
    data = with_some_features(cohort)
    return {name: FORECASTERS[name].fit(data, seed=4) for name in NAMES}


@pytest.fixture(scope="module")
def questions() -> Questions:
    return Questions(np.array([3, 0, 0, 5, 3]), np.array([-6.0, 0.0, 40.0, 130.0, 55.0]))


@pytest.mark.parametrize("name", NAMES)
def test_draws_are_sorted_finite_and_of_the_agreed_number(name, cohort, fits, questions) -> None:
    draws = fits[name].forecast(with_some_features(cohort).baselines, questions)
    assert draws.shape == (len(questions), DRAWS)
    assert np.isfinite(draws).all()
    assert (np.diff(draws, axis=1) >= 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_gives_the_same_fit(name, cohort, fits, questions) -> None:
    data = with_some_features(cohort)
    again = FORECASTERS[name].fit(data, seed=4)
    np.testing.assert_array_equal(
        again.forecast(data.baselines, questions),
        fits[name].forecast(data.baselines, questions),
    )


@pytest.mark.parametrize("name", NAMES)
def test_restored_state_forecasts_the_same(name, cohort, fits, questions) -> None:
    baselines = with_some_features(cohort).baselines
    restored = FORECASTERS[name].restore(fits[name].state())
    np.testing.assert_array_equal(
        restored.forecast(baselines, questions), fits[name].forecast(baselines, questions)
    )


@pytest.mark.parametrize("name", NAMES)
def test_forecast_of_a_patient_does_not_depend_on_who_else_is_asked_about(
    name, cohort, fits, questions
) -> None:
    baselines = with_some_features(cohort).baselines
    together = fits[name].forecast(baselines, questions)
    alone = fits[name].forecast(
        baselines.take(np.array([3])), Questions(np.zeros(1, dtype=int), np.array([55.0]))
    )
    np.testing.assert_allclose(alone[0], together[4], rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_one_patient_with_one_later_visit_is_enough_to_fit(name, cohort) -> None:
    one = with_some_features(cohort).take(np.array([0]))
    rows = np.flatnonzero(one.gap_weeks <= one.gap_weeks[1])
    tiny = replace(
        one,
        patient=one.patient[rows],
        gap_weeks=one.gap_weeks[rows],
        fvc_ml=one.fvc_ml[rows],
        first=one.first[rows],
    )
    fitted = FORECASTERS[name].fit(tiny, seed=1)
    draws = fitted.forecast(tiny.baselines, Questions(np.array([0]), np.array([40.0])))
    assert np.isfinite(draws).all()
    assert abs(np.median(draws) - tiny.baselines.fvc_ml[0]) < 1000


def test_carry_confidence_is_root_two_times_the_mean_error(cohort) -> None:
    rows = cohort.scored()
    errors = cohort.fvc_ml[rows] - cohort.baselines.fvc_ml[cohort.patient[rows]]
    expected = np.sqrt(2) * np.minimum(np.abs(errors), 1000).mean()
    assert Carry().fit(cohort, seed=1).confidence_ml == pytest.approx(expected)


def test_linear_recovers_an_exact_line(cohort) -> None:
    base = cohort.baselines.fvc_ml[cohort.patient]
    straight = replace(cohort, fvc_ml=base - 30.0 - 2.5 * cohort.gap_weeks)
    fitted = Linear().fit(straight, seed=1)
    assert fitted.slope_ml_per_week == pytest.approx(-2.5)
    assert fitted.offset_ml == pytest.approx(-30.0)
    assert fitted.confidence_ml == 70.0


def test_direct_gradient_agrees_with_finite_differences(cohort) -> None:
    data = with_some_features(cohort)
    fitted = Direct("d", scans=True).fit(data, seed=1)
    rows = data.scored()
    columns = (fitted.shift_columns, fitted.spread_columns)
    design = _design(data.baselines, data.questions(rows), columns, fitted.scaling)
    at = np.concatenate([fitted.line, fitted.shift, fitted.spread]) + 0.1
    ridge = np.full(len(at), 0.01)
    arguments = (design, data.fvc_ml[rows], ridge, np.zeros_like(at))
    _, gradient = _loss(at, *arguments)
    for k in range(len(at)):
        step = np.zeros_like(at)
        step[k] = 1e-5
        slope = (_loss(at + step, *arguments)[0] - _loss(at - step, *arguments)[0]) / 2e-5
        assert gradient[k] == pytest.approx(slope, abs=1e-5)


def test_direct_fit_is_not_improved_by_nearby_numbers(cohort) -> None:
    fitted = Direct().fit(cohort, seed=1)
    rows = cohort.scored()
    columns = (fitted.shift_columns, fitted.spread_columns)
    design = _design(
        cohort.without_features().baselines, cohort.questions(rows), columns, fitted.scaling
    )
    at = np.concatenate([fitted.line, fitted.shift, fitted.spread])
    centre = np.array([-1.3, -0.7, 0, 0, 0, 0])
    ridge = np.array([0.3 / len(rows)] * 4 + [0.01, 0.01])
    best = _loss(at, design, cohort.fvc_ml[rows], ridge, centre)[0]
    rng = np.random.default_rng(2)
    for _ in range(200):
        away = at + rng.normal(size=len(at)) * rng.choice([0.01, 0.1, 0.5])
        assert _loss(away, design, cohort.fvc_ml[rows], ridge, centre)[0] >= best - 1e-4
