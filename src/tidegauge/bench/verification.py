"""A run's report checked against what it was made from: the grade is computed again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegauge.bench.competition_folder import Prepared
from tidegauge.bench.grading import grade_submission
from tidegauge.errors import InputError
from tidegauge.io import read_file
from tidegauge.schema.runs import read_runs

_MAX_REPORT_BYTES = 2**20
# What grading again must give again; times, paths and what only the run knew are not among them.
_GRADED = (
    "competition_id", "score", "score_exact", "gold_threshold", "silver_threshold",
    "bronze_threshold", "median_threshold", "any_medal", "gold_medal", "silver_medal",
    "bronze_medal", "above_median", "submission_exists", "valid_submission", "score_se", "p_gold",
    "p_silver_or_better", "p_bronze_or_better", "p_above_median", "problems",
)  # fmt: skip
_RECORDED = {"alias": "alias", "score_cont": "score", "tokens_count": "tokens_count",
             "started_at": "started_at", "completed_at": "completed_at"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as the report has it."""

    name: str
    reported: Any
    found: Any

    def __str__(self) -> str:
        return f"{self.name}: the report has {self.reported!r}, found {self.found!r}"


def verify(
    run: Path | str,
    prepared: Prepared,
    *,
    runs: Path | str | None = None,
    leaderboard: Path | None = None,
) -> list[Difference]:
    """Grade a run's submission again and return everything that differs from its report.

    Parameters
    ----------
    run : Path or str
        The run's folder, with report.json and submission.csv; nothing in it is changed.
    runs : Path or str, optional
        The file of records, to compare the run's line with its report.

    Raises
    ------
    InputError
        There is no report, or it is of another competition.

    Examples
    --------
    >>> verify("runs/naive-seed1-1a2b3c4d", prepared)  # doctest: +SKIP
    []
    """
    folder = Path(run)
    report = _read_report(folder / "report.json")
    if (name := report.get("competition_id")) != prepared.competition.competition_id:
        raise InputError(f"{folder}: is a run of {name}; give the prepared folder of that")
    submission = folder / "submission.csv"
    limit = prepared.max_bytes
    data = read_file(submission, max_bytes=limit) if submission.is_file() else None
    found = grade_submission(prepared, data or submission, leaderboard=leaderboard).report(
        prepared.competition
    )
    found["submission_sha256"] = None if data is None else hashlib.sha256(data).hexdigest()
    found["answers_sha256"] = prepared.answers_sha256()
    if not report.get("submission_exists"):
        report["problems"] = found["problems"]  # they name the place where the run looked
    names = (*_GRADED, "submission_sha256", "answers_sha256")
    differences = _compare(report, found, {name: name for name in names})
    if runs is not None:
        differences += _compare_record(report, Path(runs))
    return differences


def _compare_record(report: dict[str, Any], runs: Path) -> list[Difference]:
    found = [record for record in read_runs(runs) if record.run_id == report.get("run_id")]
    if len(found) != 1:
        return [Difference(f"records in {runs}", 1, len(found))]
    record = {name: getattr(found[0], name) for name in _RECORDED}
    return _compare(report, {_RECORDED[name]: value for name, value in record.items()}, _RECORDED)


def _compare(
    report: dict[str, Any], found: dict[str, Any], names: dict[str, str]
) -> list[Difference]:
    return [
        Difference(name, report.get(name), found[name])
        for name in names.values()
        if report.get(name) != found[name]
    ]


def _read_report(path: Path) -> dict[str, Any]:
    try:
        report = json.loads(read_file(path, max_bytes=_MAX_REPORT_BYTES))
        if not isinstance(report, dict):
            raise ValueError("not an object")
    except (InputError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: not a run's report ({error}); give a folder below --out"
        ) from None
    return report
