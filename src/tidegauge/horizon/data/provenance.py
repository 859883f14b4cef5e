"""Which human rows a task's ``human_minutes`` was made from, and which are something else.

The publisher of a baselined task computes ``human_minutes`` as the geometric mean of its human
runs and ``human_score`` as their mean score. Where only some of the rows give these two numbers
back, the others were no baselines: METR's file of February 2025 has 21 such rows, mostly round
and the last of their task, a median 4.1 times shorter. They are estimates written as runs.

Durations may be recorded in whole minutes, rounded down, so that a subset S of rows with
durations t reproduces a length L either exactly, L = geomean(t), or from the times before
rounding, geomean(t) <= L < geomean(t + 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice

import numpy as np

from tidegauge.arrays import FloatArray

_SUBSETS = 2**12  # looked at, the largest first: all of them for twelve rows
_MINUTES_ERROR = 6e-4  # human_minutes and human_score are published with three decimals
_SCORE_ERROR = 1e-3
_LENGTHS = 1_000  # whole lengths that chance is judged by
_PRIOR = (1.0, 10.0)
_STEPS = 200  # of the fixed-point iteration for the share of tasks with other rows

# What is said of a task's rows.
AGREE = "all rows"  # together, or all successes, they reproduce human_minutes
SPLIT = "some rows"  # a subset does; the others count as estimates
UNEXPLAINED = "no rows"  # no subset does: all are kept as timed runs


@dataclass(frozen=True)
class TaskRows:
    """Human rows of one baselined task: durations, scores, outcomes, and what was published."""

    minutes: Sequence[float]
    scores: Sequence[float]
    won: Sequence[bool]
    human_minutes: float
    human_score: float | None


@dataclass(frozen=True)
class _Candidate:
    """The rows that reproduce a length, and how often a length is reproduced by chance."""

    rows: tuple[int, ...]
    chance: float


def baseline_rows(tasks: Mapping[str, TaskRows]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Tell for every task which rows are baselines.

    With many rows or short tasks some subset may fit by chance. How likely that is, c, follows
    from the rows; how common other rows are in this file, s, from all its tasks together: a task
    with other rows always has such a subset, one without has it with probability c, so that

        P(other rows | a subset fits) = s / (s + (1 - s) c),      s ~ Beta(1, 10) before the data.

    Rows are told apart where this exceeds one half. The prior of s stands for trust in a file:
    in one of few tasks, rows are what they say unless chance is small.

    Returns
    -------
    dict
        Task to `AGREE`, `SPLIT` or `UNEXPLAINED`, and the indices of its timed runs: baselines
        and failures.
    """
    found: dict[str, tuple[str, tuple[int, ...]]] = {}
    candidates: dict[str, _Candidate] = {}
    for task, rows in tasks.items():
        everything = tuple(range(len(rows.minutes)))
        candidate, agree = _reproduce(rows)
        found[task] = (AGREE if agree else UNEXPLAINED, everything)
        if candidate is not None:
            candidates[task] = candidate
    several = sum(len(rows.minutes) > 1 for rows in tasks.values())
    share = _share_of_others([candidate.chance for candidate in candidates.values()], several)
    for task, candidate in candidates.items():
        if share > (1 - share) * candidate.chance:
            failed = [i for i, won in enumerate(tasks[task].won) if not won]
            found[task] = (SPLIT, tuple(sorted({*candidate.rows, *failed})))
    return found


def _share_of_others(chances: Sequence[float], several: int) -> float:
    """Return the share of tasks that have other rows: EM, with the posterior mean at each step."""
    chance, share = np.array(chances), 0.5
    for _ in range(_STEPS):
        expected = float(np.sum(share / (share + (1 - share) * chance)))
        share = (expected + _PRIOR[0]) / (several + sum(_PRIOR))
    return share


def _reproduce(rows: TaskRows) -> tuple[_Candidate | None, bool]:
    """Look for rows that reproduce the length without the others; say whether all of them do."""
    n, length = len(rows.minutes), rows.human_minutes
    # Other publishers leave failed runs out, and those are failed runs still: no estimates.
    successes = tuple(i for i in range(n) if rows.won[i])
    subsets = [each for each in islice(_subsets(n), _SUBSETS) if _scores_fit(rows, each)]
    subsets += [successes] if successes else []
    low, high = _bands(rows, subsets)
    everything = np.array([set(successes) <= set(subset) for subset in subsets], dtype=bool)
    fits_exactly = np.abs(low - length) <= _MINUTES_ERROR
    fits = (low - _MINUTES_ERROR <= length) & (length <= high + _MINUTES_ERROR)
    agree = bool(np.any(fits & everything))
    if np.any(fits_exactly & everything):
        return None, True
    if fits_exactly.any():
        chosen, lower, upper = fits_exactly, low - _MINUTES_ERROR, low + _MINUTES_ERROR
    else:
        chosen, lower, upper = fits & (not agree), low, high
    if not chosen.any() or rows.human_score is None:  # by its length alone too much fits
        return None, agree
    # The largest subset; among equals the one whose band has the length nearest to its middle,
    # so that the order of rows in the file does not matter.
    distance = np.abs(np.log(low * high) / 2 - math.log(length))
    best = min(np.flatnonzero(chosen), key=lambda i: (-len(subsets[i]), distance[i]))
    return _Candidate(subsets[best], _chance(rows, lower, upper)), agree


def _subsets(n: int) -> Iterator[tuple[int, ...]]:
    """Yield all subsets of n rows but the empty one, the largest first."""
    return chain.from_iterable(combinations(range(n), size) for size in range(n, 0, -1))


def _scores_fit(rows: TaskRows, subset: tuple[int, ...]) -> bool:
    if rows.human_score is None:
        return True
    mean = sum(rows.scores[i] for i in subset) / len(subset)
    return abs(mean - rows.human_score) <= _SCORE_ERROR


def _bands(rows: TaskRows, subsets: Sequence[tuple[int, ...]]) -> tuple[FloatArray, FloatArray]:
    """Return each subset's geometric mean as recorded, and its limit before rounding down."""
    minutes = np.array(rows.minutes)
    log_low = np.log(minutes)
    log_high = np.log(np.where(minutes == np.round(minutes), minutes + 1, minutes))
    low = np.array([np.exp(log_low[list(subset)].mean()) for subset in subsets])
    high = np.array([np.exp(log_high[list(subset)].mean()) for subset in subsets])
    return low, high


def _chance(rows: TaskRows, lower: FloatArray, upper: FloatArray) -> float:
    """Return the share of lengths between the shortest and the longest row that would fit.

    Of whole lengths where the published one is whole, of all lengths on a log scale otherwise.
    """
    first, last = min(rows.minutes), max(rows.minutes) + 1
    if rows.human_minutes == round(rows.human_minutes):
        ends = math.ceil(first), math.floor(last)
        lengths = np.unique(np.linspace(*ends, min(ends[1] - ends[0] + 1, _LENGTHS)).round())
        inside = (lower[:, None] <= lengths) & (lengths <= upper[:, None])
        return float(inside.any(axis=0).mean())
    covered, end = 0.0, math.log(first)
    for low, high in sorted(zip(np.log(lower).tolist(), np.log(upper).tolist(), strict=True)):
        covered += max(0.0, min(high, math.log(last)) - max(low, end))
        end = max(end, high)
    return covered / (math.log(last) - math.log(first))
