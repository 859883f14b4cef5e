"""Exact cross-validation: refit without each fold's runs, predict them, keep every prediction.

A fold is a set of (agent, task) cells. Only agents' runs are ever held out. The human runs and
estimates of a held-out task stay: they are what its difficulty is predicted from.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.arrays import BoolArray, FloatArray, IntArray
from tidegauge.engine.parallel import parallel_map
from tidegauge.errors import InputError
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.methods.base import Effort, Method
from tidegauge.horizon.model.observations import continuous_scores
from tidegauge.progress import SILENT, Progress
from tidegauge.scores import brier_loss, log_score

if TYPE_CHECKING:
    import pandas as pd

KINDS = ("task", "family", "agent")  # of folds
NOT_TRIED = -1
# Probabilities are clipped this far from 0 and 1: a curve fitted to perfectly separated runs
# predicts exactly 0 or 1, and one error would make its log score minus infinity.
SUREST = 1e-4


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


@dataclass(frozen=True)
class _Outcome:
    """Predictions of a fold by one method, with how its fit went."""

    fold: Fold
    method: Method
    agent: IntArray
    task: IntArray
    probability: FloatArray
    r_hat: float
    divergences: int
    seconds: float


@dataclass(frozen=True)
class HeldOut:
    """Every held-out prediction.

    Attributes
    ----------
    cells : DataFrame
        One row per kind of fold, method and cell: by, fold, method, agent, task_id,
        task_family, human_minutes, attempts, successes, raw (as predicted), probability (kept
        within `SUREST` of 0 and 1), log_score and brier (summed over the cell's runs),
        fractional_log_score (the same by the runs' continuous scores).
    fits : DataFrame
        One row per fold and method: by, fold, method, cells, runs, log_score and brier (per
        run), r_hat and divergences where it was sampled, seconds.
    """

    cells: pd.DataFrame
    fits: pd.DataFrame


def hold_out(
    design: Design,
    methods: Sequence[Method],
    folds: Sequence[Fold],
    *,
    seed: int,
    workers: int | None = None,
    progress: Progress = SILENT,
) -> HeldOut:
    """Refit every method without each fold and score its predictions of the fold's runs."""
    import pandas as pd

    outcomes = parallel_map(
        partial(_refit, design=design, seed=seed),
        list(itertools.product(folds, methods)),
        workers=workers,
        label="fits without a fold",
        progress=progress,
    )
    tables = [_table_of(outcome, design) for outcome in outcomes]
    fits = [_fit_row(*pair) for pair in zip(outcomes, tables, strict=True)]
    return HeldOut(pd.concat(tables, ignore_index=True), pd.DataFrame(fits))


def _refit(pair: tuple[Fold, Method], *, design: Design, seed: int) -> _Outcome:
    began = time.perf_counter()
    fold, method = pair
    training = without(design, fold.held)
    found = method.fit(training.design, effort=Effort.FOLD, seed=seed)
    agent, task = np.nonzero(fold.held)
    return _Outcome(
        fold=fold,
        method=method,
        agent=agent,
        task=task,
        probability=found.success[np.searchsorted(training.agent_rows, agent), task],
        r_hat=found.r_hat,
        divergences=found.divergences,
        seconds=time.perf_counter() - began,
    )


def _table_of(outcome: _Outcome, design: Design) -> pd.DataFrame:
    import pandas as pd

    agent, task = outcome.agent, outcome.task
    attempts, successes = design.attempts[agent, task], design.successes[agent, task]
    probability = np.clip(outcome.probability, SUREST, 1 - SUREST)
    return pd.DataFrame(
        {
            "by": outcome.fold.by,
            "fold": outcome.fold.number,
            "method": outcome.method.name,
            "agent": np.array(design.agents, dtype=object)[agent],
            "task_id": np.array(design.tasks, dtype=object)[task],
            "task_family": np.array(design.families, dtype=object)[design.task_family[task]],
            "human_minutes": design.human_minutes[task],
            "attempts": attempts.astype(int),
            "successes": successes.astype(int),
            "raw": outcome.probability,
            "probability": probability,
            "log_score": log_score(probability, successes, attempts),
            "brier": brier_loss(probability, successes, attempts),
            "fractional_log_score": log_score(
                probability, continuous_scores(design)[agent, task], attempts
            ),
        }
    )


def _fit_row(outcome: _Outcome, table: pd.DataFrame) -> dict[str, object]:
    runs = int(table["attempts"].sum())
    return {
        "by": outcome.fold.by,
        "fold": outcome.fold.number,
        "method": outcome.method.name,
        "cells": len(table),
        "runs": runs,
        "log_score": table["log_score"].sum() / runs,
        "brier": table["brier"].sum() / runs,
        "r_hat": outcome.r_hat,
        "divergences": outcome.divergences,
        "seconds": round(outcome.seconds, 3),
    }
