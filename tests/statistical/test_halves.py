"""Random halves give the sampling SD of a score, whatever the metric."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy.stats import rankdata

from tidegauge.bench.competitions.base import Thresholds
from tidegauge.bench.medals import odds_from_halves
from tidegauge.bench.mlebench.worker import draw_halves

Table = pd.DataFrame
Metric = Callable[[np.ndarray, np.ndarray], float]


def auc(truth: np.ndarray, given: np.ndarray) -> float:
    positive = truth > 0
    n = positive.sum()
    if n in (0, len(truth)):
        raise ValueError("one class")
    total = rankdata(given)[positive].sum() - n * (n + 1) / 2
    return float(total / (n * (len(truth) - n)))


def log_loss(truth: np.ndarray, given: np.ndarray) -> float:
    p = 1 / (1 + np.exp(-given))
    return float(-np.mean(np.where(truth > 0, np.log(p), np.log1p(-p))))


def accuracy(truth: np.ndarray, given: np.ndarray) -> float:
    return float(np.mean((truth > 0) == (given > 0)))


def macro_f1(truth: np.ndarray, given: np.ndarray) -> float:
    scores = []
    for label in (True, False):
        true, said = (truth > 0) == label, (given > 0) == label
        both = true.sum() + said.sum()
        scores.append(2 * (true & said).sum() / both if both else 0.0)
    return float(np.mean(scores))


def rmse(truth: np.ndarray, given: np.ndarray) -> float:
    return float(np.sqrt(np.mean((truth - given) ** 2)))


def spearman(truth: np.ndarray, given: np.ndarray) -> float:
    return float(np.corrcoef(rankdata(truth), rankdata(given))[0, 1])


METRICS = {m.__name__: m for m in (accuracy, auc, log_loss, macro_f1, rmse, spearman)}


def draw_test_set(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    truth = rng.normal(size=n)
    return truth, truth + rng.normal(size=n)


@pytest.mark.parametrize("n", [60, 400])
@pytest.mark.parametrize("name", METRICS)
def test_halves_give_the_sampling_sd(name: str, n: int) -> None:
    """Root mean square of the errors over 80 test sets, against the SD over 4,000 test sets.

    The SD is known within 1/sqrt(8000) = 1.1 %. At n = 60 halves of 30 rows are known to be up to
    1.2 times too wide for ranks; the limits are those that the estimator promises.
    """
    metric = METRICS[name]
    rng = np.random.default_rng(1)
    scores = [metric(*draw_test_set(rng, n)) for _ in range(4000)]
    true_sd = float(np.std(scores, ddof=1))

    def grade(submission: Table, answers: Table) -> float:
        return metric(answers["y"].to_numpy(), submission["y"].to_numpy())

    squares = []
    rows = np.arange(n)
    for seed in range(80):
        truth, given = draw_test_set(rng, n)
        drawn = draw_halves(
            grade, pd.DataFrame({"y": given}), pd.DataFrame({"y": truth}), (rows, rows),
            draws=60, seconds=60.0, seed=seed,
        )  # fmt: skip
        found = odds_from_halves(
            metric(truth, given), drawn["scores"], drawn["sizes"], n, None, lower_is_better=False
        )
        assert found.odds is not None
        squares.append(found.odds.score_se**2)
    assert 0.9 <= np.sqrt(np.mean(squares)) / true_sd <= 1.2


def test_groups_are_drawn_whole_and_odd_numbers_of_units_are_right() -> None:
    """The mean of 7 groups of equal rows has the error of 7 values, not of 70."""
    values = np.random.default_rng(2).normal(size=7)
    table = pd.DataFrame({"y": np.repeat(values, 10)})
    groups = np.repeat(np.arange(7), 10)
    drawn = draw_halves(
        lambda submission, answers: float(submission["y"].mean()), table, table, (groups, groups),
        draws=4000, seconds=60.0, seed=1,
    )  # fmt: skip
    assert set(drawn["sizes"]) == {3, 4}
    found = odds_from_halves(
        float(values.mean()), drawn["scores"], drawn["sizes"], 7, None, lower_is_better=False
    )
    assert found.odds is not None
    exact = values.std(ddof=1) / np.sqrt(7)
    assert found.odds.score_se == pytest.approx(exact, rel=4 / np.sqrt(2 * 2000))


def test_odds_are_shares_of_draws_and_normal_with_few() -> None:
    rng = np.random.default_rng(3)
    at = Thresholds(gold=1.0, silver=0.0, bronze=-1.0, median=-2.0)
    for n_draws in (4000, 30):
        halves = list(rng.normal(size=n_draws))
        found = odds_from_halves(0.0, halves, [50] * n_draws, 100, at, lower_is_better=False)
        assert found.odds is not None
        tolerance = 4 * 0.5 / np.sqrt(n_draws)
        assert found.odds.p_gold == pytest.approx(0.159, abs=tolerance)
        assert found.odds.p_silver_or_better == pytest.approx(0.5, abs=tolerance)
        assert found.odds.p_above_median == pytest.approx(0.977, abs=tolerance)
        lower = odds_from_halves(0.0, halves, [50] * n_draws, 100, at, lower_is_better=True)
        assert lower.odds is not None
        assert lower.odds.p_gold == pytest.approx(0.841, abs=tolerance)


def test_failed_halves_are_counted_and_too_many_give_no_error() -> None:
    scores: list[float | None] = [0.0, 1.0] * 45
    few = odds_from_halves(0.5, [*scores, *[None] * 10], [5] * 100, 10, None, lower_is_better=True)
    assert few.failed == 10
    assert few.odds is not None
    many = odds_from_halves(0.5, [*scores, *[None] * 30], [5] * 120, 10, None, lower_is_better=True)
    assert many.odds is None
    assert "30 of 120" in (many.reason or "")
    one = odds_from_halves(0.5, [], [], 1, None, lower_is_better=True)
    assert one.reason == "the test set is one unit"
