"""Exact cross-validation: refit without each fold's runs, predict them, keep every prediction."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.arrays import FloatArray, IntArray
from tidegauge.engine.parallel import parallel_map
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.methods.base import Effort, Method
from tidegauge.horizon.model.observations import continuous_scores
from tidegauge.horizon.studies.folds import Fold, without
from tidegauge.progress import SILENT, Progress
from tidegauge.scores import brier_loss, log_score

if TYPE_CHECKING:
    import pandas as pd

# No forecast of one run is surer than this: a curve fitted to perfect separation says 0 or 1, and
# one surprise would make its log score minus infinity.
SUREST = 1e-4


@dataclass(frozen=True)
class _Job:
    """One method, one fold: all that a worker process needs."""

    method: Method
    fold: Fold
    design: Design
    seed: int


@dataclass(frozen=True)
class _Outcome:
    """Predictions of one job, with how its fit went."""

    job: _Job
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
    """Refit every method without each fold and score what it says of the fold's runs."""
    import pandas as pd

    jobs = [_Job(method, fold, design, seed) for fold in folds for method in methods]
    outcomes = parallel_map(
        _refit, jobs, workers=workers, label="fits without a fold", progress=progress
    )
    tables = [_table_of(outcome) for outcome in outcomes]
    fits = [_fit_row(*pair) for pair in zip(outcomes, tables, strict=True)]
    return HeldOut(pd.concat(tables, ignore_index=True), pd.DataFrame(fits))


def _refit(job: _Job) -> _Outcome:
    began = time.perf_counter()
    training = without(job.design, job.fold.held)
    found = job.method.fit(training.design, seed=job.seed, effort=Effort.FOLD)
    agent, task = np.nonzero(job.fold.held)
    return _Outcome(
        job=job,
        agent=agent,
        task=task,
        probability=found.success[np.searchsorted(training.agent_rows, agent), task],
        r_hat=found.r_hat,
        divergences=found.divergences,
        seconds=time.perf_counter() - began,
    )


def _table_of(outcome: _Outcome) -> pd.DataFrame:
    import pandas as pd

    design, agent, task = outcome.job.design, outcome.agent, outcome.task
    attempts, successes = design.attempts[agent, task], design.successes[agent, task]
    probability = np.clip(outcome.probability, SUREST, 1 - SUREST)
    return pd.DataFrame(
        {
            "by": outcome.job.fold.by,
            "fold": outcome.job.fold.number,
            "method": outcome.job.method.name,
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
        "by": outcome.job.fold.by,
        "fold": outcome.job.fold.number,
        "method": outcome.job.method.name,
        "cells": len(table),
        "runs": runs,
        "log_score": table["log_score"].sum() / runs,
        "brier": table["brier"].sum() / runs,
        "r_hat": outcome.r_hat,
        "divergences": outcome.divergences,
        "seconds": round(outcome.seconds, 3),
    }
