"""Scores, errors and tables of held-out predictions against computations of another kind."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import brier_score_loss, log_loss

from tidegauge.horizon.studies.scores import (
    calibration_table,
    clustered_mean,
    differences_table,
    scores_table,
    tasks_table,
)
from tidegauge.scores import brier_loss, log_score

METHODS = ("one", "two", "three")


@pytest.fixture
def cells() -> pd.DataFrame:
    """Held-out cells of three methods with known probabilities: 3 agents, 12 tasks, 4 families."""
    rng = np.random.default_rng(8)
    rows = []
    for by in ("task", "family"):
        for method in METHODS:
            for agent in range(3):
                for task in range(12):
                    draw = np.random.default_rng([agent, task])
                    attempts = int(draw.integers(1, 9))
                    successes = int(draw.integers(0, attempts + 1))
                    p = float(rng.uniform(0.01, 0.99))
                    rows.append(
                        {
                            "by": by,
                            "fold": 0,
                            "method": method,
                            "agent": f"agent {agent}",
                            "task_id": f"task {task}",
                            "task_family": f"family {task % 4}",
                            "human_minutes": 2.0**task,
                            "attempts": attempts,
                            "successes": successes,
                            "raw": p,
                            "probability": p,
                            "log_score": log_score(p, successes, attempts),
                            "brier": brier_loss(p, successes, attempts),
                            "fractional_log_score": log_score(p, successes * 0.5, attempts),
                        }
                    )
    return pd.DataFrame(rows)


def runs_of(cells: pd.DataFrame) -> pd.DataFrame:
    """One row a run, as a person would lay them out."""
    rows = cells.loc[cells.index.repeat(cells["attempts"])].copy()
    rows["won"] = (rows.groupby(["agent", "task_id"]).cumcount() < rows["successes"]).astype(int)
    return rows


def test_scores_are_those_of_scikit_learn_run_by_run(cells: pd.DataFrame) -> None:
    table = scores_table(cells).set_index(["by", "method"])
    for (by, method), own in cells.groupby(["by", "method"]):
        runs = runs_of(own)
        row = table.loc[(by, method)]
        assert row["runs"] == len(runs)
        assert row["log_score"] == pytest.approx(-log_loss(runs["won"], runs["probability"]))
        assert row["brier"] == pytest.approx(brier_score_loss(runs["won"], runs["probability"]))


def test_standard_error_of_equal_clusters_is_that_of_their_means() -> None:
    rng = np.random.default_rng(2)
    score = rng.normal(size=(9, 5))
    found = clustered_mean(score.ravel(), np.ones(45), np.repeat(np.arange(9), 5))
    means = score.mean(axis=1)
    assert found.value == pytest.approx(means.mean())
    assert found.se == pytest.approx(means.std(ddof=1) / 3)


def test_standard_error_of_unequal_clusters_covers_the_mean_of_many_samples() -> None:
    rng = np.random.default_rng(3)
    values, errors = [], []
    for _ in range(2000):
        sizes = rng.integers(1, 10, size=40)
        score = rng.normal(size=40) * sizes  # runs of a cluster share their score wholly
        found = clustered_mean(score, sizes, np.arange(40))
        values.append(found.value)
        errors.append(found.se)
    # The sd of 2,000 values is known to 1.6 %; the error estimate is low by about 1/40 of itself.
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(values), rel=0.06)


def test_one_cluster_has_no_standard_error() -> None:
    assert np.isnan(clustered_mean([1.0, 2.0], [1, 1], ["a", "a"]).se)


def test_errors_are_over_tasks_and_over_families_where_those_are_held_out(
    cells: pd.DataFrame,
) -> None:
    table = scores_table(cells).set_index(["by", "method"])
    assert table.loc[("task", "one"), "clusters"] == 12
    assert table.loc[("family", "one"), "clusters"] == 4
    own = cells[(cells["by"] == "family") & (cells["method"] == "one")]
    runs = runs_of(own)
    residual = np.where(
        runs["won"] == 1, np.log(runs["probability"]), np.log1p(-runs["probability"])
    )
    residual = pd.Series(residual - residual.mean()).groupby(runs["task_family"].to_numpy()).sum()
    expected = np.sqrt(4 / 3 * (residual**2).sum()) / len(runs)
    assert table.loc[("family", "one"), "log_score_se"] == pytest.approx(expected)


def test_differences_are_paired_and_turn_with_the_order(cells: pd.DataFrame) -> None:
    table = differences_table(cells).set_index(["by", "method", "other"])
    scores = scores_table(cells).set_index(["by", "method"])
    for by in ("task", "family"):
        forth, back = table.loc[(by, "one", "two")], table.loc[(by, "two", "one")]
        gap = scores.loc[(by, "one"), "log_score"] - scores.loc[(by, "two"), "log_score"]
        assert forth["log_score"] == pytest.approx(gap)
        assert back["log_score"] == pytest.approx(-gap)
        assert back["log_score_se"] == pytest.approx(forth["log_score_se"])
        assert forth["within_error"] == (abs(gap) <= 2 * forth["log_score_se"])


def test_a_difference_that_is_everywhere_the_same_is_not_within_its_error(
    cells: pd.DataFrame,
) -> None:
    worse = cells[cells["method"] == "one"].assign(method="worse")
    worse["log_score"] -= 1e-3 * worse["attempts"]
    both = pd.concat([cells[cells["method"] == "one"], worse])
    row = differences_table(both).set_index(["by", "method", "other"]).loc[("task", "worse", "one")]
    assert row["log_score"] == pytest.approx(-1e-3)
    assert row["log_score_se"] == pytest.approx(0, abs=1e-12)
    assert not row["within_error"]
    assert row["brier_within_error"]  # the Brier losses are equal


def test_the_best_has_no_difference_and_the_others_have_theirs(cells: pd.DataFrame) -> None:
    for _, kind in scores_table(cells).groupby("by"):
        best = kind.loc[kind["log_score"].idxmax()]
        assert (kind["best"] == best["method"]).all()
        rest = kind[kind["method"] != best["method"]]
        np.testing.assert_allclose(rest["difference"], rest["log_score"] - best["log_score"])
        assert np.isnan(best["difference"])


def test_calibration_counts_every_run_in_the_step_of_its_prediction(cells: pd.DataFrame) -> None:
    table = calibration_table(cells)
    for (by, method), own in cells.groupby(["by", "method"]):
        mine = table[(table["by"] == by) & (table["method"] == method)]
        runs = runs_of(own)
        count, edges = np.histogram(runs["probability"], bins=10, range=(0, 1))
        won, _ = np.histogram(runs["probability"], bins=10, range=(0, 1), weights=runs["won"])
        used = count > 0
        np.testing.assert_allclose(mine["low"], edges[:-1][used])
        np.testing.assert_array_equal(mine["runs"], count[used])
        np.testing.assert_allclose(mine["seen"], won[used] / count[used])
        assert ((mine["predicted"] >= mine["low"]) & (mine["predicted"] <= mine["high"])).all()


def test_certainty_falls_into_the_last_step(cells: pd.DataFrame) -> None:
    table = calibration_table(cells.assign(probability=1.0))
    assert set(table["low"]) == {0.9}


def test_tasks_are_sorted_by_a_residual_computed_by_hand(cells: pd.DataFrame) -> None:
    table = tasks_table(cells)
    mine = table[(table["by"] == "task") & (table["method"] == "two")]
    assert list(mine["residual"].abs()) == sorted(mine["residual"].abs(), reverse=True)
    row = mine.iloc[0]
    own = cells[(cells["by"] == "task") & (cells["method"] == "two")]
    own = own[own["task_id"] == row["task_id"]]
    expected = sum(own["attempts"] * own["probability"])
    variance = sum(own["attempts"] * own["probability"] * (1 - own["probability"]))
    assert row["seen"] == own["successes"].sum()
    assert row["expected"] == pytest.approx(expected)
    assert row["residual"] == pytest.approx((row["seen"] - expected) / variance**0.5)
