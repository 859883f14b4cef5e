"""Grading: one report a submission, in MLE-bench's fields and then ours.

A `SubmissionError` makes the submission invalid. Any other exception is a fault of the grader
and is never called an invalid submission.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tidegauge.bench.competition_folder import Prepared, open_prepared
from tidegauge.bench.competitions.registry import get_competition
from tidegauge.bench.grade_report import Grade, Report
from tidegauge.errors import InputError, TideGaugeError
from tidegauge.io import open_binary
from tidegauge.progress import SILENT, Progress


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
    >>> grade = grade_submission(prepared, Path("submission.csv"))  # doctest: +SKIP
    >>> grade.report(prepared.competition)["any_medal"]             # doctest: +SKIP
    False
    """
    return prepared.grade(submission, leaderboard=leaderboard, seed=seed)


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
    return {**extra, **grade.report(prepared.competition)}


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
