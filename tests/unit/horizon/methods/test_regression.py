"""METR's regression against scikit-learn, and the bootstrap against a plain one."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression

from designs import draw_design, usual_truth
from tidegauge.engine.logistic import LogisticFits, logistic_ridge
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.data.weights import run_weights
from tidegauge.horizon.horizons.quantities import log2_horizon
from tidegauge.horizon.methods.regression import (
    RegressionOptions,
    bootstrap_estimate,
    fit_regression,
    resample,
)


@pytest.fixture(scope="module")
def design() -> Design:
    rng = np.random.default_rng(11)
    truth = usual_truth(rng, n_agents=3, n_tasks=20, n_families=6)
    drawn = draw_design(truth, rng)
    drawn.attempts[0, :4] = drawn.successes[0, :4] = 0
    return drawn


@pytest.mark.parametrize("ridge", [1e-5, 0.1])
@pytest.mark.parametrize("scheme", ["invsqrt", "equal", "none"])
def test_curves_equal_scikit_learn(design: Design, ridge: float, scheme: str) -> None:
    weights = run_weights(design, scheme)
    lost = design.attempts - design.successes
    fits = logistic_ridge(
        design.log2_minutes, weights * design.successes, weights * lost, ridge=ridge
    )
    for a in range(len(design.agents)):
        x = np.concatenate([design.log2_minutes, design.log2_minutes])[:, None]
        y = np.repeat([1, 0], len(design.tasks))
        sample_weight = np.concatenate([weights[a] * design.successes[a], weights[a] * lost[a]])
        reference = LogisticRegression(C=1 / ridge, tol=1e-12, max_iter=10_000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zero weights are meant
            reference.fit(x, y, sample_weight=sample_weight)
        np.testing.assert_allclose(fits.slope[a], reference.coef_[0, 0], rtol=1e-4)
        np.testing.assert_allclose(fits.intercept[a], reference.intercept_[0], rtol=1e-4)


def test_one_sided_agents_have_no_slope_and_horizons_at_the_ends() -> None:
    x, one = np.array([0.0, 5.0]), np.ones((1, 2))
    always = logistic_ridge(x, one, 0 * one, ridge=1e-5)
    never = logistic_ridge(x, 0 * one, one, ridge=1e-5)
    none = logistic_ridge(x, 0 * one, 0 * one, ridge=1e-5)
    fits = (always, never, none)
    found = [log2_horizon(fit.intercept, fit.slope, success=0.5)[0] for fit in fits]
    np.testing.assert_array_equal(found, [np.inf, -np.inf, np.nan])


def test_a_replicate_without_runs_counts_as_the_point_fit(design: Design) -> None:
    point = LogisticFits(np.array([2.0, 1.0, 3.0]), np.array([-0.5, -0.5, -0.5]))
    replicates = LogisticFits(
        np.array([[np.nan, 2.0, 3.0], [4.0, 1.0, 3.0]]),
        np.array([[np.nan, -0.5, -0.5], [-0.5, -0.5, -0.5]]),
    )
    found = bootstrap_estimate(design, point, replicates)
    np.testing.assert_array_equal(found.log2_horizons(), [[4, 4, 6], [8, 2, 6]])
    np.testing.assert_array_equal(found.centre_log2(), [4, 2, 6])
    longest = np.log2(design.human_minutes.max())
    np.testing.assert_array_equal(found.beyond(), (found.log2_horizons() > longest).mean(axis=0))


def test_weights_sum_to_one_per_agent_and_follow_family_size(design: Design) -> None:
    weights = run_weights(design)
    np.testing.assert_allclose((weights * design.attempts).sum(axis=1), 1)
    tried = design.attempts[0] > 0
    per_task = (weights * design.attempts)[0]
    sizes = np.bincount(design.task_family[tried], minlength=6)[design.task_family]
    scaled = (per_task * np.sqrt(sizes))[tried]
    np.testing.assert_allclose(scaled, scaled[0])


def plain_bootstrap(design: Design, agent: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Families, then tasks, then runs, drawn one by one; the success share of each replicate."""
    members = [np.flatnonzero(design.task_family == f) for f in range(len(design.families))]
    shares = []
    for _ in range(n):
        won = tried = 0
        for family in rng.integers(len(members), size=len(members)):
            for task in rng.choice(members[family], size=members[family].size):
                n_runs = int(design.attempts[agent, task])
                outcomes = np.arange(n_runs) < design.successes[agent, task]
                won += int(outcomes[rng.integers(n_runs, size=n_runs)].sum()) if n_runs else 0
                tried += n_runs
        shares.append(won / tried if tried else np.nan)
    return np.array(shares)


def test_resampling_has_the_distribution_of_a_plain_hierarchical_bootstrap(
    design: Design,
) -> None:
    rng = np.random.default_rng(2)
    attempts, successes = resample(design, 3000, rng)
    for agent in range(2):
        fast = successes[:, agent].sum(axis=1) / attempts[:, agent].sum(axis=1)
        slow = plain_bootstrap(design, agent, 1500, rng)
        assert stats.ks_2samp(fast, slow).pvalue > 0.005


def test_the_same_seed_gives_the_same_replicates(design: Design) -> None:
    options = RegressionOptions(replicates=150)
    first, second = (fit_regression(design, options=options, seed=3) for _ in range(2))
    assert np.array_equal(first.beta, second.beta)
    other = fit_regression(design, options=options, seed=4)
    assert not np.array_equal(first.beta, other.beta)
    assert first.beta.shape == (150, 3)
