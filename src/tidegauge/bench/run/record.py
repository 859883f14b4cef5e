"""From a run's options and report to its line in runs.jsonl."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tidegauge.bench.competition_folder import Prepared
from tidegauge.bench.grade import Report
from tidegauge.bench.run.workspace import Limits
from tidegauge.schema.runs import RunRecord

FAMILY = "mlebench"


@dataclass(frozen=True)
class RunOptions:
    """How to run an agent.

    Attributes
    ----------
    command : str
        A shell command, run in the workspace.
    success_at : float, optional
        The score that counts as success in the record; any medal by default.
    mounts : tuple of Path
        Files and folders a bubblewrap sandbox also shows, read-only.
    passed : tuple of str
        Names of environment variables that an isolated agent keeps.
    """

    command: str
    alias: str
    protocol: str = "plain"
    isolation: str = "auto"
    limits: Limits = field(default_factory=Limits)
    success_at: float | None = None
    leaderboard: Path | None = None
    mounts: tuple[Path, ...] = ()
    passed: tuple[str, ...] = ()


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
    fatal = {"time": "usageLimits", "steps": "usageLimits", "failed": "runner"}.get(cause)
    if cause == "exited" and report["exit_code"] != 0:
        fatal = "agent"
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
        },
    )
