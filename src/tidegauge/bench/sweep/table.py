"""From graded runs to one line an agent: MLE-bench's figures exactly, then how sure they are."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tidegauge.bench.mlebench.notices import notices_of
from tidegauge.bench.sweep.results import SPLITS, Report, Results
from tidegauge.errors import InputError

# MLE-bench's metrics, and the field of a report that each counts.
METRICS = {
    "submission_exists": "submission_exists",
    "valid_submissions": "valid_submission",
    "above_median": "above_median",
    "gold": "gold_medal",
    "silver": "silver_medal",
    "bronze": "bronze_medal",
    "any_medal": "any_medal",
}
_BOOTSTRAP_DRAWS = 10_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A percentage over seeds, as MLE-bench has it: its error is 0 for a single seed."""

    mean: float
    ci_lower: float
    ci_upper: float
    standard_error: float


@dataclass(frozen=True)
class Aggregate:
    """MLE-bench's aggregate of one agent."""

    num_seeds_averaged: int
    num_competitions_per_seed: int
    metrics: dict[str, Estimate]

    def document(self) -> dict[str, Any]:
        """Return it by MLE-bench's names."""
        named = {f"{name}_percentage": asdict(found) for name, found in self.metrics.items()}
        return {
            "num_seeds_averaged": self.num_seeds_averaged,
            "num_competitions_per_seed": self.num_competitions_per_seed,
            "total_competitions": self.num_competitions_per_seed,
            "metrics": named,
        }


def aggregate_seeds(
    results: Results, agent: str, *, pad: bool = False, seeds: int | None = None
) -> Aggregate:
    """Aggregate as MLE-bench does: seed i takes the i-th report of every competition.

    Parameters
    ----------
    pad : bool
        Count as many seeds as the competition with the most, and gaps as failures; otherwise as
        many as the competition with the fewest.
    seeds : int, optional
        The first so many.

    Raises
    ------
    InputError
        A competition has no report, or fewer seeds than asked for.
    """
    queues = [_present(results, agent, name) for name in results.competitions]
    lengths = [len(queue) for queue in queues] or [0]
    n_seeds = max(lengths) if pad else min(lengths)
    if n_seeds == 0:
        missing = [c for c, q in zip(results.competitions, queues, strict=True) if not q]
        shown = ", ".join(missing[:3]) or "no competition"
        raise InputError(f"{agent}: {shown} has no report; --pad counts gaps as failures")
    if seeds is not None:
        if seeds > n_seeds:
            raise InputError(f"{agent}: has {n_seeds} whole seeds, --seeds asks for {seeds}")
        n_seeds = seeds
    metrics = {}
    for name, field in METRICS.items():
        shares = [
            100 * sum(bool(q[i].get(field)) for q in queues if i < len(q)) / len(queues)
            for i in range(n_seeds)
        ]
        metrics[name] = _estimate(shares)
    return Aggregate(n_seeds, len(queues), metrics)


def _present(results: Results, agent: str, competition: str) -> list[Report]:
    found = results.reports.get(agent, {}).get(competition, ())
    return [report for report in found if report is not None]


def _estimate(shares: Sequence[float]) -> Estimate:
    mean = statistics.fmean(shares)
    error = statistics.stdev(shares) / math.sqrt(len(shares)) if len(shares) > 1 else 0.0
    return Estimate(mean, mean - 1.96 * error, mean + 1.96 * error, error)


@dataclass(frozen=True, slots=True)
class Row:
    """One agent on one set of competitions; percentages of competitions with any medal.

    Attributes
    ----------
    any_medal, sem : float or None
        MLE-bench's mean and standard error over seeds.
    se_runs : float
        Had the agent been run again: the variance within competitions.
    se_tasks : float
        Had other competitions been drawn.
    se_test : float or None
        Had other test rows been drawn, from the medal odds; None where they are not known.
    expected_medals : float or None
        The sum of the medal odds.
    missing : int
        Runs without a report, of those that were planned.
    """

    agent: str
    split: str
    competitions: int
    seeds: int | None
    any_medal: float | None
    sem: float | None
    se_runs: float | None
    se_tasks: float | None
    se_test: float | None
    expected_medals: float | None
    missing: int


def make_table(results: Results, *, pad: bool = False, seeds: int | None = None) -> list[Row]:
    """Return one row for each agent and split, and for all competitions."""
    rows = []
    for agent in results.agents:
        for split in (*SPLITS, "all"):
            part = results if split == "all" else results.of_split(split)
            if part.competitions:
                rows.append(_row(part, agent, split, pad=pad, seeds=seeds))
    return rows


def _row(results: Results, agent: str, split: str, *, pad: bool, seeds: int | None) -> Row:
    queues = [_present(results, agent, name) for name in results.competitions]
    most = max(map(len, queues))
    planned = max(len(results.reports[agent].get(name, ())) for name in results.competitions)
    if pad:
        queues = [[*queue, *[{}] * (most - len(queue))] for queue in queues]
    seen = [queue for queue in queues if queue]
    try:
        found: Aggregate | None = aggregate_seeds(results, agent, pad=pad, seeds=seeds)
    except InputError:
        found = None  # there are gaps: nothing is made up
    medal = None if found is None else found.metrics["any_medal"]
    odds = [_odds(queue) for queue in seen]
    known = [p for p in odds if p is not None]
    return Row(
        agent=agent,
        split=split,
        competitions=len(results.competitions),
        seeds=None if found is None else found.num_seeds_averaged,
        any_medal=None if medal is None else medal.mean,
        sem=None if medal is None else medal.standard_error,
        se_runs=_se_runs(seen),
        se_tasks=_se_tasks(seen),
        se_test=_se_test(known) if seen and len(known) == len(seen) else None,
        expected_medals=sum(known) if seen and len(known) == len(seen) else None,
        missing=sum(planned - len(_present(results, agent, c)) for c in results.competitions),
    )


def _rates(queues: Sequence[Sequence[Report]]) -> list[float]:
    return [statistics.fmean(bool(r.get("any_medal")) for r in queue) for queue in queues]


def _se_runs(queues: Sequence[Sequence[Report]]) -> float | None:
    """Return the error of the mean rate from runs alone, with a Jeffreys prior a competition.

    With k medals in n runs the rate is Beta(k + 1/2, n − k + 1/2), and the expected variance of
    one run a·b / ((a + b)(a + b + 1)): three equal runs do not make it 0.
    """
    if not queues:
        return None
    total = 0.0
    for queue in queues:
        a = sum(bool(report.get("any_medal")) for report in queue) + 0.5
        b = len(queue) + 1 - a
        total += a * b / ((a + b) * (a + b + 1)) / len(queue)
    return 100 * math.sqrt(total) / len(queues)


def _se_tasks(queues: Sequence[Sequence[Report]]) -> float | None:
    """Return the SD of the mean rate over competitions drawn with replacement: in closed form."""
    if len(queues) < 2:
        return None
    return 100 * statistics.pstdev(_rates(queues)) / math.sqrt(len(queues))


def _odds(queue: Sequence[Report]) -> float | None:
    """Return the mean odds of a medal; an invalid or missing submission has none."""
    found = []
    for report in queue:
        if report.get("p_bronze_or_better") is not None:
            found.append(float(report["p_bronze_or_better"]))
        elif not report.get("valid_submission"):
            found.append(0.0)
        else:
            return None
    return statistics.fmean(found)


def _se_test(odds: Sequence[float]) -> float:
    """Return the error from test rows: seeds share a competition's rows, so they count as one."""
    return 100 * math.sqrt(sum(p * (1 - p) for p in odds)) / len(odds)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two agents on the same competitions: rates of medals in per cent, first less second.

    Attributes
    ----------
    lower, upper : float
        The 95 % interval of a bootstrap over competitions, both on the same draw.
    won : float
        The share of competitions with the better rate, ties halved.
    """

    first: str
    second: str
    competitions: int
    difference: float
    lower: float
    upper: float
    won: float


def compare_agents(results: Results, first: str, second: str, *, seed: int = 1) -> Comparison:
    """Compare two agents on the competitions that both ran.

    Raises
    ------
    InputError
        An agent is unknown, or they share fewer than two competitions.
    """
    for name in (first, second):
        if name not in results.reports:
            raise InputError(f"no agent {name!r}; there are: {', '.join(results.agents)}")
    pairs = [
        (_present(results, first, c), _present(results, second, c)) for c in results.competitions
    ]
    both = [(a, b) for a, b in pairs if a and b]
    if len(both) < 2:
        raise InputError(f"{first} and {second} share {len(both)} competitions; 2 are needed")
    differences = np.array(_rates([a for a, _ in both])) - np.array(_rates([b for _, b in both]))
    rng = np.random.default_rng(seed)
    draws = rng.integers(len(both), size=(_BOOTSTRAP_DRAWS, len(both)))
    lower, upper = np.quantile(differences[draws].mean(axis=1), [0.025, 0.975])
    won = float(np.mean(np.where(differences == 0, 0.5, differences > 0)))
    return Comparison(
        first,
        second,
        len(both),
        100 * float(differences.mean()),
        100 * float(lower),
        100 * float(upper),
        won,
    )


@dataclass(frozen=True, slots=True)
class CompetitionRow:
    """One agent on one competition."""

    competition: str
    agent: str
    runs: int
    medals: int
    median_score: float | None
    score_se: float | None
    p_medal: float | None
    notices: str


def make_competition_table(results: Results) -> list[CompetitionRow]:
    """Return one row for each competition and agent."""
    rows = []
    for name in results.competitions:
        for agent in results.agents:
            queue = _present(results, agent, name)
            scores = [r["score"] for r in queue if isinstance(r.get("score"), int | float)]
            errors = [r["score_se"] for r in queue if isinstance(r.get("score_se"), int | float)]
            rows.append(
                CompetitionRow(
                    competition=name,
                    agent=agent,
                    runs=len(queue),
                    medals=sum(bool(report.get("any_medal")) for report in queue),
                    median_score=statistics.median(scores) if scores else None,
                    score_se=statistics.fmean(errors) if errors else None,
                    p_medal=_odds(queue) if queue else None,
                    notices=", ".join(dict.fromkeys(n.kind for n in notices_of(name))),
                )
            )
    return rows
