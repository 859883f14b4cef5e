"""Trends with a known truth: doubling times are covered, and the right shape wins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from designs import draw_design, usual_truth
from tidegauge.engine.config import SamplerConfig
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.model.options import CORE
from tidegauge.horizon.model.trend_shapes import TREND_SHAPES, trend_slope, trend_value
from tidegauge.horizon.sampler.fit import fit_horizon
from tidegauge.horizon.trend.comparison import score_shapes
from tidegauge.horizon.trend.draws import Trend, trend_of_fit
from tidegauge.horizon.trend.prediction import Measured, TrendModel, measured_horizons
from tidegauge.horizon.trend.summary import doubling_months

REPLICATES = 100
TRUTHS = {
    "linear": {"trend_rate": 1.3},
    "quadratic": {"trend_rate": 1.0, "trend_bend": 0.4},
    "kink": {"trend_rate": 0.8, "trend_change": 1.5, "trend_kink": 0.5},
}


def measure(
    shape: str, truth: dict[str, float], rng: np.random.Generator, *, agents: int, noise: float
) -> Measured:
    """Agents released over five years, measured as well as real ones are."""
    years = np.sort(rng.uniform(-2.5, 2.5, agents))
    years -= years.mean()
    sd = noise * rng.uniform(0.6, 1.4, agents)
    own = trend_value(shape, {"trend_level": 5.0, **truth}, years) + rng.normal(0, noise, agents)
    return Measured(tuple(f"agent {a}" for a in range(agents)), years, rng.normal(own, sd), sd)


def drawn_trend(model: TrendModel, rng: np.random.Generator) -> Trend:
    draws = model.draw(1000, rng)
    return Trend(
        shape=model.shape,
        coefficients={name: draws[name] for name in TREND_SHAPES[model.shape].coefficients},
        scatter=draws["sigma_horizon"],
        log2_gap80=np.zeros(1000),
        origin_day=738000.0,
        first_day=738000 + 365.25 * float(model.measured.years.min()),
        last_day=738000 + 365.25 * float(model.measured.years.max()),
        n_agents=len(model.measured.agents),
    )


@pytest.mark.parametrize("shape", list(TRUTHS))
def test_90_percent_intervals_of_the_doubling_time_cover_the_truth(shape: str) -> None:
    rng = np.random.default_rng(41)
    covered = 0
    for _ in range(REPLICATES):
        measured = measure(shape, TRUTHS[shape], rng, agents=20, noise=0.5)
        trend = drawn_trend(TrendModel(shape, measured), rng)
        found = doubling_months([trend], interval=0.9)
        last = np.array([measured.years.max()])
        truth = 12 / trend_slope(shape, {"trend_level": 5.0, **TRUTHS[shape]}, last)[0]
        covered += found.low <= truth <= found.high
    low, high = binom.ppf([0.001, 0.999], REPLICATES, 0.9)
    assert low <= covered <= high, covered


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


def joint_design(rng: np.random.Generator, *, agents: int, tasks: int, rate: float) -> Design:
    """Runs of agents whose horizons follow a straight trend, give or take half a doubling."""
    years = np.sort(rng.uniform(-2, 2, agents))
    years -= years.mean()
    truth = usual_truth(rng, n_agents=agents, n_tasks=tasks, n_families=max(tasks // 4, 1))
    log2 = 5 + rate * years + rng.normal(0, 0.5, agents)
    drawn = draw_design(replace(truth, alpha=-truth.beta * log2), rng, runs_per_cell=5)
    return replace(drawn, agent_years=years, origin_day=738000.0)


def test_joint_fits_cover_the_doubling_time_of_runs_with_a_known_slope() -> None:
    rng, rate, replicates = np.random.default_rng(44), 1.3, 10
    sampler = SamplerConfig(draws=500, tune=400, chains=2, seed=1)
    covered = 0
    for _ in range(replicates):
        design = joint_design(rng, agents=8, tasks=30, rate=rate)
        linear = replace(CORE, trend="linear")
        fit = fit_horizon(design, options=linear, sampler=sampler, patient=False)
        found = doubling_months([trend_of_fit(fit)], interval=0.9)
        covered += found.low <= 12 / rate <= found.high
    assert covered >= binom.ppf(0.001, replicates, 0.9), covered


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
