"""Sweeps in MLE-bench's layout of run groups, and public run groups as records."""

from __future__ import annotations

import json
import shutil
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidegauge.bench.grading import aggregate
from tidegauge.bench.mlebench.facts import HUMAN_MINUTES, facts_of
from tidegauge.bench.sweep.plan import Cell, cell_folder, read_plan, report_of
from tidegauge.bench.sweep.results import read_reports
from tidegauge.errors import InputError
from tidegauge.io import atomic_folder, make_folder
from tidegauge.schema.runs import RunRecord, append_runs

_FIELDS = (
    "competition_id", "score", "gold_threshold", "silver_threshold", "bronze_threshold",
    "median_threshold", "any_medal", "gold_medal", "silver_medal", "bronze_medal", "above_median",
    "submission_exists", "valid_submission", "is_lower_better", "created_at", "submission_path",
)  # fmt: skip
_TOTALS = (
    "total_runs", "total_runs_with_submissions", "total_valid_submissions", "total_medals",
    "total_gold_medals", "total_silver_medals", "total_bronze_medals", "total_above_median",
    "competition_reports",
)  # fmt: skip
_CODE = {".py", ".ipynb", ".sh", ".R"}
_NAMESPACE = uuid.UUID("6f1c7c9e-6f57-4d0e-9f0b-0d6a3a2f5d11")  # the same cell, the same run id


def export_run_groups(sweep: Path, out: Path) -> list[Path]:
    """Write one run group for each agent and seed of a sweep; return their folders.

    Each has a folder a run (submission/submission.csv, logs/, code/), metadata.json,
    submission.jsonl and a grading report with MLE-bench's fields alone.

    Raises
    ------
    InputError
        Nothing of the sweep is done yet.
    """
    groups: dict[tuple[str, int], list[tuple[Cell, dict[str, Any]]]] = {}
    for cell in read_plan(sweep):
        if (report := report_of(sweep, cell)) is not None:
            groups.setdefault((cell.agent.alias, cell.seed), []).append((cell, report))
    if not groups:
        raise InputError(f"{sweep}: no run is done yet; run `tidegauge bench sweep --out {sweep}`")
    made, lines = [], ["experiment_id,run_group"]
    for (alias, _), runs in groups.items():
        began = min(int(report["started_at"]) for _, report in runs) / 1000
        folder = out / f"{_stamp(began)}_run-group_{alias}"
        while folder in made:  # two seeds that began in one second
            began += 1
            folder = out / f"{_stamp(began)}_run-group_{alias}"
        with atomic_folder(folder) as staging:
            _write_group(staging, folder, sweep, runs, began)
        made.append(folder)
        lines.append(f"{alias},{folder.name}")
    (out / "run_group_experiments.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return made


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H-%M-%S-GMT")


def _write_group(
    staging: Path,
    folder: Path,
    sweep: Path,
    runs: list[tuple[Cell, dict[str, Any]]],
    began: float,
) -> None:
    metadata: dict[str, Any] = {}
    lines, reports = [], []
    for cell, report in runs:
        name = str(report["competition_id"])
        run_id = f"{name}_{uuid.uuid5(_NAMESPACE, str(report['run_id']))}"
        place = make_folder(staging / run_id)
        source = Path(str(report["submission_path"])).parent
        source = cell_folder(sweep, cell) / source.name  # the sweep may have been moved
        path = None
        make_folder(place / "submission")
        if (source / "submission.csv").is_file():
            shutil.copyfile(source / "submission.csv", place / "submission" / "submission.csv")
            path = str(folder / run_id / "submission" / "submission.csv")
        for part, names in (
            ("logs", ("agent.stdout.txt", "agent.stderr.txt", "transcript.jsonl")),
        ):
            make_folder(place / part)
            for file in names:
                if (source / file).is_file():
                    shutil.copyfile(source / file, place / part / file)
        _copy_code(source / "workspace", make_folder(place / "code"))
        metadata[run_id] = {"success": bool(report["submission_exists"])}
        lines.append(json.dumps({"competition_id": name, "submission_path": path}))
        reports.append({**{field: report.get(field) for field in _FIELDS}, "submission_path": path})
    document = {
        "run_group": folder.name,
        "created_at": datetime.fromtimestamp(began, UTC).isoformat(),
        "runs": metadata,
    }
    (staging / "metadata.json").write_text(json.dumps(document, indent=4) + "\n")
    (staging / "submission.jsonl").write_text("\n".join(lines) + "\n")
    totals = aggregate(reports)
    report = {name: totals[name] for name in _TOTALS}
    text = json.dumps(report, indent=4, allow_nan=False) + "\n"
    (staging / f"{_stamp(began)}_grading_report.json").write_text(text)


def _copy_code(workspace: Path, target: Path) -> None:
    """Copy the code that an agent left at the top of its workspace; no link is followed."""
    if not workspace.is_dir():
        return
    for path in sorted(workspace.iterdir()):
        is_code = path.suffix in _CODE and path.name != "validate_submission.sh"
        if is_code and path.is_file() and not path.is_symlink():
            shutil.copyfile(path, target / path.name)


def import_run_groups(folder: Path, runs: Path) -> int:
    """Append every report of public run groups to a file of records; return how many are new.

    The agent is the end of the run group's name. Human times are estimates by complexity.

    Raises
    ------
    InputError
        There is no grading report, or one cannot be read (a Git LFS pointer, for instance).
    """
    paths = sorted(folder.rglob("*grading_report*.json"))
    if not paths:
        raise InputError(f"{folder}: holds no *_grading_report.json; give MLE-bench's runs folder")
    records = []
    for path in paths:
        agent = path.parent.name.partition("_run-group_")[2] or path.parent.name
        for number, report in enumerate(read_reports(path)):
            records.append(_record(path, number, report, agent))
    return append_runs(runs, records)


def _record(path: Path, number: int, report: dict[str, Any], agent: str) -> RunRecord:
    name = report.get("competition_id")
    if not isinstance(name, str):
        raise InputError(f"{path}: report {number + 1} has no competition_id")
    known = facts_of(name)
    score = report.get("score")
    split = known.split if known else "medium"
    return RunRecord(
        task_id=f"mlebench/{name}",
        task_family="mlebench",
        run_id=f"{path.parent.name}/{path.name}:{number}:{name}",
        alias=str(report.get("alias") or agent),
        score_cont=score if isinstance(score, int | float) else None,
        score_binarized=int(bool(report.get("any_medal"))),
        human_minutes=HUMAN_MINUTES.get(split, HUMAN_MINUTES["medium"]),
        human_source="estimate",
        completed_at=_milliseconds(report.get("created_at")),
        unknown={"split": split},
    )


def _milliseconds(text: object) -> int | None:
    try:
        return int(datetime.fromisoformat(str(text)).timestamp() * 1000)
    except ValueError:
        return None
