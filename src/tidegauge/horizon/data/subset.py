"""A design with some of its tasks only, or with its tasks drawn again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tidegauge.arrays import BoolArray, IntArray
from tidegauge.errors import InputError
from tidegauge.horizon.data.design import Design


def subset_tasks(design: Design, keep: BoolArray) -> Design:
    """Keep the marked tasks with all that is known of them: agent runs, human runs, estimates.

    Families without a task and agents without a run are left out.

    Parameters
    ----------
    keep : ndarray of bool, shape (task,)

    Raises
    ------
    InputError
        No agent run is left.
    """
    task = np.flatnonzero(keep)
    names = tuple(design.tasks[i] for i in task)
    return _take(design, task, names, design.task_family[task], design.families)


def estimate_only(design: Design) -> BoolArray:
    """Tell which tasks have an estimate of their length and no timed success."""
    n_tasks = len(design.tasks)
    estimated = np.bincount(design.estimate_task, minlength=n_tasks) > 0
    timed = np.bincount(design.run_task, minlength=n_tasks) > 0
    return np.asarray(estimated & ~timed)


def of_source(design: Design, name: str) -> BoolArray:
    """Tell which tasks are of a source or, where no source has the name, of a family."""
    if name in design.task_source:
        return np.array([source == name for source in design.task_source])
    of_family = np.array([family == name for family in design.families])
    return np.asarray(of_family[design.task_family])


def resample_tasks(design: Design, rng: np.random.Generator) -> Design:
    """Draw as many families as there are with replacement, then tasks within each likewise.

    Every copy of a family, and of a task in it, counts as another one. Runs are not drawn again.

    Raises
    ------
    InputError
        No agent run is left.
    """
    n_families = len(design.families)
    drawn = np.sort(rng.integers(0, n_families, n_families))
    tasks, families, names, family_names = [], [], [], []
    for copy, family in enumerate(drawn):
        members = np.flatnonzero(design.task_family == family)
        chosen = np.sort(rng.choice(members, members.size))
        family_names.append(f"{design.families[family]} #{copy}")
        names += [f"{design.tasks[i]} #{copy}.{n}" for n, i in enumerate(chosen)]
        tasks.append(chosen)
        families.append(np.full(chosen.size, copy))
    chosen_tasks, chosen_families = np.concatenate(tasks), np.concatenate(families)
    return _take(design, chosen_tasks, tuple(names), chosen_families, tuple(family_names))


def _take(
    design: Design,
    task: IntArray,
    names: tuple[str, ...],
    family: IntArray,
    family_names: tuple[str, ...],
) -> Design:
    """Lay out the tasks at these indices, sorted by family, under new names."""
    rows = np.flatnonzero(design.attempts[:, task].sum(axis=1) > 0)
    if not rows.size:
        raise InputError("no agent run is left on the tasks that were kept; keep more of them")
    used, task_family = np.unique(family, return_inverse=True)
    cells = np.ix_(rows, task)
    run_task, run = _follow(design.run_task, task)
    failed_task, failed = _follow(design.failed_task, task)
    estimate_task, estimate = _follow(design.estimate_task, task)
    return replace(
        design,
        agents=tuple(design.agents[a] for a in rows),
        tasks=names,
        families=tuple(family_names[f] for f in used),
        task_family=task_family.astype(np.int64),
        human_minutes=design.human_minutes[task],
        task_source=tuple(design.task_source[i] for i in task),
        attempts=design.attempts[cells],
        successes=design.successes[cells],
        score_sum=design.score_sum[cells],
        run_task=run_task,
        run_log2=design.run_log2[run],
        failed_task=failed_task,
        failed_log2=design.failed_log2[failed],
        estimate_task=estimate_task,
        estimate_log2=design.estimate_log2[estimate],
        estimate_is_row=design.estimate_is_row[estimate]
        if design.estimate_is_row.size
        else design.estimate_is_row,
        task_provenance=tuple(design.task_provenance[i] for i in task if design.task_provenance),
        agent_years=design.agent_years[rows] if design.agent_years.size else np.empty(0),
        agent_groups=tuple(design.agent_groups[a] for a in rows if design.agent_groups),
        notes=(),
    )


def _follow(of_task: IntArray, task: IntArray) -> tuple[IntArray, IntArray]:
    """Return the new tasks of the observations of the tasks taken, and their old indices."""
    found = [np.flatnonzero(of_task == i) for i in task]
    sizes = [each.size for each in found]
    index = np.concatenate([*found, np.empty(0, dtype=np.int64)]).astype(np.int64)
    return np.repeat(np.arange(task.size), sizes), index
