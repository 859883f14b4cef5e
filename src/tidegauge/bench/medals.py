"""Medals: from thresholds or from a leaderboard, and their odds under resampling."""

from __future__ import annotations

import csv
import math
import statistics
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tidegauge.bench.competitions.base import Answers, Columns, Competition, Thresholds
from tidegauge.errors import InputError
from tidegauge.schema.faults import show_value

BOOTSTRAP_DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Odds:
    """How sure the score and the medal are, had other patients been drawn.

    Attributes
    ----------
    score_se : float
        Standard error of the score; NaN with a single group.
    p_gold, p_silver_or_better, p_bronze_or_better, p_above_median : float
        Shares of bootstrap draws that reach each threshold.
    """

    score_se: float
    p_gold: float
    p_silver_or_better: float
    p_bronze_or_better: float
    p_above_median: float


def medal_ranks(n_teams: int) -> tuple[int, int, int]:
    """Return the last rank that wins gold, silver and bronze by Kaggle's rules.

    Under 100 teams: the top 10, 20 and 40 %. Under 250: 10 teams, 20 and 40 %. Under 1000: 10
    teams plus 0.2 %, 50 and 100 teams. From 1000: 10 teams plus 0.2 %, 5 and 10 %.
    """
    # Whole-number arithmetic: 0.1 * 70 is not 7 in binary.
    if n_teams < 250:
        gold = 10 if n_teams >= 100 else max(1, n_teams // 10)
        return gold, max(1, n_teams // 5), max(1, 2 * n_teams // 5)
    gold = 10 + n_teams // 500
    return (gold, 50, 100) if n_teams < 1000 else (gold, n_teams // 20, n_teams // 10)


def thresholds_from_leaderboard(path: Path, *, lower_is_better: bool) -> Thresholds:
    """Return the scores at the medal ranks of a CSV file with a column ``score``.

    Raises
    ------
    InputError
        The file cannot be read, has no such column, or a score is no number.
    """
    scores = sorted(_read_scores(path), reverse=not lower_is_better)
    gold, silver, bronze = (scores[rank - 1] for rank in medal_ranks(len(scores)))
    return Thresholds(gold, silver, bronze, statistics.median(scores))


def _read_scores(path: Path) -> list[float]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as handle:
            reader = csv.DictReader(handle)
            names = [name for name in reader.fieldnames or () if name.strip().lower() == "score"]
            if not names:
                raise InputError(f"{path}: has no column `score`; give a leaderboard with one")
            scores = [_finite_score(path, reader.line_num, row[names[0]]) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read ({error}); give a CSV file") from error
    if not scores:
        raise InputError(f"{path}: holds no team; give a leaderboard with scores")
    return scores


def _finite_score(path: Path, line: int, text: str | None) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{path}:{line}: score={show_value(text)} is no number; drop the row")
    return value


def bootstrap_odds(
    competition: Competition,
    answers: Answers,
    predicted: Columns,
    thresholds: Thresholds,
    *,
    seed: int,
    draws: int = BOOTSTRAP_DRAWS,
) -> Odds:
    """Score the submission again on resampled groups (patients), `draws` times."""
    rng = np.random.default_rng(seed)
    names, group_of = np.unique(np.array(answers.groups), return_inverse=True)
    rows_of = [np.flatnonzero(group_of == group) for group in range(len(names))]
    scores = np.empty(draws)
    for draw in range(draws):
        picked = rng.integers(len(names), size=len(names))
        rows = np.concatenate([rows_of[group] for group in picked])
        scores[draw] = competition.score(
            {name: column[rows] for name, column in answers.truth.items()},
            {name: column[rows] for name, column in predicted.items()},
        )
    sign = -1.0 if competition.lower_is_better else 1.0
    gold, silver, bronze = (
        float(np.mean(sign * scores >= sign * at))
        for at in (thresholds.gold, thresholds.silver, thresholds.bronze)
    )
    above = float(np.mean(sign * scores > sign * thresholds.median))
    spread = float(scores.std(ddof=1)) if len(names) > 1 else math.nan
    return Odds(spread, gold, silver, bronze, above)
