"""The CSV contract: METR's logistic-fits columns, then ours."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.data.weights import run_weights
from tidegauge.horizon.horizons.quantities import Interval
from tidegauge.scores import log_score

if TYPE_CHECKING:
    import pandas as pd


BUCKETS = {
    "1-4 min": (1, 4),
    "4-16 min": (4, 16),
    "16-64 min": (16, 64),
    "64-256 min": (64, 256),
    "256-960 min": (256, 960),
    "960-2880 min": (960, 2880),
}


@dataclass(frozen=True)
class Horizons:
    """What every method says of every agent; arrays have one entry an agent.

    Attributes
    ----------
    intercept, slope : ndarray
        alpha and beta of the success curve, logits and logits per log2 minute.
    success : ndarray, shape (agent, task)
        Fitted probability of success, for the loss.
    p50, p80, p50_marginal, p80_marginal : Interval
        Horizons in minutes.
    p50_beyond : ndarray
        Share of the posterior (or of the bootstrap) beyond the longest task.
    """

    intercept: FloatArray
    slope: FloatArray
    success: FloatArray
    p50: Interval
    p80: Interval
    p50_marginal: Interval
    p80_marginal: Interval
    p50_beyond: FloatArray


def horizons_table(
    design: Design,
    horizons: Horizons,
    *,
    release_dates: Mapping[str, datetime.date] | None = None,
) -> pd.DataFrame:
    """Return ``horizons.csv``: METR's columns in their order, then the marginal ones."""
    import pandas as pd

    weights = run_weights(design)
    weight_of_cell = weights * design.attempts
    clipped = np.clip(horizons.success, 1e-12, 1 - 1e-12)
    loss = -(weights * log_score(clipped, design.successes, design.attempts)).sum(axis=1)
    columns: dict[str, object] = {
        "agent": design.agents,
        "coefficient": horizons.slope,
        "intercept": horizons.intercept,
        "bce_loss": loss,
        "average": (weights * design.successes).sum(axis=1),
    }
    for name in ("p50", "p80"):
        columns |= interval_columns(name, getattr(horizons, name))
    for bucket, (low, high) in BUCKETS.items():
        inside = (design.human_minutes >= low) & (design.human_minutes < high)
        won = (weights * design.successes)[:, inside].sum(axis=1)
        total = weight_of_cell[:, inside].sum(axis=1)
        columns[bucket] = np.divide(won, total, out=np.full(total.size, np.nan), where=total > 0)
    dates = release_dates or {}
    columns["release_date"] = [
        dates[agent].isoformat() if agent in dates else "" for agent in design.agents
    ]
    for name in ("p50_marginal", "p80_marginal"):
        columns |= interval_columns(name, getattr(horizons, name))
    columns["p50_beyond"] = horizons.p50_beyond
    columns["n_runs"] = design.attempts.sum(axis=1).astype(int)
    return pd.DataFrame(columns)


def interval_columns(name: str, interval: Interval) -> dict[str, FloatArray]:
    """Return a median and its 95 % interval as METR names the columns."""
    return {name: interval.median, f"{name}q0.025": interval.low, f"{name}q0.975": interval.high}


def tasks_table(design: Design, log2_draws: FloatArray) -> pd.DataFrame:
    """Return ``tasks.csv`` from draws (draw, task) of each task's difficulty, log2 minutes."""
    import pandas as pd

    n_tasks = len(design.tasks)
    n_runs = np.bincount(design.run_task, minlength=n_tasks)
    estimated = np.bincount(design.estimate_task, minlength=n_tasks) > 0
    kinds = np.array(["none", "baseline", "estimate", "both"], dtype=object)
    low, high = np.quantile(log2_draws, [0.025, 0.975], axis=0)
    return pd.DataFrame(
        {
            "task_id": design.tasks,
            "task_family": np.array(design.families, dtype=object)[design.task_family],
            "source_type": kinds[(n_runs > 0) + 2 * estimated],
            "n_human_runs": n_runs,
            "human_minutes": design.human_minutes,
            "log2_mean": log2_draws.mean(axis=0),
            "log2_sd": log2_draws.std(axis=0),
            "log2_q0.025": low,
            "log2_q0.975": high,
        }
    )
