"""Forecasts from several visits against numerical integration, and what they are worth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student

from tidegauge.errors import InputError
from tidegauge.fvc.data.cohort import Cohort, Questions, Visits
from tidegauge.fvc.data.covariates import FeatureScaling
from tidegauge.fvc.followup import FollowUp, crossval_visits
from tidegauge.fvc.forecasters.hierarchical import KEPT_DRAWS, HierarchicalFit
from tidegauge.fvc.forecasters.stack import Blend, Member
from tidegauge.fvc.model.design import SCALARS, TIME_WEEKS, design_patients
from tidegauge.fvc.recalibration import Calibration

POPULATION = {
    "level_mean": 27.0,
    "level_expected": 5.0,
    "log_level_sd": np.log(6.0),
    "slope_mean": -1.5,
    "log_effect_sd": -3.0,
    "log_slope_sd": np.log(1.6),
    "log_sigma": np.log(1.0),
    "growth": 0.0,
    "log_nu": np.log(4.0),
    "log_nu_slope": np.log(4.0),
}


@pytest.fixture(scope="module")
def fitted() -> HierarchicalFit:
    """A population known exactly: every draw is the same."""
    from scipy.stats import qmc

    scalars = np.tile([POPULATION[name] for name in SCALARS], (KEPT_DRAWS, 1))
    uniforms = qmc.LatinHypercube(4, rng=np.random.default_rng(3)).random(KEPT_DRAWS)
    scaling = FeatureScaling(np.empty(0), np.empty(0))
    columns = np.arange(8)
    return HierarchicalFit(scalars, np.zeros((KEPT_DRAWS, 8)), uniforms, columns, scaling)


def exact_mean_ml(cohort: Cohort, seen: Visits, gap_weeks: float) -> float:
    """Integrate level and slope of the first patient on a grid."""
    one = design_patients(cohort.baselines, np.arange(8), FeatureScaling(np.empty(0), np.empty(0)))
    level, slope = np.meshgrid(np.linspace(-8, 8, 401), np.linspace(-12, 12, 601), indexing="ij")
    typical = POPULATION["level_mean"] + POPULATION["level_expected"] * one.expected[0]
    centre = typical * one.centre[0] - one.observed[0]
    log_p = -0.5 * ((level - centre) / (6.0 * one.centre[0])) ** 2
    log_p += student.logpdf((slope + 1.5) / 1.6, 5.0)
    log_p += student.logpdf(-level, 5.0)  # the first visit itself
    for gap, fvc_ml in zip(seen.gap_weeks, seen.fvc_ml, strict=True):
        change = (fvc_ml - cohort.baselines.fvc_ml[0]) / one.unit_ml[0]
        log_p += student.logpdf(change - level - slope * gap / TIME_WEEKS, 5.0)
    p = np.exp(log_p - log_p.max())
    change = (p * (level + slope * gap_weeks / TIME_WEEKS)).sum() / p.sum()
    return float(cohort.baselines.fvc_ml[0] + one.unit_ml[0] * change)


@pytest.mark.parametrize("fall_ml", [0.0, 300.0, 600.0])
def test_conditioning_on_visits_against_numerical_integration(
    fitted: HierarchicalFit, cohort: Cohort, fall_ml: float
) -> None:
    one = cohort.take(np.array([0]))
    first_ml = one.baselines.fvc_ml[0]
    gaps = np.array([10.0, 20.0, 30.0])
    seen = Visits(np.zeros(3, dtype=np.int64), gaps, first_ml - fall_ml * gaps / 52)
    asked = Questions(np.zeros(1, dtype=np.int64), np.array([52.0]))
    draws = fitted.forecast(one.baselines, asked, seen)
    # Importance resampling of 16,000 candidates; a tenth of them effective gives 1,600 draws.
    error_ml = 4 * draws.std() / np.sqrt(1600)
    assert draws.mean() == pytest.approx(exact_mean_ml(one, seen, 52.0), abs=error_ml)
    alone = fitted.forecast(one.baselines, asked)
    assert np.ptp(np.quantile(draws, [0.1, 0.9])) < np.ptp(np.quantile(alone, [0.1, 0.9]))


def test_a_patient_seen_once_is_forecast_as_before(fitted: HierarchicalFit, cohort: Cohort) -> None:
    two = cohort.take(np.array([0, 1]))
    blend = Blend((Member("hierarchical", fitted, Calibration(widen=0.3)),), (1.0,))
    later = two.later_visits()
    only_second = Visits(*(field[later.patient == 1] for field in (
        later.patient, later.gap_weeks, later.fvc_ml)))  # fmt: skip
    asked = Questions(np.array([0, 1]), np.array([40.0, 40.0]))
    before = blend.forecast(two.baselines, asked)
    after = FollowUp(blend, blend, only_second).forecast(two.baselines, asked)
    np.testing.assert_array_equal(after[0], before[0])
    assert not np.allclose(after[1], before[1])


def test_earliest_later_visits_are_taken(cohort: Cohort) -> None:
    some = cohort.later_visits(2)
    counts = np.bincount(some.patient, minlength=cohort.n_patients)
    n_later = np.bincount(cohort.patient[~cohort.first], minlength=cohort.n_patients)
    np.testing.assert_array_equal(counts, np.minimum(n_later, 2))
    every = cohort.later_visits()
    for patient in range(5):
        mine = every.gap_weeks[every.patient == patient]
        np.testing.assert_array_equal(some.gap_weeks[some.patient == patient], mine[:2])
    assert len(cohort.later_visits(0)) == 0


def test_more_visits_forecast_better_on_simulated_patients(cohort: Cohort) -> None:
    table = crossval_visits(cohort, most=3, repeats=1, folds=3, workers=1).set_index("visits")
    assert list(table.index) == [1, 2, 3]
    assert table["mean_error_ml"][3] < table["mean_error_ml"][1]
    assert table["gain"][1] == 0


def test_too_few_patients_with_enough_visits_are_named(cohort: Cohort) -> None:
    with pytest.raises(InputError, match="0 patients have 23 visits"):
        crossval_visits(replace(cohort), most=20)
