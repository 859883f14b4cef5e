"""From a run's options and report to its line in runs.jsonl."""

from __future__ import annotations

import time

import msgspec

from tidegauge.bench.competition_folder import Prepared
from tidegauge.bench.grade_report import Report
from tidegauge.bench.run.options import RunOptions
from tidegauge.schema.runs import RunRecord

FAMILY = "mlebench"
_OF_CHECKOUTS = ("split", "notices", "checkout_commit", "package_versions", "leaks_removed")
_FATAL = {"time": "usageLimits", "steps": "usageLimits", "disk": "usageLimits", "failed": "runner"}


def interrupted_record(
    prepared: Prepared, options: RunOptions, run_id: str, seed: int
) -> RunRecord:
    """Return the record as it stands if nothing more is ever heard of this run."""
    competition = prepared.competition
    now = int(time.time() * 1000)
    return RunRecord(
        task_id=f"{FAMILY}/{competition.competition_id}",
        task_family=FAMILY,
        run_id=run_id,
        alias=options.alias,
        score_binarized=0,
        human_minutes=competition.human_minutes,
        human_source="estimate",
        started_at=now,
        completed_at=now,
        time_limit=int(options.limits.hours * 3600),
        fatal_error_from="interrupted",
        scaffold=options.protocol,
        unknown={"exit_cause": "interrupted", "seed": seed},
    )


def finished_record(
    base: RunRecord, report: Report, prepared: Prepared, options: RunOptions
) -> RunRecord:
    """Return the record of a graded run."""
    score, cause = report["score"], report["exit_cause"]
    success = report["any_medal"]
    if options.success_at is not None:
        success = score is not None and prepared.competition.better(score, options.success_at)
    fatal = _FATAL.get(cause)
    if cause == "killed" or (cause == "exited" and report["exit_code"] != 0):
        fatal = "agent"
    if report["error"]:
        success, fatal = False, "runner"
    if cause == "interrupted":
        success, fatal = False, "interrupted"
    return msgspec.structs.replace(
        base,
        score_cont=score,
        score_binarized=int(success),
        started_at=report["started_at"],
        completed_at=report["completed_at"],
        tokens_count=report["tokens_count"],
        fatal_error_from=fatal,
        unknown={
            "exit_cause": cause,
            "seed": report["seed"],
            "score_se": report["score_se"],
            "isolation": report["isolation"],
            **{name: report[name] for name in _OF_CHECKOUTS if name in report},
        },
    )
