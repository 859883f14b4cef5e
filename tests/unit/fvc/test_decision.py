"""The decision has the highest expected score that any FVC and Confidence could have."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegauge.fvc.decision import decide
from tidegauge.fvc.forecasters import LAPLACE_SHAPE, laplace_draws, reduce_draws
from tidegauge.scores import laplace_log_likelihood

CASES = {
    "narrow": lambda rng: rng.normal(2500, 20, 50),
    "typical": lambda rng: rng.laplace(2500, 180, 50),
    "wide": lambda rng: rng.standard_t(2, 50) * 600 + 2500,
    "two far modes": lambda rng: np.r_[rng.normal(1200, 60, 28), rng.normal(3900, 60, 22)],
    "skewed": lambda rng: 3000 - rng.exponential(700, 50),
}


def expected_score(draws: np.ndarray, fvc: float, confidence: float) -> float:
    return float(laplace_log_likelihood(draws, fvc, confidence).mean())


@pytest.mark.parametrize("case", CASES)
def test_decision_is_not_beaten_by_brute_force(case: str) -> None:
    draws = CASES[case](np.random.default_rng(5))
    decision = decide(draws[None, :])
    ours = expected_score(draws, decision.fvc_ml[0], decision.confidence_ml[0])
    grid_fvc = np.linspace(draws.min() - 100, draws.max() + 100, 600)
    grid_confidence = np.geomspace(20, 3000, 400)
    losses = np.minimum(np.abs(draws[:, None] - grid_fvc), 1000).mean(axis=0)
    sigma = np.maximum(grid_confidence, 70)
    scores = -np.sqrt(2) * losses[:, None] / sigma - np.log(np.sqrt(2) * sigma)
    assert ours >= scores.max() - 1e-9
    # and the grid is fine enough for the comparison to mean something
    assert ours - scores.max() < 0.02


@given(
    st.lists(st.floats(100, 6000), min_size=1, max_size=30),
    st.floats(100, 6000),
    st.floats(1, 4000),
)
@settings(max_examples=200, deadline=None)
def test_no_other_forecast_has_a_higher_expected_score(
    values: list[float], fvc: float, confidence: float
) -> None:
    draws = np.array(values)
    decision = decide(draws[None, :])
    ours = expected_score(draws, decision.fvc_ml[0], decision.confidence_ml[0])
    assert ours >= expected_score(draws, fvc, confidence) - 1e-9


def test_far_modes_are_not_averaged() -> None:
    draws = np.r_[np.full(60, 1000.0), np.full(40, 4000.0)]
    decision = decide(draws[None, :])
    assert decision.fvc_ml[0] == 1000.0
    assert decision.confidence_ml[0] == pytest.approx(np.sqrt(2) * 0.4 * 1000)


def test_confidence_is_never_below_the_floor() -> None:
    assert decide(np.full((1, 10), 2500.0)).confidence_ml[0] == 70.0


def test_laplace_draws_give_back_the_median_and_confidence_they_were_made_from() -> None:
    decision = decide(laplace_draws(np.array([2000.0, 3000.0]), np.array([120.0, 200.0])))
    np.testing.assert_allclose(decision.fvc_ml, [2000, 3000])
    np.testing.assert_allclose(decision.confidence_ml, [120, 200], rtol=0.02)
    assert np.abs(LAPLACE_SHAPE).mean() == pytest.approx(1.0)


def test_reduced_draws_keep_mean_and_order() -> None:
    draws = np.random.default_rng(1).normal(size=(3, 1000))
    reduced = reduce_draws(draws)
    np.testing.assert_allclose(reduced.mean(axis=1), draws.mean(axis=1))
    assert (np.diff(reduced, axis=1) >= 0).all()
