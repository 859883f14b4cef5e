"""What is held out: folds of (agent, task) cells, and the design without one of them.

Only agents' runs are ever held out. The human runs and estimates of a held-out task stay: they are
what its difficulty is predicted from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tidegauge.arrays import BoolArray, IntArray
from tidegauge.errors import InputError
from tidegauge.horizon.data.design import Design

KINDS = ("task", "family", "agent")
NOT_TRIED = -1


@dataclass(frozen=True)
class Fold:
    """One set of cells to predict from all others.

    Attributes
    ----------
    by : str
        ``task``, ``family`` or ``agent``.
    number : int
        Which fold of its kind, from 0.
    held : ndarray of bool, shape (agent, task)
        The tried cells that are held out.
    """

    by: str
    number: int
    held: BoolArray


def assign_folds(design: Design, *, by: str, folds: int | None, seed: int) -> IntArray:
    """Return the fold of every cell (agent, task), and -1 where the agent never tried the task.

    Parameters
    ----------
    by : str
        ``task`` holds out whole tasks, ``family`` whole families, and ``agent`` a random share of
        each agent's own tasks, so that every agent is in every fold.
    folds : int or None
        How many; never more than there are things to hold out. None holds out one at a time.

    Raises
    ------
    InputError
        Fewer than two tasks, families or tasks of an agent: nothing would be left to learn from.
    """
    if by not in KINDS:
        raise InputError(f"by={by}: must be one of {', '.join(KINDS)}")
    tried = design.attempts > 0
    # A kind has its own stream: asking for others as well does not change its folds.
    rng = np.random.default_rng([seed, KINDS.index(by)])
    if by == "agent":
        return _folds_of_agents(tried, folds, rng)
    group_of_task = design.task_family if by == "family" else np.arange(len(design.tasks))
    groups = np.unique(group_of_task[tried.any(axis=0)])
    _require_two(groups.size, "families" if by == "family" else "tasks")
    fold_of_group = np.full(group_of_task.max() + 1, NOT_TRIED)
    order = rng.permutation(groups)
    fold_of_group[order] = np.arange(groups.size) % min(folds or groups.size, groups.size)
    return np.where(tried, fold_of_group[group_of_task], NOT_TRIED)


def _folds_of_agents(tried: BoolArray, folds: int | None, rng: np.random.Generator) -> IntArray:
    most = int(tried.sum(axis=1).max())
    _require_two(most, "tasks of one agent")
    n_folds = min(folds or most, most)
    assigned = np.full(tried.shape, NOT_TRIED)
    for a in range(tried.shape[0]):
        tasks = rng.permutation(np.flatnonzero(tried[a]))
        # From a random fold on, so that agents with few tasks do not all fill the first ones.
        assigned[a, tasks] = (np.arange(tasks.size) + rng.integers(n_folds)) % n_folds
    return assigned


def _require_two(found: int, what: str) -> None:
    if found < 2:
        raise InputError(
            f"{what} with agent runs: {found}, but holding one out needs at least two; "
            "add runs, or hold out by something else (--by)"
        )


def make_folds(design: Design, *, by: str, folds: int | None, seed: int) -> list[Fold]:
    """Return the folds of one kind; a cell whose agent would keep no run is in none of them."""
    assigned = assign_folds(design, by=by, folds=folds, seed=seed)
    made = []
    for number in range(int(assigned.max()) + 1):
        held = assigned == number
        stays = (design.attempts * ~held).sum(axis=1) > 0
        made.append(Fold(by, number, held & stays[:, None]))
    return [fold for fold in made if fold.held.any()]


@dataclass(frozen=True)
class Training:
    """A design without the held-out runs, and where its agents were in the whole one."""

    design: Design
    agent_rows: IntArray


def without(design: Design, held: BoolArray) -> Training:
    """Blank the held-out cells; an agent without any other run is left out of the design."""
    left = design.attempts * ~held
    rows = np.flatnonzero(left.sum(axis=1) > 0)
    return Training(
        replace(
            design,
            agents=tuple(design.agents[a] for a in rows),
            attempts=left[rows],
            successes=(design.successes * ~held)[rows],
            score_sum=(design.score_sum * ~held)[rows],
            agent_years=design.agent_years[rows] if design.agent_years.size else np.empty(0),
            agent_groups=tuple(design.agent_groups[a] for a in rows if design.agent_groups),
            notes=(),
        ),
        rows,
    )
