"""Records simulated from the full horizon model against what its truth says of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from tidegauge.schema.runs import HUMAN, MILLISECONDS_PER_MINUTE, RunRecord
from tidegauge.simulate.beyond import Beyond, draw_continuous_scores
from tidegauge.simulate.records import draw_records, write_simulation
from tidegauge.simulate.runs import RE_BENCH, SimulatedRuns, scaled_shape, simulate_runs


@pytest.fixture(scope="module")
def simulated() -> SimulatedRuns:
    return simulate_runs(scaled_shape(agents=8, tasks=170), seed=3, full=True)


@pytest.fixture(scope="module")
def records(simulated: SimulatedRuns) -> list[RunRecord]:
    return list(draw_records(simulated))


def human_minutes(records: list[RunRecord], source: str) -> np.ndarray:
    return np.array(
        [
            (record.completed_at - record.started_at) / MILLISECONDS_PER_MINUTE
            for record in records
            if record.alias == HUMAN and record.task_source == source
        ]
    )


def test_lengths_and_agents_are_those_of_the_core_simulation(simulated: SimulatedRuns) -> None:
    core = simulate_runs(simulated.shape, seed=3).truth
    for name in ("mu_task", "alpha", "beta"):
        np.testing.assert_array_equal(getattr(simulated.truth, name), getattr(core, name))
    assert simulated.truth.release == core.release
    assert core.beyond is None


def test_hcast_durations_of_a_minute_or_more_are_whole_minutes(records: list[RunRecord]) -> None:
    hcast, swaa = human_minutes(records, "HCAST"), human_minutes(records, "SWAA")
    assert (hcast[hcast >= 1] % 1 == 0).all()
    assert (swaa[swaa >= 1] % 1 != 0).any()


def test_only_re_bench_scores_are_continuous(records: list[RunRecord]) -> None:
    runs = [record for record in records if record.alias != HUMAN]
    for record in runs:
        assert record.score_binarized in (0.0, 1.0)
        assert 0 <= record.score_cont <= 1
        assert record.task_source == RE_BENCH or record.score_cont == record.score_binarized
    assert any(r.score_cont not in (0.0, 1.0) for r in runs if r.task_source == RE_BENCH)


def test_continuous_scores_have_the_chance_of_success_as_their_mean() -> None:
    rng, chance, n = np.random.default_rng(1), 0.3, 40_000
    success = rng.random(n) < chance
    scores = draw_continuous_scores(np.full(n, chance), success, rng)
    assert abs(scores.mean() - chance) < 4 * scores.std() / np.sqrt(n)
    # Among runs of about the same score, that share of them succeeded.
    near = (scores > 0.55) & (scores < 0.65)
    share = success[near].mean()
    assert abs(share - scores[near].mean()) < 4 * np.sqrt(0.24 / near.sum())


@pytest.mark.parametrize("success", [0.5, 0.8, 0.99])
def test_marginal_horizon_against_the_average_over_drawn_tasks(success: float) -> None:
    beyond = Beyond(residual=np.zeros(1))
    residual = beyond.sigma_residual * np.random.default_rng(2).normal(size=400_000)
    log2 = beyond.marginal_log2(success, alpha=4.0, beta=-0.8)
    rates = expit(4.0 - 0.8 * (log2 + residual))
    assert abs(rates.mean() - success) < 4 * rates.std() / np.sqrt(rates.size)


def test_runs_of_a_cell_are_as_alike_as_phi_says() -> None:
    beyond, n = Beyond(residual=np.zeros(1)), 100_000
    chance = beyond.cell_chances(np.full(n, 0.3), np.random.default_rng(3))
    assert abs(chance.mean() - 0.3) < 4 * chance.std() / np.sqrt(n)
    # Of two runs, the covariance is the variance of what they share.
    correlation = chance.var() / (0.3 * 0.7)
    assert correlation == pytest.approx(1 / (1 + beyond.phi), rel=4 * np.sqrt(3 / n))


def test_truth_file_has_typical_and_marginal_horizons_and_the_doubling_time(
    simulated: SimulatedRuns, tmp_path: Path
) -> None:
    write_simulation(simulated, tmp_path / "simulated")
    truth = json.loads((tmp_path / "simulated" / "truth.json").read_text())
    assert truth["trend"] == {"shape": "linear", "doubling_days": 210.0}
    assert truth["parameters"]["sigma_residual"] == pytest.approx(np.hypot(1.0, 1.2))
    for agent in truth["agents"].values():
        assert agent["p50"] == pytest.approx(agent["p50_typical"])  # residuals are symmetric
        assert agent["p80"] < agent["p80_typical"]
