"""One type for every method: horizons, their intervals and what is beyond, against the curves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import expit

from designs import draw_design, usual_truth
from tidegauge.arrays import weighted_quantiles
from tidegauge.errors import InputError
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.horizons.estimate import Curves, Estimate
from tidegauge.horizon.methods.exact import fit_exact


@pytest.fixture(scope="module")
def design() -> Design:
    rng = np.random.default_rng(3)
    return draw_design(usual_truth(rng, n_agents=2, n_tasks=12, n_families=4), rng)


@pytest.fixture(scope="module")
def exact(design: Design) -> Estimate:
    return fit_exact(design)


@pytest.fixture
def made() -> Estimate:
    """Three draws of two agents; the curves fall by one logit a doubling."""
    alpha = np.array([[1.0, 4.0], [2.0, 5.0], [3.0, 60.0]])
    return Estimate(
        method="made",
        agents=("a", "b"),
        alpha=alpha,
        beta=-np.ones((3, 2)),
        success=np.full((2, 4), 0.5),
        longest_minutes=2.0**4.5,
    )


def test_horizons_intervals_and_shares_by_hand(made: Estimate) -> None:
    np.testing.assert_array_equal(made.log2_horizons(), made.alpha)
    np.testing.assert_allclose(made.log2_horizons(0.8), made.alpha - np.log(4))
    np.testing.assert_allclose(made.interval().median, [4, 32])
    np.testing.assert_allclose(made.interval().low, np.exp2([1.05, 4.05]))
    np.testing.assert_allclose(made.beyond(), [0, 2 / 3])
    table = made.table()
    assert list(table.columns) == [
        *("agent", "p50", "p50q0.025", "p50q0.975", "p50_beyond"),
        *("p80", "p80q0.025", "p80q0.975", "p80_beyond"),
    ]
    np.testing.assert_allclose(table["p80"], np.exp2(np.array([2.0, 5.0]) - np.log(4)))


def test_a_point_fit_is_the_centre_and_the_draws_are_its_interval(made: Estimate) -> None:
    point = Curves(np.array([2.5, 4.5]), -np.ones(2))
    found = replace(made, point=point)
    np.testing.assert_allclose(found.interval().median, np.exp2([2.5, 4.5]))
    np.testing.assert_allclose(found.interval().high, made.interval().high)
    assert found.centre is point


def test_marginal_horizons_average_over_the_residual_and_discrimination_of_new_tasks(
    made: Estimate,
) -> None:
    found = replace(made, residual_sd=np.full(3, 2.0))
    np.testing.assert_array_equal(found.log2_horizons(0.8, kind="typical"), made.log2_horizons(0.8))
    assert (found.log2_horizons(0.8) < made.log2_horizons(0.8)).all()
    np.testing.assert_allclose(found.log2_horizons(0.5), made.log2_horizons(0.5))
    sharp = replace(made, residual_sd=np.zeros(3), discrimination_sd=np.full(3, 0.5))
    level = (made.alpha - sharp.log2_horizons(0.8))[0, 0]
    rate, _ = integrate.quad(
        lambda d: expit(np.exp(d) * level) * stats.norm.pdf(d, 0, 0.5), -4, 4, epsabs=1e-12
    )
    assert rate == pytest.approx(0.8, abs=1e-6)  # the error of twelve nodes


def test_intervals_of_weighted_curves_are_the_weighted_quantiles(exact: Estimate) -> None:
    """Drawing from an exact posterior adds no error to its intervals."""
    assert exact.weight is not None
    for success in (0.5, 0.8):
        log2 = (np.log(success / (1 - success)) - exact.alpha) / exact.beta
        interval = exact.interval(success)
        for a in range(2):
            ends = weighted_quantiles(log2[:, a], exact.weight[:, a], [0.5, 0.025, 0.975])
            np.testing.assert_allclose([end[a] for end in interval], np.exp2(ends), rtol=1e-9)
        above = exact.weight * (log2 > np.log2(exact.longest_minutes))
        np.testing.assert_allclose(exact.beyond(success), above.sum(axis=0))
    middle = [weighted_quantiles(exact.beta[:, a], exact.weight[:, a], [0.5])[0] for a in (0, 1)]
    np.testing.assert_allclose(exact.centre.beta, middle)


def test_draws_of_weighted_curves_have_equal_weight_and_independent_agents(
    exact: Estimate,
) -> None:
    draws = exact.log2_horizons()
    assert exact.weight is not None
    means = (exact.weight * exact.alpha / -exact.beta).sum(axis=0)
    sds = draws.std(axis=0)
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - means), 0.01 * sds)
    ranks = draws.argsort(axis=0).argsort(axis=0)
    correlation = np.corrcoef(ranks.T)[0, 1]
    assert abs(correlation) < 4 / np.sqrt(len(draws))
    np.testing.assert_array_equal(draws, exact.log2_horizons())


@pytest.mark.parametrize(
    ("success", "kind", "message"),
    [(0.0, "typical", "success=0.0"), (1.0, "typical", "success=1.0"), (0.5, "mean", "kind=mean")],
)
def test_impossible_rates_and_kinds_are_refused(
    made: Estimate, success: float, kind: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        made.log2_horizons(success, kind=kind)
