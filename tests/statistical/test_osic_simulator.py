"""The simulated cohort against aggregates of the public table (158 patients, 1,394 visits)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from tidegauge.schema.osic import SCORED_VISITS
from tidegauge.scores import laplace_log_likelihood
from tidegauge.simulate.osic import SimulatedCohort, simulate_cohort

N_REAL = 158  # the standard errors below are those of the real table's aggregates


@pytest.fixture(scope="module")
def cohort() -> SimulatedCohort:
    return simulate_cohort(n_patients=1500, seed=21)


def last_visits(visits: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Last three visits: FVC, FVC at the first visit, weeks since then."""
    first = visits.groupby("Patient", sort=False).head(1).set_index("Patient")
    last = visits.groupby("Patient", sort=False).tail(SCORED_VISITS)
    base = first.loc[last["Patient"]]
    gap = last["Weeks"].to_numpy() - base["Weeks"].to_numpy()
    return last["FVC"].to_numpy(float), base["FVC"].to_numpy(float), gap.astype(float)


@pytest.mark.parametrize(
    ("name", "mean", "sd"),
    [("FVC", 2741, 798), ("Percent", 79.2, 18.8), ("Age", 67.4, 6.9), ("Weeks", 14.8, 15.5)],
)
def test_first_visits_have_the_published_means_and_sds(
    cohort: SimulatedCohort, name: str, mean: float, sd: float
) -> None:
    first = cohort.visits.groupby("Patient").head(1)[name]
    assert abs(first.mean() - mean) < 3 * sd / np.sqrt(N_REAL)
    assert 0.8 < first.std() / sd < 1.25  # three standard errors of an sd of 158 heavy tails


def test_patients_have_the_published_shares_and_visits(cohort: SimulatedCohort) -> None:
    first = cohort.visits.groupby("Patient").head(1)
    for column, value, share in (
        ("Sex", "Male", 0.797),
        ("SmokingStatus", "Ex-smoker", 0.671),
        ("SmokingStatus", "Never smoked", 0.285),
        ("SmokingStatus", "Currently smokes", 0.044),
    ):
        error = np.sqrt(share * (1 - share) / N_REAL)
        assert abs((first[column] == value).mean() - share) < 3 * error, value
    counts = cohort.visits.groupby("Patient").size()
    assert counts.between(6, 10).all()
    assert abs(counts.mean() - 8.82) < 3 * 0.62 / np.sqrt(N_REAL)


def test_decline_differs_by_patient_with_heavy_tails(cohort: SimulatedCohort) -> None:
    slopes = np.array(
        [
            np.polyfit(visits["Weeks"], visits["FVC"], 1)[0]
            for _, visits in cohort.visits.groupby("Patient")
        ]
    )
    # Of the real table: mean -4.36, sd 6.25, quartiles -7.3 and -0.9 ml a week.
    assert abs(slopes.mean() + 4.36) < 3 * 6.25 / np.sqrt(N_REAL)
    assert 0.75 < slopes.std() / 6.25 < 1.25
    lower, upper = np.quantile(slopes, [0.25, 0.75])
    assert lower == pytest.approx(-7.3, abs=1.5)
    assert upper == pytest.approx(-0.9, abs=1.5)
    assert ((slopes - slopes.mean()) ** 4).mean() / slopes.var() ** 2 > 4  # a normal has 3


@pytest.mark.parametrize("strength", [0.0, 0.2, 0.6])
def test_fibrosis_goes_with_the_slope_as_strongly_as_asked(strength: float) -> None:
    truth = simulate_cohort(n_patients=4000, scan_correlation=strength, seed=5).truth
    r = np.corrcoef(truth["fibrosis_fraction"], truth["slope_ml_per_week"])[0, 1]
    assert r == pytest.approx(-strength, abs=0.02 + 3 * (1 - strength**2) / np.sqrt(len(truth)))


def test_forecasting_is_as_hard_as_on_the_real_table(cohort: SimulatedCohort) -> None:
    """On the real table: carried forward -7.149, linear decline -6.983, standard error 0.065."""
    true_ml, first_ml, gap = last_visits(cohort.visits)

    def loss(parameters: np.ndarray) -> float:
        slope, log_confidence = parameters
        forecast = first_ml + slope * gap
        return -laplace_log_likelihood(true_ml, forecast, np.exp(log_confidence)).mean()

    carried = max(
        laplace_log_likelihood(true_ml, first_ml, confidence).mean()
        for confidence in range(100, 600, 10)
    )
    linear = -minimize(loss, [-4.0, 5.6], method="Nelder-Mead").fun
    assert abs(carried + 7.149) < 2 * 0.065
    assert abs(linear + 6.983) < 2 * 0.065


@pytest.mark.realdata
def test_constants_against_the_table_itself(realdata: Path, cohort: SimulatedCohort) -> None:
    real = pd.read_csv(realdata / "osic" / "train.csv")
    for quantile in (0.1, 0.25, 0.5, 0.75, 0.9):
        gap = real["FVC"].quantile(quantile) - cohort.visits["FVC"].quantile(quantile)
        assert abs(gap) < 3 * 1.6 * 798 / np.sqrt(N_REAL), quantile
