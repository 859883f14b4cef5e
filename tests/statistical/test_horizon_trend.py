"""Trends with a known truth: doubling times are covered, and the right shape wins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from coverage_study import (
    QUICK,
    TREND_TRUTHS,
    Coverage,
    joint_design,
    joint_trend_coverage,
    measure,
    trend_coverage,
)
from tidegauge.engine.config import SamplerConfig
from tidegauge.horizon.model.options import CORE
from tidegauge.horizon.model.trend_shapes import TREND_SHAPES
from tidegauge.horizon.sampler.fit import fit_horizon
from tidegauge.horizon.trend.comparison import STACKED, score_shapes
from tidegauge.horizon.trend.draws import trend_of_fit
from tidegauge.horizon.trend.measured import measured_horizons
from tidegauge.horizon.trend.prediction import TrendModel


@pytest.mark.parametrize("shape", TREND_TRUTHS)
def test_intervals_of_the_doubling_time_cover_the_truth(shape: str) -> None:
    found = trend_coverage(shape, 40)
    assert found.is_nominal, found


def test_with_a_known_kink_the_kink_wins_the_comparison() -> None:
    rng = np.random.default_rng(42)
    truth = {"trend_rate": 0.8, "trend_change": 2.5, "trend_kink": 0.3}
    gaps, wins, weights = [], 0, []
    for _ in range(12):
        scores = score_shapes(measure("kink", truth, rng, agents=40, noise=0.3))
        totals = dict(zip(scores.shapes, scores.leave_one_out.sum(axis=1), strict=True))
        kink = totals.pop("kink")
        gaps.append([kink - other for other in totals.values()])
        wins += kink > max(totals.values())
        weights.append(scores.weights[STACKED][scores.shapes.index("kink")])
    error = np.std(gaps, axis=0, ddof=1) / np.sqrt(len(gaps))
    # Against every other shape by more than chance, and first more often than one of four would be.
    assert (np.mean(gaps, axis=0) > 2 * error).all(), (np.mean(gaps, axis=0), error)
    assert wins > binom.ppf(0.999, 12, 0.25), wins
    assert np.mean(weights) > 0.5, weights


def test_with_a_straight_truth_no_shape_beats_the_line_by_much() -> None:
    rng = np.random.default_rng(43)
    gaps = []
    for _ in range(8):
        scores = score_shapes(measure("linear", {"trend_rate": 1.3}, rng, agents=20, noise=0.5))
        totals = scores.leave_one_out.sum(axis=1)
        gaps.append(totals - totals[scores.shapes.index("linear")])
    error = np.std(gaps, axis=0, ddof=1) / np.sqrt(len(gaps))
    # A shape that holds the line inside can only lose by its freedom, on average.
    assert (np.mean(gaps, axis=0) < 2.5 * error + 1e-9).all(), np.mean(gaps, axis=0)


def test_joint_fits_cover_the_doubling_time_of_runs_with_a_known_slope() -> None:
    found = joint_trend_coverage(5)
    assert found.is_nominal, found


def _ratios_to_the_joint_fit(shape: str, seed: int) -> dict[str, dict[str, float]]:
    """Standard deviations of the small model over those of the joint fit, by its covariance."""
    design = joint_design(
        np.random.default_rng(seed), agents=12, tasks=50, rate=1.3, runs=20, sigma_human=2.0
    )
    sampler = SamplerConfig(draws=1500, tune=500, chains=2, seed=1)
    plain = fit_horizon(design, options=CORE, sampler=sampler, patient=False)
    options = replace(CORE, trend=shape)
    joint = trend_of_fit(fit_horizon(design, options=options, sampler=sampler, patient=False))
    exact = {**joint.coefficients, "sigma_horizon": joint.scatter}
    measured = measured_horizons(plain)
    independent = replace(measured, cov=np.diag(measured.sd**2))
    found = {}
    for name, used in (("whole", measured), ("independent", independent)):
        drawn = TrendModel(shape, used).draw(8000, np.random.default_rng(1))
        found[name] = {key: drawn[key].std() / exact[key].std() for key in exact}
        for key in exact:
            gap = np.median(drawn[key]) - np.median(exact[key])
            found[name][f"{key} shift"] = float(gap / exact[key].std())
    return found


def test_measured_horizons_give_the_trend_of_the_joint_fit() -> None:
    """Level and rate are as well known as jointly; with independent errors they are not.

    Tasks are timed badly and run often, so that agents share most of their errors. A ratio of two
    standard deviations of some 2,000 effective draws is known to 2 %.
    """
    found = [_ratios_to_the_joint_fit("linear", seed) for seed in range(6)]
    for name in ("trend_level", "trend_rate"):
        ratios = np.array([one["whole"][name] for one in found])
        assert (np.abs(ratios - 1) < 0.1).all(), (name, ratios)
        # Without a trend agents have the priors of alpha and beta, which pull a little.
        shifts = np.array([one["whole"][f"{name} shift"] for one in found])
        assert abs(shifts.mean()) < 0.5, (name, shifts)
    # The scatter has a long tail: its standard deviation is known to 5 %.
    assert abs(np.mean([one["whole"]["sigma_horizon"] for one in found]) - 1) < 0.1
    for name in ("trend_level", "trend_rate"):
        ratios = np.array([one["independent"][name] for one in found])
        assert (ratios < 0.9).all(), (name, ratios)


def test_measured_horizons_give_the_kink_of_the_joint_fit() -> None:
    found = [_ratios_to_the_joint_fit("kink", seed)["whole"] for seed in range(3)]
    for name in (*TREND_SHAPES["kink"].coefficients, "sigma_horizon"):
        ratio = np.mean([one[name] for one in found])
        # The kink's posterior has two ends: some hundred effective draws, so 5 % each.
        assert abs(ratio - 1) < 0.1, (name, [one[name] for one in found])


def test_steepness_over_date_covers_its_truth() -> None:
    """Slopes that become steeper with date, as joint fits of runs find them; 90 % intervals."""
    inside = 0.0
    for seed in range(10):
        rng = np.random.default_rng(700 + seed)
        design, change = joint_design(rng, agents=8, tasks=30, rate=1.3, steeper=0.15), 0.15
        options = replace(CORE, trend="linear")
        fit = fit_horizon(design, options=options, sampler=QUICK, patient=False)
        low, high = np.quantile(trend_of_fit(fit).steepness.change, [0.05, 0.95])
        inside += low <= change <= high
    found = Coverage(0.9, inside, 10)
    assert found.is_nominal, found
