"""Grading: one report a submission, in MLE-bench's fields and then ours.

A `SubmissionError` makes the submission invalid. Any other exception is a fault of the grader
and is never called an invalid submission.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tidegauge.bench.competition_folder import Prepared, open_prepared
from tidegauge.bench.competitions.base import Answers, Columns, Thresholds
from tidegauge.bench.competitions.registry import get_competition
from tidegauge.bench.medals import Odds, bootstrap_odds, thresholds_from_leaderboard
from tidegauge.errors import InputError, TideGaugeError
from tidegauge.io import open_binary
from tidegauge.progress import SILENT, Progress
from tidegauge.schema.submission import SubmissionTable

SCORE_DECIMALS = 5
Report = dict[str, Any]


@dataclass(frozen=True)
class Grade:
    """What a submission earned.

    Attributes
    ----------
    score : float or None
        At full precision; None without a valid submission.
    problems : list of str
        Why the submission is invalid.
    """

    submission_path: str
    submission_exists: bool
    score: float | None
    odds: Odds | None
    problems: list[str]
    thresholds: Thresholds

    @property
    def valid(self) -> bool:
        """Whether there is a submission and it is valid."""
        return self.score is not None

    def report(self, prepared: Prepared) -> Report:
        """Return the report JSON; medals follow the score as reported, at five decimals."""
        competition = prepared.competition
        score = None if self.score is None else round(self.score, SCORE_DECIMALS)
        at = self.thresholds

        def reaches(threshold: float) -> bool:
            return score is not None and competition.better(score, threshold)

        gold, silver, bronze = reaches(at.gold), reaches(at.silver), reaches(at.bronze)
        odds = asdict(self.odds) if self.odds else dict.fromkeys(Odds.__dataclass_fields__)
        return {
            "competition_id": competition.competition_id,
            "score": score,
            "gold_threshold": at.gold,
            "silver_threshold": at.silver,
            "bronze_threshold": at.bronze,
            "median_threshold": at.median,
            "any_medal": gold or silver or bronze,
            "gold_medal": gold,
            "silver_medal": silver and not gold,
            "bronze_medal": bronze and not silver and not gold,
            "above_median": reaches(at.median) and score != at.median,
            "submission_exists": self.submission_exists,
            "valid_submission": self.valid,
            "is_lower_better": competition.lower_is_better,
            "created_at": datetime.now(UTC).isoformat(),
            "submission_path": self.submission_path,
            "score_exact": self.score,
            **{name: _finite(value) for name, value in odds.items()},
            "problems": self.problems,
        }


def grade_submission(
    prepared: Prepared,
    submission: Path | bytes,
    *,
    leaderboard: Path | None = None,
    seed: int = 1,
) -> Grade:
    """Grade one submission: a file, or its bytes.

    Parameters
    ----------
    leaderboard : Path, optional
        CSV whose medal ranks replace the competition's own thresholds.

    Raises
    ------
    InputError
        The prepared folder or the leaderboard cannot be used: a fault of the set-up, not of the
        submission.

    Examples
    --------
    >>> grade_submission(prepared, Path("submission.csv")).report(prepared)  # doctest: +SKIP
    """
    thresholds = find_thresholds(prepared, leaderboard)
    path = "" if isinstance(submission, bytes) else str(submission)
    if isinstance(submission, Path) and not submission.is_file():
        missing = [f"there is no file at {submission}"]
        return Grade(path, False, None, None, missing, thresholds)
    verdict = prepared.check(submission)
    if verdict.table is None:
        return Grade(path, True, None, None, verdict.problems, thresholds)
    score, answers, predicted = score_table(prepared, verdict.table)
    odds = bootstrap_odds(prepared.competition, answers, predicted, thresholds, seed=seed)
    return Grade(path, True, score, odds, [], thresholds)


class Scored(NamedTuple):
    """A score, and the aligned rows it came from."""

    score: float
    answers: Answers
    predicted: Columns


def score_table(prepared: Prepared, table: SubmissionTable) -> Scored:
    """Score a valid submission against the private answers.

    Raises
    ------
    InputError
        The answers ask for rows that the public sample submission does not name.
    """
    competition = prepared.competition
    answers = competition.read_answers(prepared.private)
    row_of = {key: row for row, key in enumerate(table.keys)}
    try:
        rows = [row_of[key] for key in answers.keys]
    except KeyError as error:
        raise InputError(
            f"{prepared.private}: answer {error} is not in the public sample submission; "
            "the two folders are of different data: prepare the competition again"
        ) from None
    predicted = {name: column[rows] for name, column in table.values.items()}
    score = competition.score(answers.truth, predicted)
    if not math.isfinite(score):
        raise ArithmeticError(f"{competition.name}: a valid submission scored {score}")
    return Scored(score, answers, predicted)


def find_thresholds(prepared: Prepared, leaderboard: Path | None = None) -> Thresholds:
    """Return the given leaderboard's thresholds, the competition's, or the prepared ones."""
    competition = prepared.competition
    if leaderboard is None and competition.thresholds is not None:
        return competition.thresholds
    path = leaderboard or prepared.private / "leaderboard.csv"
    return thresholds_from_leaderboard(path, lower_is_better=competition.lower_is_better)


def grade_many(
    lines: Path,
    prepared: Prepared,
    *,
    leaderboard: Path | None = None,
    seed: int = 1,
    progress: Progress = SILENT,
) -> Report:
    """Grade every line of a JSONL file and return the aggregate; one failure is one failed row.

    A line holds ``submission_path``, and may hold ``competition_id`` and ``prepared`` (a folder)
    where it is for another competition than `prepared`.
    """
    with open_binary(lines) as handle:
        rows = [row for row in handle.read().splitlines() if row.strip()]
    reports = []
    with progress.step("grading", total=len(rows)) as step:
        for number, row in enumerate(rows, start=1):
            try:
                reports.append(_grade_line(row, lines, prepared, leaderboard, seed))
            except Exception as error:  # one bad row must not block the others; it is named
                what = str(error) if isinstance(error, TideGaugeError) else repr(error)
                reports.append(_failed_row(f"{lines}:{number}: {what}"))
            step.update(number)
    return aggregate(reports)


def _grade_line(
    raw: bytes, lines: Path, prepared: Prepared, leaderboard: Path | None, seed: int
) -> Report:
    try:
        row = json.loads(raw)
        path = Path(row["submission_path"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"must be an object with submission_path ({error!r})") from None
    name = row.get("competition_id", prepared.competition.competition_id)
    competition = get_competition(name)
    if competition != prepared.competition or "prepared" in row:
        if "prepared" not in row:
            raise InputError(f"competition_id={name}: add `prepared`, its folder, to the line")
        prepared, leaderboard = open_prepared(competition, Path(row["prepared"])), None
    if not path.exists() and not path.is_absolute():
        path = lines.parent / path
    grade = grade_submission(prepared, path, leaderboard=leaderboard, seed=seed)
    extra = {name: value for name, value in row.items() if name != "submission_path"}
    return {**extra, **grade.report(prepared)}


def _failed_row(error: str) -> Report:
    return {"competition_id": None, "score": None, "valid_submission": False, "error": error}


def aggregate(reports: Sequence[Report]) -> Report:
    """Return MLE-bench's aggregate of many reports, with the failed rows counted."""

    def count(name: str) -> int:
        return sum(bool(report.get(name)) for report in reports)

    return {
        "total_runs": len(reports),
        "total_runs_with_submissions": count("submission_exists"),
        "total_valid_submissions": count("valid_submission"),
        "total_medals": count("any_medal"),
        "total_gold_medals": count("gold_medal"),
        "total_silver_medals": count("silver_medal"),
        "total_bronze_medals": count("bronze_medal"),
        "total_above_median": count("above_median"),
        "total_failed": count("error"),
        "competition_reports": list(reports),
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
