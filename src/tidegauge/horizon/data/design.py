"""From counted records to the arrays a model is built on.

Agents, tasks and families are in a fixed order (tasks by family, then name), so that the order of
rows in the file never matters.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.arrays import BoolArray, FloatArray, IntArray
from tidegauge.horizon.data import provenance
from tidegauge.horizon.data.counts import RE_BENCH, HumanRun, Tally, TaskEntry

if TYPE_CHECKING:
    import pandas as pd


BASELINE = "baseline"
_SAME_MINUTES = 1e-3  # durations are whole milliseconds, human_minutes has three decimals


@dataclass(frozen=True, eq=False)
class Design:
    """What every horizon model is fitted to. Two are equal where all their data are.

    Attributes
    ----------
    agents, tasks, families : tuple of str
        The coordinates; tasks are sorted by family.
    task_family : ndarray of int, shape (task,)
        Index into `families`.
    human_minutes : ndarray, shape (task,)
        The file's own length of each task.
    task_source : tuple of str
        HCAST, SWAA, RE-Bench... or ``unknown``, per task.
    attempts, successes, score_sum : ndarray, shape (agent, task)
        Counts of agent runs and the sum of their continuous scores.
    run_task, run_log2 : ndarray, shape (run,)
        Successful timed human runs: task index and log2 minutes.
    failed_task, failed_log2 : ndarray, shape (failed,)
        Failed timed human runs, censored at their duration where a model is asked to.
    estimate_task, estimate_log2 : ndarray, shape (estimate,)
        Estimates of a task's length.
    estimate_is_row : ndarray of bool, shape (estimate,)
        Whether it is a human row beside the task's baselines, not its human_minutes.
    task_provenance : tuple of str
        What the human rows of each task say of its human_minutes, as `provenance` has it;
        ``estimate`` for a task that was not baselined, ``window`` for RE-Bench, empty for one
        without human rows.
    agent_years : ndarray, shape (agent,)
        Release of each agent in years from the mean date of those in the trend; NaN for an agent
        that is not in it. Empty where no dates were given.
    origin_day : float
        That mean date, as a proleptic ordinal day.
    agent_groups : tuple of str
        Lab or model family of each agent. Empty where they are to be read from the names.
    notes : tuple of str
        What was done about odd but valid input.
    """

    agents: tuple[str, ...]
    tasks: tuple[str, ...]
    families: tuple[str, ...]
    task_family: IntArray
    human_minutes: FloatArray
    task_source: tuple[str, ...]
    attempts: FloatArray
    successes: FloatArray
    score_sum: FloatArray
    run_task: IntArray
    run_log2: FloatArray
    failed_task: IntArray
    failed_log2: FloatArray
    estimate_task: IntArray
    estimate_log2: FloatArray
    estimate_is_row: BoolArray = field(default_factory=lambda: np.empty(0, dtype=bool))
    task_provenance: tuple[str, ...] = ()
    agent_years: FloatArray = field(default_factory=lambda: np.empty(0))
    origin_day: float = 0.0
    agent_groups: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Design):
            return NotImplemented
        names = (field.name for field in fields(self) if field.name != "notes")
        return all(_is_same(getattr(self, name), getattr(other, name)) for name in names)

    def __hash__(self) -> int:
        return hash((self.agents, self.tasks, self.families, float(self.attempts.sum())))

    @property
    def log2_minutes(self) -> FloatArray:
        """The file's own task lengths in log2 minutes."""
        return np.log2(self.human_minutes)

    @property
    def coords(self) -> dict[str, Any]:
        """Named dimensions of the models."""
        return {
            "agent": list(self.agents),
            "task": list(self.tasks),
            "family": list(self.families),
            "run": np.arange(self.run_task.size),
            "failed": np.arange(self.failed_task.size),
            "estimate": np.arange(self.estimate_task.size),
        }


def build_design(tally: Tally) -> Design:
    """Apply the rules for human durations, estimates and sources, and lay out the arrays."""
    tasks = sorted(tally.tasks, key=lambda task: (tally.tasks[task].family, task))
    index = {task: i for i, task in enumerate(tasks)}
    families = sorted({entry.family for entry in tally.tasks.values()})
    family_index = {family: i for i, family in enumerate(families)}
    rows, notes = _timed_runs(tally)
    timed, others, provenance_of, split_notes = _split_by_provenance(tally, rows)
    estimates, estimate_notes = _estimates(tally, timed)
    won = sorted(run for run in timed if run.success and run.minutes > 0)
    failed = sorted(run for run in timed if not run.success and run.minutes > 0)
    entries = [tally.tasks[task] for task in tasks]
    agents = sorted(tally.cells)
    cells = _cell_matrices(tally, agents, index)
    return Design(
        agents=tuple(agents),
        tasks=tuple(tasks),
        families=tuple(families),
        task_family=np.array([family_index[entry.family] for entry in entries], dtype=np.int64),
        human_minutes=np.array([entry.human_minutes for entry in entries]),
        task_source=tuple(entry.source for entry in entries),
        attempts=cells["attempts"],
        successes=cells["successes"],
        score_sum=cells["score_sum"],
        run_task=_indices(won, index),
        run_log2=_log2_minutes(won),
        failed_task=_indices(failed, index),
        failed_log2=_log2_minutes(failed),
        estimate_task=_indices([*estimates, *others], index),
        estimate_log2=_log2_minutes([*estimates, *others]),
        estimate_is_row=np.repeat([False, True], [len(estimates), len(others)]),
        task_provenance=tuple(provenance_of.get(task, "") for task in tasks),
        notes=(*tally.notes, *notes, *split_notes, *estimate_notes, *_odd_notes(tally, won)),
    )


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    return bool(one == other)


def human_table(design: Design) -> pd.DataFrame:
    """Return the clean human side of the data, one row per timed success or estimate.

    Returns
    -------
    DataFrame
        task_id, task_family, duration_log2 (log2 minutes), source_type: ``baseline`` for a
        timed run, ``estimate`` for an estimate, and provenance: ``run``, ``human_minutes`` or
        ``row`` (a human row that is no baseline).
    """
    import pandas as pd

    task = np.concatenate([design.run_task, design.estimate_task])
    sizes = [design.run_task.size, design.estimate_task.size]
    return pd.DataFrame(
        {
            "task_id": np.array(design.tasks, dtype=object)[task],
            "task_family": np.array(design.families, dtype=object)[design.task_family[task]],
            "duration_log2": np.concatenate([design.run_log2, design.estimate_log2]),
            "source_type": np.repeat([BASELINE, "estimate"], sizes),
            "provenance": [
                *["run"] * design.run_task.size,
                *np.where(design.estimate_is_row, "row", "human_minutes").tolist(),
            ],
        }
    )


def human_log2_mean(design: Design) -> tuple[IntArray, FloatArray]:
    """Return per task its successful human runs and the mean of their log2 minutes.

    Where there is none, the file's own human_minutes stands in.
    """
    n_tasks = len(design.tasks)
    runs = np.bincount(design.run_task, minlength=n_tasks)
    total = np.bincount(design.run_task, weights=design.run_log2, minlength=n_tasks)
    return runs, np.divide(total, runs, out=design.log2_minutes.copy(), where=runs > 0)


def is_estimate_written_as_run(entry: TaskEntry, run: HumanRun) -> bool:
    """Tell whether a human row of a task that was not baselined repeats its estimate."""
    return (
        entry.human_source != BASELINE and abs(run.minutes - entry.human_minutes) <= _SAME_MINUTES
    )


def _timed_runs(tally: Tally) -> tuple[list[HumanRun], list[str]]:
    """Keep the human rows whose duration is a completion time."""
    windows, repeats, timed = [], [], []
    for run in tally.human_runs:
        entry = tally.tasks[run.task]
        if entry.source == RE_BENCH:
            windows.append(run)
        elif is_estimate_written_as_run(entry, run):
            repeats.append(run)
        else:
            timed.append(run)
    notes = []
    if windows:
        notes.append(
            f"{len(windows):,} RE-Bench human rows are fixed windows, not completion times: "
            "each task's human_minutes counts as one estimate"
        )
    if repeats:
        notes.append(
            f"{len(repeats):,} human rows repeat the estimate of their task: counted once, "
            "as the estimate"
        )
    if zero := sum(run.minutes <= 0 for run in timed):
        notes.append(f"{zero:,} human rows have no duration: ignored")
    return timed, notes


def _split_by_provenance(
    tally: Tally, rows: list[HumanRun]
) -> tuple[list[HumanRun], list[HumanRun], dict[str, str], list[str]]:
    """Split human rows into baselines and others; say what was found of each task."""
    by_task: dict[str, list[HumanRun]] = {}
    for run in sorted(rows):
        by_task.setdefault(run.task, []).append(run)
    baselined = {
        task: provenance.TaskRows(
            minutes=[run.minutes for run in runs],
            scores=[run.score for run in runs],
            won=[run.success for run in runs],
            human_minutes=tally.tasks[task].human_minutes,
            human_score=tally.tasks[task].human_score,
        )
        for task, runs in by_task.items()
        if tally.tasks[task].human_source == BASELINE and all(run.minutes > 0 for run in runs)
    }
    found = provenance.baseline_rows(baselined)
    timed, others = [], []
    for task, runs in by_task.items():
        kept = found[task][1] if task in found else range(len(runs))
        timed += [run for i, run in enumerate(runs) if i in kept]
        others += [run for i, run in enumerate(runs) if i not in kept]
    provenance_of = {
        task: _stated_provenance(tally.tasks[task])
        for task in {run.task for run in tally.human_runs}
    }
    provenance_of |= {task: said for task, (said, _) in found.items()}
    notes = []
    if others:
        split = sum(said == provenance.SPLIT for said, _ in found.values())
        notes.append(
            f"{len(others):,} human rows of {split:,} baseline tasks are no baselines (the other "
            "rows alone reproduce human_minutes): counted as estimates"
        )
    unexplained = {task for task, (said, _) in found.items() if said == provenance.UNEXPLAINED}
    if odd := len(unexplained & {run.task for run in timed if run.success}):
        notes.append(
            f"{odd:,} baseline tasks have human rows that do not reproduce their human_minutes: "
            "all counted as timed runs"
        )
    return timed, others, provenance_of, notes


def _stated_provenance(entry: TaskEntry) -> str:
    return (
        "window"
        if entry.source == RE_BENCH
        else BASELINE
        if entry.human_source == BASELINE
        else "estimate"
    )


def _estimates(tally: Tally, timed: list[HumanRun]) -> tuple[list[HumanRun], list[str]]:
    """Return the human_minutes that count as one estimate of their task."""
    measured = {run.task for run in tally.human_runs}
    succeeded = {run.task for run in timed if run.success and run.minutes > 0}
    estimated, unmeasured, unsolved = [], [], []
    for task, entry in sorted(tally.tasks.items()):
        if entry.human_source != BASELINE or entry.source == RE_BENCH:
            estimated.append(task)
        elif task not in measured:
            unmeasured.append(task)
        elif task not in succeeded:
            unsolved.append(task)
    notes = []
    if unmeasured:
        notes.append(
            f"{len(unmeasured):,} baseline tasks have no human row in the file: "
            "their human_minutes counts as one estimate"
        )
    if unsolved:
        notes.append(
            f"{len(unsolved):,} baseline tasks have no successful human run: "
            "their human_minutes counts as one estimate"
        )
    tasks = sorted([*estimated, *unmeasured, *unsolved])
    return [HumanRun(task, tally.tasks[task].human_minutes, True) for task in tasks], notes


def _odd_notes(tally: Tally, won: list[HumanRun]) -> list[str]:
    notes = []
    if not won:
        notes.append("no successful timed human run: task lengths rest on estimates alone")
    tried = {task for cells in tally.cells.values() for task in cells}
    if untried := len(tally.tasks) - len(tried):
        notes.append(f"{untried:,} tasks were tried by no agent: they only inform task lengths")
    for agent, cells in sorted(tally.cells.items()):
        rates = {cell.successes / cell.attempts for cell in cells.values()}
        if rates in ({0.0}, {1.0}):
            notes.append(
                f"{agent} {'always succeeds' if rates == {1.0} else 'never succeeds'}: "
                "its horizon is bounded on one side only"
            )
    return notes


def _cell_matrices(tally: Tally, agents: list[str], index: dict[str, int]) -> dict[str, FloatArray]:
    matrices = {
        name: np.zeros((len(agents), len(index))) for name in ("attempts", "successes", "score_sum")
    }
    for a, agent in enumerate(agents):
        for task, cell in tally.cells[agent].items():
            for name, matrix in matrices.items():
                matrix[a, index[task]] = getattr(cell, name)
    return matrices


def _indices(runs: list[HumanRun], index: dict[str, int]) -> IntArray:
    return np.array([index[run.task] for run in runs], dtype=np.int64)


def _log2_minutes(runs: list[HumanRun]) -> FloatArray:
    log2: FloatArray = np.log2(np.array([run.minutes for run in runs], dtype=float))
    return log2
