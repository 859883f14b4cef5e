"""Held-out prediction on data from the core model, where it is known who should win."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from designs import Truth, draw_design, usual_truth
from tidegauge.horizon.data.design import Design, human_log2_mean
from tidegauge.horizon.methods.base import Climatology
from tidegauge.horizon.methods.exact import Exact
from tidegauge.horizon.methods.hierarchical import FOLD_SAMPLER, Hierarchical
from tidegauge.horizon.methods.regression import Regression
from tidegauge.horizon.model.likelihood import mean_success
from tidegauge.horizon.sampler.fit import fit_horizon
from tidegauge.horizon.studies.compare import leave_cells_out
from tidegauge.horizon.studies.held_out import KINDS, Fold, HeldOut, hold_out, make_folds
from tidegauge.horizon.studies.scores import calibration_table, differences_table, scores_table


@pytest.fixture(scope="module")
def truth() -> Truth:
    return usual_truth(np.random.default_rng(21), n_agents=6, n_tasks=60, n_families=15)


@pytest.fixture(scope="module")
def design(truth: Truth) -> Design:
    """Data of the core model; human_minutes is what the humans took, as in a real file."""
    drawn = draw_design(truth, np.random.default_rng(22), runs_per_cell=5)
    _, log2 = human_log2_mean(drawn)
    log2[drawn.estimate_task] = drawn.estimate_log2
    return replace(drawn, human_minutes=2.0**log2)


@pytest.fixture(scope="module")
def held_out(design: Design) -> HeldOut:
    folds = [fold for by in KINDS for fold in make_folds(design, by=by, folds=3, seed=1)]
    methods = [Climatology(), Regression(), Exact(), Hierarchical()]
    return hold_out(design, methods, folds, seed=1, workers=1)


def test_core_predicts_its_own_data_best(held_out: HeldOut) -> None:
    scores = scores_table(held_out.cells).set_index(["by", "method"])
    for by in KINDS:
        core = scores.loc[(by, "core")]
        for other in ("climatology", "regression", "exact"):
            assert core["log_score"] >= scores.loc[(by, other), "log_score"], (by, other)
            assert core["brier"] <= scores.loc[(by, other), "brier"], (by, other)


def test_core_beats_the_baseline_everywhere_and_the_regression_by_agent_beyond_error(
    held_out: HeldOut,
) -> None:
    table = differences_table(held_out.cells).set_index(["by", "method", "other"])
    for pair in (*((by, "core", "climatology") for by in KINDS), ("agent", "core", "regression")):
        assert table.loc[pair, "log_score"] > 0, pair
        assert not table.loc[pair, "within_error"], pair


def test_core_scores_no_better_than_the_truth(held_out: HeldOut, truth: Truth) -> None:
    own = held_out.cells[held_out.cells["method"] == "core"]
    agent = own["agent"].str.split().str[1].astype(int)
    task = own["task_id"].str.split().str[1].astype(int)
    win = expit(
        truth.alpha[agent.to_numpy()]
        + truth.beta[agent.to_numpy()] * truth.mu_task[task.to_numpy()]
    )
    best = own["successes"] * np.log(win) + (own["attempts"] - own["successes"]) * np.log1p(-win)
    for _, rows in own.assign(best=best).groupby("by"):
        assert rows["log_score"].sum() < rows["best"].sum()


def test_core_is_calibrated_on_runs_it_did_not_see(held_out: HeldOut) -> None:
    table = calibration_table(held_out.cells)
    core = table[(table["method"] == "core") & (table["runs"] >= 100)]
    error = (core["seen"] - core["predicted"]) / core["seen_se"]
    # About 30 steps: a standard normal goes beyond 3.5 in one such set out of seventy.
    assert error.abs().max() < 3.5, pd.DataFrame({**core, "error": error})


def test_leaving_a_cell_out_by_weights_is_leaving_it_out_by_a_refit() -> None:
    """With one run a cell, a cell's log score is the log of the mean prediction by a refit."""
    rng = np.random.default_rng(31)
    truth = usual_truth(rng, n_agents=4, n_tasks=20, n_families=5)
    design = draw_design(truth, rng, runs_per_cell=1)
    fit = fit_horizon(design)
    by_weights = leave_cells_out(fit)
    cells = np.flatnonzero(np.asarray(by_weights.pareto_k) < 0.7)[::8]
    folds = []
    for number, cell in enumerate(cells):
        held = np.zeros(design.attempts.shape, dtype=bool)
        held.flat[cell] = True  # every cell was tried, so they are in the order of the matrix
        folds.append(Fold("cell", number, held))
    longer = Hierarchical(fold_sampler=replace(FOLD_SAMPLER, draws=2000))
    by_refits = hold_out(design, [longer], folds, seed=1, workers=1).cells["log_score"].to_numpy()
    gap = by_weights.loo_i.to_numpy()[cells] - by_refits
    won = design.successes.flat[cells] == 1
    seen = mean_success(fit.point).flat[cells]
    optimism = np.log(np.where(won, seen, 1 - seen)) - by_refits
    # An effective size of about 1,000 on either side, and probabilities whose posterior sd is at
    # most their mean: each log has a Monte Carlo error of at most 0.03.
    assert np.abs(gap).max() < 3 * np.hypot(0.03, 0.03)
    assert optimism.mean() > 0.13, "predictions of runs that were seen must be told apart"
