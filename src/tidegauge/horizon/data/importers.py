"""Logs of other tools as run records: Inspect's ``.eval`` files and MLE-bench's reports.

An ``.eval`` log is a ZIP of JSON files, read here directly: Inspect need not be installed.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from tidegauge.errors import InputError, ProblemsError
from tidegauge.horizon.data.inspect_logs import EvalSample, read_eval_log
from tidegauge.schema.faults import is_number
from tidegauge.schema.runs import RunRecord

MLEBENCH_FAMILY = "mlebench"
_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}  # Inspect: correct, incorrect, partial, none
_WORDS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}


@dataclass(frozen=True, slots=True)
class TaskTime:
    """How long a task takes a human, in minutes, and how that is known."""

    human_minutes: float
    human_source: str = "estimate"


@dataclass
class Imported:
    """What an import gave: the records, and what was left out and why."""

    records: list[RunRecord] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)

    def skip(self, reason: str) -> None:
        """Count one run that is not imported."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


@dataclass(frozen=True)
class InspectOptions:
    """How Inspect's samples become runs.

    Attributes
    ----------
    scorer : str, optional
        Name of the scorer, or ``scorer.key`` where its value is a dict; needed if there are many.
    threshold : float
        A value of at least this is a success.
    aliases : mapping of str to str
        Model name to alias; others keep their name.
    errors : str
        ``fail`` counts a sample that ended in an error as a failure, ``skip`` leaves it out.
    """

    scorer: str | None = None
    threshold: float = 0.5
    aliases: Mapping[str, str] = field(default_factory=dict)
    errors: str = "fail"


def read_task_times(path: Path) -> dict[str, TaskTime]:
    """Read a table of human times: CSV or JSON lines with task_id, human_minutes, human_source.

    Raises
    ------
    ProblemsError
        A row lacks a task or has no positive time.
    """
    times: dict[str, TaskTime] = {}
    problems = []
    for line, row in _table_rows(path):
        try:
            minutes = float(row["human_minutes"])
            if not 0 < minutes < 1e9 or not row["task_id"]:
                raise ValueError
        except (KeyError, TypeError, ValueError):
            shown = {name: row.get(name) for name in ("task_id", "human_minutes")}
            problems.append(f"{path}:{line}: {shown}: needs a task_id and positive human_minutes")
            continue
        times[str(row["task_id"])] = TaskTime(minutes, row.get("human_source") or "estimate")
    if problems:
        raise ProblemsError(problems)
    return times


def _table_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as handle:
            if path.suffix in (".jsonl", ".json"):
                for line, text in enumerate(handle, start=1):
                    if text.strip():
                        row = json.loads(text)
                        yield line, row if isinstance(row, dict) else {}
            else:
                reader = csv.DictReader(handle)
                for values in reader:
                    yield reader.line_num, values
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read as a table of tasks ({error})") from error


def import_inspect(
    logs: Sequence[Path], times: Mapping[str, TaskTime], options: InspectOptions
) -> Imported:
    """Turn the samples of Inspect logs into run records.

    A task is ``<eval task>/<sample id>``; its human time is looked up by that, by the sample id,
    by the eval task, or in the sample's own metadata.

    Raises
    ------
    InputError
        A log cannot be read, or holds several scorers and none was chosen.
    ProblemsError
        Tasks without a human time; all are named.
    """
    result = Imported()
    unknown: dict[str, None] = {}
    for path in _log_files(logs):
        log = read_eval_log(path)
        for sample in log.samples:
            task = f"{log.task}/{sample.id}"
            time = _find_time(times, task, sample, log.task)
            if sample.invalidation is not None:
                result.skip("invalidated")
            elif sample.error is not None and options.errors == "skip":
                result.skip("ended in an error")
            elif sample.error is None and not sample.scores:
                result.skip("without a score")
            elif time is None:
                unknown[task] = None
            else:
                value = _score(path, sample, options)
                result.records.append(
                    _inspect_record(log.task, log.model, sample, value, time, options)
                )
    if unknown:
        raise ProblemsError(
            [
                f"{task}: no human time; add a row task_id,human_minutes to --tasks"
                for task in unknown
            ]
        )
    return result


def _log_files(places: Iterable[Path]) -> Iterator[Path]:
    for place in places:
        if place.is_dir():
            yield from sorted(path for path in place.rglob("*.eval"))
        else:
            yield place


def _find_time(
    times: Mapping[str, TaskTime], task: str, sample: EvalSample, family: str
) -> TaskTime | None:
    for name in (task, str(sample.id), family):
        if name in times:
            return times[name]
    minutes = sample.metadata.get("human_minutes")
    if is_number(minutes) and minutes > 0:
        return TaskTime(float(minutes), str(sample.metadata.get("human_source", "estimate")))
    return None


def _score(path: Path, sample: EvalSample, options: InspectOptions) -> float | None:
    """Return the chosen score as a number; None where the sample ended before it was scored."""
    if not sample.scores:
        return None
    name, _, key = (options.scorer or "").partition(".")
    if not name:
        if len(sample.scores) > 1:
            raise InputError(
                f"{path}: several scorers ({', '.join(sample.scores)}); choose one with --scorer"
            )
        name = next(iter(sample.scores))
    if name not in sample.scores:
        raise InputError(f"{path}: no scorer {name!r}; there are: {', '.join(sample.scores)}")
    value = sample.scores[name].get("value")
    if isinstance(value, dict):
        if key not in value:
            keys = ", ".join(f"{name}.{k}" for k in value)
            raise InputError(f"{path}: the score is a table; choose one of --scorer {keys}")
        value = value[key]
    return _number(path, sample, value)


def _number(path: Path, sample: EvalSample, value: object) -> float:
    if isinstance(value, bool) or is_number(value):
        return float(value)
    if isinstance(value, str):
        known = _LETTERS | _WORDS
        if (found := known.get(value, known.get(value.lower()))) is not None:
            return found
        try:
            return float(value)
        except ValueError:
            pass
    raise InputError(f"{path}: sample {sample.id}: score {value!r} is no number; choose another")


def _inspect_record(
    family: str,
    model: str,
    sample: EvalSample,
    value: float | None,
    time: TaskTime,
    options: InspectOptions,
) -> RunRecord:
    failed = "error" if sample.error is not None else "usageLimits" if sample.limit else None
    counts = [use.get("total_tokens") for use in (sample.model_usage or {}).values()]
    usage = [count for count in counts if is_number(count)]
    return RunRecord(
        task_id=f"{family}/{sample.id}",
        task_family=family,
        run_id=sample.uuid or f"{family}/{sample.id}/{sample.epoch}",
        alias=options.aliases.get(model, model),
        model=model,
        score_cont=value,
        score_binarized=int(value is not None and value >= options.threshold),
        human_minutes=time.human_minutes,
        human_source=time.human_source,
        started_at=_milliseconds(sample.started_at),
        completed_at=_milliseconds(sample.completed_at),
        tokens_count=sum(usage) or None,
        fatal_error_from=failed,
        scaffold="inspect",
    )


def _milliseconds(moment: object) -> int | None:
    try:
        return int(datetime.fromisoformat(str(moment)).timestamp() * 1000) if moment else None
    except (ValueError, OverflowError):
        return None


def import_mlebench(
    reports: Sequence[Path],
    times: Mapping[str, TaskTime],
    *,
    alias: str | None = None,
    success: str = "any_medal",
) -> Imported:
    """Turn MLE-bench grading reports, single or aggregate, into run records.

    Parameters
    ----------
    alias : str, optional
        The agent; needed where the reports do not name one.
    success : str
        The report's field that counts as success: any_medal, gold_medal, above_median,
        valid_submission.

    Raises
    ------
    ProblemsError
        Reports that cannot be used; all are named.
    """
    result = Imported()
    problems: list[str] = []
    for path in reports:
        for number, report in enumerate(_reports_in(path)):
            where = f"{path}: report {number + 1}"
            try:
                result.records.append(_mlebench_record(path, number, report, times, alias, success))
            except InputError as error:
                problems.append(f"{where}: {error}")
    if problems:
        raise ProblemsError(problems)
    return result


def _reports_in(path: Path) -> list[dict[str, Any]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        reports = content.get("competition_reports", [content])
        if not all(isinstance(report, dict) for report in reports):
            raise ValueError("reports must be objects")
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: not a grading report ({error})") from error
    return list(reports)


def _mlebench_record(
    path: Path,
    number: int,
    report: Mapping[str, Any],
    times: Mapping[str, TaskTime],
    alias: str | None,
    success: str,
) -> RunRecord:
    competition, agent = report.get("competition_id"), alias or report.get("alias")
    if not isinstance(competition, str) or not isinstance(report.get(success), bool):
        raise InputError(f"needs competition_id and {success}; give a grading report")
    if not agent:
        raise InputError("names no agent; pass --alias")
    task = f"{MLEBENCH_FAMILY}/{competition}"
    time = times.get(task) or times.get(competition)
    if time is None:
        raise InputError(f"{competition}: no human time; add it to --tasks")
    score = report.get("score")
    return RunRecord(
        task_id=task,
        task_family=MLEBENCH_FAMILY,
        run_id=report.get("run_id") or f"{path.name}:{number}:{_digest(report)}",
        alias=str(agent),
        score_cont=score if is_number(score) else None,
        score_binarized=int(report[success]),
        human_minutes=time.human_minutes,
        human_source=time.human_source,
        started_at=report.get("started_at"),
        completed_at=report.get("completed_at") or _milliseconds(report.get("created_at")),
        tokens_count=report.get("tokens_count"),
    )


def _digest(report: Mapping[str, Any]) -> str:
    """Tell reports of one file name apart, so that importing one twice adds nothing."""
    return hashlib.sha256(json.dumps(report, sort_keys=True).encode()).hexdigest()[:12]
