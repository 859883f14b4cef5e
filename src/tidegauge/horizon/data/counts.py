"""One pass over the run records: what remains is small however long the file.

Agent runs become counts per (agent, task); human runs and one entry per task are kept.
"""

from __future__ import annotations

import filecmp
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from tidegauge.errors import InputError, RunFileError
from tidegauge.horizon.data.filters import RowFilter, Sieve
from tidegauge.progress import SILENT, Progress
from tidegauge.schema.faults import HUMAN, show_value
from tidegauge.schema.runs import RecordSource, RowReader, RunReader, RunRecord

RE_BENCH = "RE-Bench"
UNKNOWN_SOURCE = "unknown"
CONFLICTS = ("error", "geomean", "first")
REMEMBERED_RUNS = 1_000_000  # bounds memory: repeated runs are looked for among so many
_ROWS_PER_UPDATE = 50_000
_TICKS = 2**40


@dataclass(slots=True)
class TaskEntry:
    """What every row of a task must agree on, and where it was first stated."""

    family: str
    human_minutes: float
    human_source: str
    task_source: str | None
    usual_source: str
    where: str
    human_score: float | None = None
    other_minutes: set[float] = field(default_factory=set)

    @property
    def source(self) -> str:
        """HCAST, SWAA, RE-Bench...; by task id where the column is missing."""
        return self.task_source or self.usual_source


@dataclass(slots=True)
class CellCount:
    """Runs of one agent at one task."""

    attempts: int = 0
    successes: int = 0
    full_scores: int = 0
    other_score_ticks: int = 0

    @property
    def score_sum(self) -> float:
        """Sum of the continuous scores, each clipped to 0..1, exact to 2**-40 in any order."""
        return self.full_scores + self.other_score_ticks / _TICKS


@dataclass(frozen=True, slots=True, order=True)
class HumanRun:
    """One timed human attempt."""

    task: str
    minutes: float
    success: bool
    score: float = float("nan")


@dataclass
class Tally:
    """The records of one analysis, counted.

    Attributes
    ----------
    tasks : dict
        Task id to its entry.
    cells : dict
        Agent to task id to its counts.
    human_runs : list of HumanRun
        Every human row, in file order.
    n_rows, n_repeated : int
        Rows read, and rows that repeat an earlier run and are counted once.
    notes : list of str
        What was done about odd but valid input.
    sha256 : dict
        File name to the hash of its uncompressed bytes.
    """

    tasks: dict[str, TaskEntry] = field(default_factory=dict)
    cells: dict[str, dict[str, CellCount]] = field(default_factory=dict)
    human_runs: list[HumanRun] = field(default_factory=list)
    n_rows: int = 0
    n_repeated: int = 0
    notes: list[str] = field(default_factory=list)
    sha256: dict[str, str] = field(default_factory=dict)
    conflicts: str = "error"
    _seen: set[int] = field(default_factory=set, repr=False)

    def add(self, record: RunRecord, reader: RecordSource) -> None:
        """Count one record; a disagreement with an earlier row of its task is a fault."""
        self.n_rows += 1
        entry = self.tasks.get(record.task_id)
        if entry is None:
            self.tasks[record.task_id] = _entry_of(record, reader)
        elif not _agree(entry, record, reader, conflicts=self.conflicts):
            return
        if record.run_id is not None and self._is_repeated(record):
            self.n_repeated += 1
        elif record.alias == HUMAN:
            won = record.score_binarized == 1
            run = HumanRun(record.task_id, record.duration_minutes, won, _score_of(record))
            self.human_runs.append(run)
        else:
            cells = self.cells.setdefault(record.alias, {})
            cell = cells.get(record.task_id)
            if cell is None:
                cell = cells[record.task_id] = CellCount()
            cell.attempts += 1
            cell.successes += record.score_binarized == 1
            # Clipped run by run: one score of 5 must not make up for four failures.
            score = min(max(_score_of(record), 0.0), 1.0)
            if score == 1:
                cell.full_scores += 1
            elif score:
                cell.other_score_ticks += round(score * _TICKS)

    def _is_repeated(self, record: RunRecord) -> bool:
        # The whole outcome is in the key: ids that merely restart per batch are other runs.
        outcome = (record.score_binarized, record.started_at, record.completed_at)
        try:
            key = hash((record.run_id, record.alias, record.task_id, *outcome))
        except TypeError:  # a run_id that is a list or an object names nothing
            return False
        if key in self._seen:
            return True
        if len(self._seen) < REMEMBERED_RUNS:
            self._seen.add(key)
        return False


def read_tally(
    sources: Sequence[Path | str],
    *,
    filters: Sequence[RowFilter] = (),
    conflicts: str = "error",
    progress: Progress = SILENT,
) -> Tally:
    """Read files of run records in one pass, holding one line at a time.

    Parameters
    ----------
    conflicts : {"error", "geomean", "first"}
        What to do about a task whose rows disagree on human_minutes: refuse the file, take the
        geometric mean of its values, or the value read first.

    Raises
    ------
    RunFileError
        Faulty lines, tasks whose rows disagree, or no agent run at all.
    InputError
        A filter on a field that no record has, or filters that leave no agent run.
    """
    tally, sieve = _tally(conflicts), Sieve(filters)
    kept = _distinct(sources, tally)
    return _count(
        [RunReader(source, keep_unknown=sieve.needs_unknown) for source in kept],
        tally,
        sieve,
        progress,
    )


def count_rows(
    rows: Iterable[Mapping[str, Any]],
    *,
    filters: Sequence[RowFilter] = (),
    conflicts: str = "error",
    progress: Progress = SILENT,
) -> Tally:
    """Count rows that are in memory by the same rules as those of a file."""
    sieve = Sieve(filters)
    reader = RowReader(rows, keep_unknown=sieve.needs_unknown)
    return _count([reader], _tally(conflicts), sieve, progress)


def _tally(conflicts: str) -> Tally:
    if conflicts not in CONFLICTS:
        raise InputError(f"conflicts={conflicts}: must be one of {', '.join(CONFLICTS)}")
    return Tally(conflicts=conflicts)


def _count(
    readers: Sequence[RecordSource], tally: Tally, sieve: Sieve, progress: Progress
) -> Tally:
    problems: list[str] = []
    n_problems = 0
    for reader in readers:
        with progress.step(f"reading {reader.name}") as step:
            for record in sieve(reader) if sieve.filters else reader:
                tally.add(record, reader)
                if tally.n_rows % _ROWS_PER_UPDATE == 0:
                    step.update(tally.n_rows)
        tally.sha256[reader.name] = reader.sha256.hexdigest()
        try:
            reader.raise_problems()
        except RunFileError as error:
            problems += error.problems
            n_problems += error.n_problems
    if not n_problems and (problem := sieve.problem(any_agent=bool(tally.cells))):
        raise InputError(problem)
    if not n_problems and not tally.cells:
        names = ", ".join(reader.name for reader in readers)
        problems, n_problems = [f"{names}: no agent runs, every alias is 'human'; add some"], 1
    if n_problems:
        raise RunFileError(problems, n_problems)
    tally.notes += sieve.notes()
    _note_repeats(tally)
    _settle_conflicts(tally)
    return tally


def _settle_conflicts(tally: Tally) -> None:
    """Give tasks whose rows disagree one length, and say so."""
    disputed = [entry for entry in tally.tasks.values() if entry.other_minutes]
    if tally.conflicts == "geomean":
        for entry in disputed:
            values = sorted({entry.human_minutes, *entry.other_minutes})
            entry.human_minutes = geometric_mean(values)
    if disputed:
        taken = {"geomean": "their geometric mean", "first": "the first"}[tally.conflicts]
        tally.notes.append(
            f"{len(disputed):,} tasks have rows with different human_minutes: {taken} is used"
        )


def _distinct(sources: Iterable[Path | str], tally: Tally) -> list[Path | str]:
    """Drop a file that is given twice, under whatever name: its runs happened once."""
    kept: list[Path | str] = []
    for source in sources:
        same = next((other for other in kept if _is_same_file(source, other)), None)
        if same is None:
            kept.append(source)
        elif str(same) == str(source):
            tally.notes.append(f"{source} is given twice: read once")
        else:
            tally.notes.append(f"{source} has the same content as {same}: read once")
    return kept


def _is_same_file(one: Path | str, other: Path | str) -> bool:
    if str(one) == str(other):
        return True
    # Pipes are read once only, so only files on disk are compared, and those only if alike in size.
    return (
        "-" not in (str(one), str(other))
        and Path(one).is_file()
        and Path(other).is_file()
        and filecmp.cmp(one, other, shallow=False)
    )


def _note_repeats(tally: Tally) -> None:
    if tally.n_repeated:
        tally.notes.append(
            f"{tally.n_repeated:,} rows repeat an earlier run (same run_id, agent, task, score and "
            "times): counted once"
        )
    if len(tally._seen) >= REMEMBERED_RUNS:
        tally.notes.append(
            f"repeated runs were looked for among the first {REMEMBERED_RUNS:,} runs only"
        )
    tally._seen.clear()


def _entry_of(record: RunRecord, reader: RecordSource) -> TaskEntry:
    return TaskEntry(
        family=record.task_family,
        human_minutes=record.human_minutes,
        human_source=record.human_source,
        task_source=record.task_source or None,
        usual_source=RE_BENCH if record.task_id.startswith("ai_rd_") else UNKNOWN_SOURCE,
        where=reader.where,
        human_score=_number(record.human_score),
    )


def _score_of(record: RunRecord) -> float:
    """Return the continuous score of a run, or its outcome where it has none."""
    for score in (record.score_cont, record.score):
        if score is not None:
            return score
    return record.score_binarized


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _agree(entry: TaskEntry, record: RunRecord, reader: RecordSource, *, conflicts: str) -> bool:
    if (
        entry.family == record.task_family
        and entry.human_minutes == record.human_minutes
        and entry.human_source == record.human_source
        and (not record.task_source or entry.task_source == record.task_source)
    ):
        return True
    if entry.task_source is None:
        entry.task_source = record.task_source or None
    shared = {
        "task_family": (entry.family, record.task_family),
        "human_minutes": (entry.human_minutes, record.human_minutes),
        "human_source": (entry.human_source, record.human_source),
        "task_source": (entry.task_source, record.task_source or entry.task_source),
    }
    differing = {name: pair for name, pair in shared.items() if pair[0] != pair[1]}
    if conflicts != "error" and "human_minutes" in differing:
        del differing["human_minutes"]
        entry.other_minutes.add(record.human_minutes)
    for name, (first, here) in differing.items():
        flag = ", or use --conflicts geomean (or first)" if name == "human_minutes" else ""
        reader.report(
            f"{name}={show_value(here)}: task {show_value(record.task_id)} has "
            f"{show_value(first)} at {entry.where}; "
            f"a task has one, so correct it or give the other version its own task_id{flag}"
        )
    return not differing
