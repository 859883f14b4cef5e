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
HALVES_DRAWS = 200
MIN_HALVES = 20
_NORMAL_BELOW = 40  # shares of fewer draws are too coarse
_MAX_FAILED_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Odds:
    """How sure the score and the medal are, had other test units been drawn.

    Attributes
    ----------
    score_se : float
        Standard error of the score; NaN with a single group.
    p_gold, p_silver_or_better, p_bronze_or_better, p_above_median : float or None
        Shares of draws that reach each threshold; None where there are no thresholds.
    """

    score_se: float
    p_gold: float | None
    p_silver_or_better: float | None
    p_bronze_or_better: float | None
    p_above_median: float | None


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
    scores = sorted(read_scores(path), reverse=not lower_is_better)
    gold, silver, bronze = (scores[rank - 1] for rank in medal_ranks(len(scores)))
    return Thresholds(gold, silver, bronze, statistics.median(scores))


def read_scores(path: Path) -> list[float]:
    """Return the column ``score`` of a CSV file, in the order of its rows.

    Raises
    ------
    InputError
        The file cannot be read, has no such column, or a score is no number.
    """
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


@dataclass(frozen=True, slots=True)
class HalvesResult:
    """What random halves gave.

    Attributes
    ----------
    odds : Odds or None
        None where there is no standard error; `reason` then says why.
    draws, failed : int
        Halves scored, and those of them that have no score.
    units : int
        Independent units of the test set.
    """

    odds: Odds | None
    draws: int = 0
    failed: int = 0
    units: int | None = None
    reason: str | None = None


def odds_from_halves(
    score: float,
    scores: list[float | None],
    sizes: list[int],
    n_units: int,
    thresholds: Thresholds | None,
    *,
    lower_is_better: bool | None,
) -> HalvesResult:
    """Turn the scores of random halves of the test units into an error and odds of medals.

    For a mean over n units the variance over halves of n/2 drawn without replacement is
    σ²/(n/2) · (1 − 1/2) = σ²/n: that of the whole. For m of n units, deviations are multiplied
    by sqrt(m / (n − m)). No id occurs twice, so graders that compare, sort or parse ids work.

    Parameters
    ----------
    score : float
        Of the whole, exact.
    sizes : list of int
        Units in each half.
    """
    failed = sum(found is None for found in scores)
    kept = [(s, m) for s, m in zip(scores, sizes, strict=True) if s is not None]
    counts = (len(scores), failed, n_units)
    if n_units < 2:
        return HalvesResult(None, *counts, reason="the test set is one unit")
    if failed > _MAX_FAILED_SHARE * len(scores):
        why = f"{failed} of {len(scores)} halves cannot be scored"
        return HalvesResult(None, *counts, reason=why)
    if len(kept) < MIN_HALVES:
        why = f"only {len(kept)} halves were scored in the time given"
        return HalvesResult(None, *counts, reason=why)
    found, m = np.array([s for s, _ in kept]), np.array([m for _, m in kept], dtype=float)
    moved = score + (found - found.mean()) * np.sqrt(m / (n_units - m))
    # About the mean of all halves: each is one draw.
    error = float(np.sqrt(np.mean((moved - score) ** 2) * len(kept) / (len(kept) - 1)))
    if thresholds is None or lower_is_better is None:
        return HalvesResult(Odds(error, None, None, None, None), *counts)
    sign = -1.0 if lower_is_better else 1.0

    def share(threshold: float, *, strictly: bool = False) -> float:
        if len(kept) < _NORMAL_BELOW:
            if error == 0:
                gap = sign * (score - threshold)
                return float(gap > 0 if strictly else gap >= 0)
            return statistics.NormalDist().cdf(sign * (score - threshold) / error)
        reached = sign * moved > sign * threshold if strictly else sign * moved >= sign * threshold
        return float(np.mean(reached))

    at = thresholds
    odds = Odds(
        error,
        share(at.gold),
        share(at.silver),
        share(at.bronze),
        share(at.median, strictly=True),
    )
    return HalvesResult(odds if math.isfinite(error) else None, *counts)
