"""Trends with a known truth: doubling times are covered, and the right shape wins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from coverage_study import (
    TREND_TRUTHS,
    joint_design,
    joint_trend_coverage,
    measure,
    trend_coverage,
)
from tidegauge.engine.config import SamplerConfig
from tidegauge.horizon.model.options import CORE
from tidegauge.horizon.model.trend_shapes import TREND_SHAPES
from tidegauge.horizon.sampler.fit import fit_horizon
from tidegauge.horizon.trend.comparison import score_shapes
from tidegauge.horizon.trend.draws import trend_of_fit
from tidegauge.horizon.trend.prediction import TrendModel, measured_horizons


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
        weights.append(scores.weights[scores.shapes.index("kink")])
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


@pytest.mark.parametrize("shape", ["linear", "kink"])
def test_measured_horizons_give_nearly_the_trend_of_the_joint_fit(shape: str) -> None:
    """The scores rest on measured horizons; the joint fit also knows that tasks are shared."""
    design = joint_design(np.random.default_rng(45), agents=12, tasks=50, rate=1.3)
    sampler = SamplerConfig(draws=1500, tune=500, chains=2, seed=1)
    plain = fit_horizon(design, options=CORE, sampler=sampler, patient=False)
    options = replace(CORE, trend=shape)
    joint = trend_of_fit(fit_horizon(design, options=options, sampler=sampler, patient=False))
    model = TrendModel(shape, measured_horizons(plain))
    drawn = model.draw(4000, np.random.default_rng(1))
    for name in (*TREND_SHAPES[shape].coefficients, "sigma_horizon"):
        found = drawn[name]
        exact = joint.scatter if name == "sigma_horizon" else joint.coefficients[name]
        # Some hundred effective draws on either side: medians to a tenth of a standard deviation
        # each; a level that all tasks share is known a little less well jointly.
        gap = abs(np.median(found) - np.median(exact)) / exact.std()
        assert gap < 0.4, (name, gap)
        assert 0.6 < found.std() / exact.std() < 1.4, name
