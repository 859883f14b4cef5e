"""Grading: one report a submission, in MLE-bench's fields and then ours.

A `SubmissionError` makes the submission invalid. Any other exception is a fault of the grader
and is never called an invalid submission.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidegauge.bench.competition_folder import Prepared
from tidegauge.bench.competitions.base import Competition
from tidegauge.bench.grade_report import Grade, Report
from tidegauge.bench.sources import find_competition, open_competition
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
    prepared: Prepared | None = None,
    *,
    leaderboard: Path | None = None,
    seed: int = 1,
    progress: Progress = SILENT,
    adjust: Callable[[Prepared], Prepared] = lambda found: found,
) -> Report:
    """Grade every line of a JSONL file and return the aggregate; one failure is one failed row.

    A line holds ``submission_path`` (null for none), and may hold ``competition_id`` and
    ``prepared`` (a folder) where it is for another competition than `prepared`. Without `prepared`
    every line names its competition, a checkout's before others, as MLE-bench's files do. Empty
    lines and those that begin with ``#`` or ``//`` are skipped.

    Parameters
    ----------
    adjust : callable
        Changes how the competitions that lines name are graded.
    """
    with open_binary(lines) as handle:
        found = enumerate(handle.read().splitlines(), start=1)
        rows = [(n, row) for n, row in found if row.strip() and not row.startswith((b"#", b"//"))]
    reports = []
    place = _Place(lines, prepared, leaderboard, seed, adjust)
    with progress.step("grading", total=len(rows)) as step:
        for done, (number, row) in enumerate(rows, start=1):
            try:
                reports.append(place.grade_line(row))
            except Exception as error:  # one bad row must not block the others; it is named
                what = str(error) if isinstance(error, TideGaugeError) else repr(error)
                reports.append(_failed_row(f"{lines}:{number}: {what}"))
            step.update(done)
    return aggregate(reports)


@dataclass
class _Place:
    """A file of submissions, and the competitions that were opened for its lines."""

    lines: Path
    prepared: Prepared | None
    leaderboard: Path | None
    seed: int
    adjust: Callable[[Prepared], Prepared]
    _opened: dict[tuple[str, str | None], Prepared] = field(default_factory=dict)

    def grade_line(self, raw: bytes) -> Report:
        """Grade one line."""
        try:
            row = json.loads(raw)
            given = row["submission_path"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f"must be an object with submission_path ({error!r})") from None
        prepared, leaderboard = self._competition(row)
        path = Path(given) if isinstance(given, str) else Path("(none)")
        if not path.exists() and not path.is_absolute():
            path = self.lines.parent / path
        grade = prepared.grade(path, leaderboard=leaderboard, seed=self.seed)
        report = grade.report(prepared.competition)
        if given is None:
            report |= {"submission_path": None, "problems": ["there is no submission"]}
        return {**{n: v for n, v in row.items() if n != "submission_path"}, **report}

    def _competition(self, row: Report) -> tuple[Prepared, Path | None]:
        name, folder = row.get("competition_id"), row.get("prepared")
        own = self.prepared
        if own is not None and folder is None and name in (None, own.competition.competition_id):
            return own, self.leaderboard
        if not isinstance(name, str):
            raise InputError("has no competition_id; name the competition")
        if (name, folder) not in self._opened:
            competition = find_competition(name, prefer_checkout=own is None)
            if own is not None and folder is None and isinstance(competition, Competition):
                if competition == own.competition:
                    return own, self.leaderboard
                raise InputError(f"competition_id={name}: add `prepared`, its folder, to the line")
            self._opened[name, folder] = self.adjust(open_competition(competition, folder))
        return self._opened[name, folder], None


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
