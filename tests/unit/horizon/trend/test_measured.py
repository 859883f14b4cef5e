"""The covariance of measured horizons: that of normal draws, and safe from extreme ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tidegauge.horizon.horizons.quantities import FARTHEST_LOG2, bounded
from tidegauge.horizon.model.trend_shapes import SHAPES
from tidegauge.horizon.trend.comparison import score_shapes
from tidegauge.horizon.trend.measured import (
    LEAST_SD,
    MOST_SD,
    Measured,
    centre_and_sd,
    covariance,
    normal_scores,
)
from tidegauge.horizon.trend.prediction import TrendModel

DRAWS = 4000


def correlated_draws(seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Draws of five agents, and the covariance that they were drawn with."""
    rng = np.random.default_rng(seed)
    sd = np.array([0.2, 0.4, 0.6, 0.8, 3.0])
    cov = np.outer(sd, sd) * (0.8 + 0.2 * np.eye(5))
    return rng.multivariate_normal(np.arange(5.0), cov, DRAWS), cov


def found_covariance(draws: np.ndarray) -> np.ndarray:
    return covariance(centre_and_sd(draws)[1], normal_scores(draws))


def test_covariance_of_normal_draws_is_their_covariance() -> None:
    draws, cov = correlated_draws()
    found = found_covariance(draws)
    # A quantile-based sd of 4,000 draws is known to 2 %.
    np.testing.assert_allclose(found, cov, rtol=0.08)
    np.testing.assert_allclose(np.diagonal(found), np.diagonal(np.cov(draws.T)), rtol=0.1)


def test_extreme_draws_of_one_agent_move_nothing_of_the_others() -> None:
    draws, _ = correlated_draws()
    wild = draws.copy()
    wild[draws[:, 4] > np.quantile(draws[:, 4], 0.9), 4] = np.inf
    wild[draws[:, 4] < np.quantile(draws[:, 4], 0.1), 4] = -np.inf
    found = found_covariance(bounded(wild))
    plain = found_covariance(draws)
    np.testing.assert_array_equal(found[:4, :4], plain[:4, :4])
    # A tenth of the draws at either end is infinite, and the error is still that of the middle.
    np.testing.assert_allclose(found[4], plain[4], rtol=0.05)
    moments = np.cov(bounded(wild).T)
    assert moments[4, 4] > 1e10, "the moments would be wrecked"


def test_equal_agents_and_constant_draws_leave_a_covariance_that_inverts() -> None:
    draws, _ = correlated_draws()
    same = np.column_stack([draws[:, 0], draws[:, 0], np.full(DRAWS, FARTHEST_LOG2)])
    found = found_covariance(same)
    assert np.isfinite(found).all()
    values = np.linalg.eigvalsh(found)
    assert values.min() == pytest.approx(LEAST_SD**2, rel=1e-6)
    assert found[2, 0] == 0


@pytest.mark.parametrize("shape", SHAPES)
def test_scores_of_hard_cases_are_numbers(shape: str) -> None:
    """One agent known a thousand times worse than the others, two that are the same, two dates."""
    years = np.array([-1.0, -1.0, -1.0, 1.0, 1.0, 1.0])
    sd = np.array([0.1, 0.1, 0.1, 0.1, 0.1, MOST_SD])
    cov = np.outer(sd, sd) * 0.9 + np.diag(0.1 * sd**2)
    cov[0, 1] = cov[1, 0] = cov[0, 0]
    cov += LEAST_SD**2 * np.eye(6)
    value = np.array([3.0, 3.0, 3.2, 5.0, 5.1, 40.0])
    measured = Measured(tuple("abcdef"), years, value, cov)
    model = TrendModel(shape, measured)
    assert np.isfinite(model.leave_one_out()).all()
    assert np.isfinite(model.leave_future_out(3)[1]).all()
    drawn = model.draw(2000, np.random.default_rng(1))
    assert all(np.isfinite(values).all() for values in drawn.values())


def test_an_agent_of_which_nothing_is_known_changes_no_comparison() -> None:
    rng = np.random.default_rng(4)
    years = np.linspace(-2, 2, 8)
    value = 4 + years + rng.normal(0, 0.6, 8)
    known = Measured(tuple("abcdefgh"), years, value, 0.04 * np.eye(8) + 0.09)
    more = np.zeros((9, 9))
    more[:8, :8], more[8, 8] = known.cov, MOST_SD**2
    with_it = Measured((*known.agents, "i"), np.append(years, 1.5), np.append(value, 30.0), more)
    plain, wider = (score_shapes(one).leave_one_out for one in (known, with_it))
    # Its own score is that of a normal as wide as its error, whatever the shape.
    np.testing.assert_allclose(wider[:, 8] - wider[0, 8], 0, atol=2e-3)
    np.testing.assert_allclose(wider[:, :8], plain, atol=0.05)


def test_a_shared_error_is_not_scatter_of_the_agents() -> None:
    """All agents too long by one error: independent errors are surer of the level than they may."""
    rng = np.random.default_rng(5)
    years = np.linspace(-2, 2, 12)
    shared, own, scatter, covered = 1.0, 0.2, 0.5, {"whole": 0, "independent": 0}
    cov = own**2 * np.eye(12) + shared**2
    for _ in range(60):
        error = rng.multivariate_normal(np.zeros(12), cov)
        value = 5 + 2.5 * years + rng.normal(0, scatter, 12) + error
        for name, used in (("whole", cov), ("independent", np.diag(np.diagonal(cov)))):
            measured = Measured(tuple("abcdefghijkl"), years, value, used)
            level = TrendModel("linear", measured).draw(1000, rng)["trend_level"]
            low, high = np.quantile(level, [0.05, 0.95])
            covered[name] += low <= 5 <= high
    low, high = stats.binom.ppf([0.001, 0.999], 60, 0.9)
    assert low <= covered["whole"] <= high, covered
    assert covered["independent"] < low, covered
