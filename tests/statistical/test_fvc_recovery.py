"""The hierarchical model finds the truth it was simulated from, and its intervals hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tidegauge.engine.config import SamplerConfig
from tidegauge.fvc.data.cohort import Baselines, Cohort, Questions
from tidegauge.fvc.forecasters.hierarchical import Hierarchical
from tidegauge.fvc.model.design import SCALARS

N_PATIENTS = 300
SLOPE_MEAN, SLOPE_SD, SIGMA, SMOKER_EFFECT = -1.6, 1.2, 0.8, 0.9


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    """Patients drawn from the model itself, at a typical FVC so that units are 100 ml."""
    rng = np.random.default_rng(11)
    n = N_PATIENTS
    smoker = (rng.random(n) < 0.3).astype(float)
    level = rng.normal(2700, 500, n)
    slope = SLOPE_MEAN + SMOKER_EFFECT * (smoker - 0.05) / 0.22 * 0.22
    slope = slope + SLOPE_SD * rng.standard_t(5, n)
    gaps = np.array([0.0, 3, 6, 12, 24, 36, 48, 54])
    unit = 100 * np.sqrt(level / 2700)[:, None]
    noise = SIGMA * rng.standard_t(5, (n, len(gaps)))
    fvc = np.maximum(level[:, None] + unit * (slope[:, None] * gaps / 38 + noise), 300)
    base = Baselines(
        patient=np.array([f"P{i}" for i in range(n)]),
        week=np.zeros(n),
        fvc_ml=fvc[:, 0],
        percent=100 * fvc[:, 0] / 3500,
        age=np.full(n, 67.0),
        male=np.ones(n),
        current_smoker=smoker,
        ex_smoker=1 - smoker,
        features=np.empty((n, 0)),
    )
    return Cohort(
        baselines=base,
        patient=np.repeat(np.arange(n), len(gaps)),
        gap_weeks=np.tile(gaps, n),
        fvc_ml=fvc.ravel(),
        first=np.tile(gaps == 0, n),
    )


@pytest.fixture(scope="module")
def fit(cohort: Cohort):
    sampler = SamplerConfig(draws=500, tune=400, chains=2)
    forecaster = Hierarchical(covariates=("current_smoker",), sampler=sampler)
    return forecaster.fit(cohort.take(np.arange(200)), seed=3)


@pytest.mark.parametrize(
    ("name", "truth"),
    [("slope_mean", SLOPE_MEAN), ("log_slope_sd", np.log(SLOPE_SD)), ("log_sigma", np.log(SIGMA))],
)
def test_posterior_holds_the_truth_within_three_of_its_sds(fit, name: str, truth: float) -> None:
    draws = fit.scalars[:, SCALARS.index(name)]
    assert abs(draws.mean() - truth) < 3 * draws.std()
    assert draws.std() < 0.3


def test_effect_of_a_covariate_is_found(fit) -> None:
    effect = fit.effects[:, 0] / 0.22  # per smoker, not per standard deviation
    assert abs(effect.mean() - SMOKER_EFFECT) < 3 * effect.std()
    assert effect.mean() > 2 * effect.std()


def test_chains_agree(fit) -> None:
    assert fit.r_hat < 1.03


def test_intervals_cover_new_patients_at_their_nominal_rate(cohort: Cohort, fit) -> None:
    new = cohort.take(np.arange(200, N_PATIENTS))
    rows = np.flatnonzero(new.gap_weeks == 48)
    draws = fit.forecast(new.baselines, new.questions(rows))
    pit = (draws < new.fvc_ml[rows][:, None]).mean(axis=1)
    for nominal in (0.5, 0.8, 0.95):
        inside = (np.abs(pit - 0.5) < nominal / 2).mean()
        assert abs(inside - nominal) < 3 * np.sqrt(nominal * (1 - nominal) / len(rows))


def test_noisy_first_visit_is_pulled_towards_the_population(cohort: Cohort, fit) -> None:
    """A first visit far above what the population has is believed less than one amid it."""
    base = cohort.baselines.take(np.array([0]))
    high = replace(base, fvc_ml=np.array([5200.0]), percent=100 * np.array([5200.0]) / 3500)
    now = Questions(np.array([0]), np.array([0.0]))
    assert np.median(fit.forecast(high, now)) < 5200
