"""Forecasts from several visits against numerical integration, and what they are worth."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from tidegauge.arrays import FloatArray
from tidegauge.errors import InputError
from tidegauge.fvc import selection
from tidegauge.fvc.data.cohort import Baselines, Cohort, Questions, Visits
from tidegauge.fvc.data.covariates import FeatureScaling
from tidegauge.fvc.followup import FollowUp, _summary, crossval_visits, forecast_from_visits
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


@dataclass(frozen=True)
class Sharp(HierarchicalFit):
    """Forecasts from later visits are narrower by `factor` than they may be."""

    factor: float = 1.0

    def forecast(
        self, baselines: Baselines, questions: Questions, seen: Visits | None = None
    ) -> FloatArray:
        draws = HierarchicalFit.forecast(self, baselines, questions, seen)
        if seen is None or len(seen) == 0:
            return draws
        median = np.median(draws, axis=1, keepdims=True)
        return median + (draws - median) / self.factor


class Known:
    """A forecaster whose population is known: it fits nothing."""

    def __init__(self, fitted: HierarchicalFit) -> None:
        self.fitted = fitted

    def fit(self, cohort: Cohort, *, seed: int) -> HierarchicalFit:
        return self.fitted


def test_widths_are_learnt_on_forecasts_from_as_many_visits(
    fitted: HierarchicalFit, cohort: Cohort, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = []
    state = {field.name: getattr(fitted, field.name) for field in fields(fitted)}
    for factor in (1.0, 2.0):
        known = Known(Sharp(**state, factor=factor))
        monkeypatch.setitem(selection.FORECASTERS, "hierarchical", known)
        panel = selection.fit_panel(cohort, seed=1, names=("hierarchical",), visits=3)
        members += panel.blends["hierarchical"].members
    right, sharp = members
    assert sharp.calibration == right.calibration
    assert len(right.by_visits) == len(sharp.by_visits) == 2
    for before, after in zip(right.by_visits, sharp.by_visits, strict=True):
        # The ridge takes 2 * 0.002 of each unit of widening, against a curvature of about 1.
        assert after.widen - before.widen == pytest.approx(np.log(2), abs=0.01)
        assert after.shift == pytest.approx(before.shift, abs=0.01)


def test_a_forecast_is_as_wide_as_its_number_of_visits_asks(
    fitted: HierarchicalFit, cohort: Cohort
) -> None:
    three = cohort.take(np.array([0, 1, 2]))
    later = three.later_visits()
    place = np.concatenate([np.arange(n) for n in np.bincount(later.patient)])
    rows = np.flatnonzero(place < np.array([1, 2, 5])[later.patient])
    seen = Visits(later.patient[rows], later.gap_weeks[rows], later.fvc_ml[rows])
    asked = Questions(np.arange(3), np.full(3, 40.0))
    wider = tuple(Calibration(widen=np.log(k)) for k in (2, 3))
    plain, recalibrated = (
        forecast_from_visits(
            Member("hierarchical", fitted, Calibration(), by_visits), three.baselines, asked, seen
        )
        for by_visits in ((), wider)
    )
    np.testing.assert_allclose(np.ptp(recalibrated, axis=1) / np.ptp(plain, axis=1), [2, 3, 3])


def test_visits_that_are_seen_do_not_score(cohort: Cohort) -> None:
    assert set(cohort.scored(7)) < set(cohort.scored())
    for patient in range(cohort.n_patients):
        later = np.flatnonzero((cohort.patient == patient) & ~cohort.first)
        scored = cohort.scored(7)
        np.testing.assert_array_equal(
            scored[cohort.patient[scored] == patient], later[max(len(later) - 3, 6) :]
        )


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


def test_errors_of_coverage_are_over_patients() -> None:
    """Three visits of a patient that are all in or all out count once."""
    patient = np.repeat(np.arange(40), 3)
    frame = pd.DataFrame(
        {
            "visits": 1,
            "patient": patient,
            "score": 0.0,
            "error_ml": 0.0,
            "pit": np.where(patient % 4 == 0, 0.999, 0.5),
        }
    )
    row = _summary(frame).iloc[0]
    assert row["coverage_80%"] == 0.75
    assert row["coverage_80%_se"] == pytest.approx(np.sqrt(0.75 * 0.25 / 39))


def test_too_few_patients_with_enough_visits_are_named(cohort: Cohort) -> None:
    with pytest.raises(InputError, match="0 patients have 23 visits"):
        crossval_visits(replace(cohort), most=20)
