"""The CSV contract: METR's logistic-fits columns, then ours."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.data.weights import run_weights
from tidegauge.horizon.horizons.estimate import Estimate, interval_columns
from tidegauge.horizon.horizons.quantities import bounded, minutes_of
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
RATES = {"p50": 0.5, "p80": 0.8}
MOST_DRAWS = 1000
PAIR_COLUMNS = (
    *("agent_a", "agent_b", "probability"),
    *("log2_ratio", "log2_ratioq0.025", "log2_ratioq0.975"),
)


def horizons_table(
    design: Design,
    estimate: Estimate,
    *,
    release_dates: Mapping[str, datetime.date] | None = None,
) -> pd.DataFrame:
    """Return ``horizons.csv``: METR's columns in their order, then ours.

    ``p50`` and ``p80`` are marginal, of a random task of that length, as METR's are of the tasks
    they have; ``p50_typical`` and ``p80_typical`` are of a task without residual.
    """
    import pandas as pd

    weights, curves = run_weights(design), estimate.centre
    weight_of_cell = weights * design.attempts
    clipped = np.clip(estimate.success, 1e-12, 1 - 1e-12)
    loss = -(weights * log_score(clipped, design.successes, design.attempts)).sum(axis=1)
    columns: dict[str, object] = {
        "agent": design.agents,
        "coefficient": curves.beta,
        "intercept": curves.alpha,
        "bce_loss": loss,
        "average": (weights * design.successes).sum(axis=1),
    }
    for name, success in RATES.items():
        columns |= interval_columns(name, estimate.interval(success))
    for bucket, (low, high) in BUCKETS.items():
        inside = (design.human_minutes >= low) & (design.human_minutes < high)
        won = (weights * design.successes)[:, inside].sum(axis=1)
        total = weight_of_cell[:, inside].sum(axis=1)
        columns[bucket] = np.divide(won, total, out=np.full(total.size, np.nan), where=total > 0)
    dates = release_dates or {}
    columns["release_date"] = [
        dates[agent].isoformat() if agent in dates else "" for agent in design.agents
    ]
    for name, success in RATES.items():
        columns |= interval_columns(f"{name}_typical", estimate.interval(success, kind="typical"))
    columns["p50_beyond"] = estimate.beyond(0.5)
    columns["n_runs"] = design.attempts.sum(axis=1).astype(int)
    return pd.DataFrame(columns)


def draws_table(estimate: Estimate) -> pd.DataFrame:
    """Return ``horizon_draws.csv``: METR's bootstrap table, one row a draw or replicate.

    Returns
    -------
    DataFrame
        Minutes in columns ``<agent>_p50`` and ``<agent>_p80``, of the kind that ``horizons.csv``
        has under these names; at most MOST_DRAWS rows, evenly spaced among all draws.
    """
    import pandas as pd

    columns: dict[str, FloatArray] = {}
    log2 = {name: estimate.log2_horizons(rate) for name, rate in RATES.items()}
    n_draws = len(log2["p50"])
    kept = np.linspace(0, n_draws - 1, min(MOST_DRAWS, n_draws)).astype(int)
    minutes = {name: minutes_of(draws[kept]) for name, draws in log2.items()}
    for a, agent in enumerate(estimate.agents):
        columns |= {f"{agent}_{name}": minutes[name][:, a] for name in RATES}
    return pd.DataFrame(columns)


def rates_table(estimate: Estimate, rates: Sequence[float]) -> pd.DataFrame:
    """Return ``rates.csv``: horizons in minutes at each success rate, agent by agent.

    ``typical_beyond`` and ``marginal_beyond`` are the shares of draws that are infinite or beyond
    the longest task.
    """
    import pandas as pd

    tables = []
    for success in dict.fromkeys(rates):
        columns: dict[str, object] = {"agent": estimate.agents, "success": success}
        for kind in ("typical", "marginal"):
            columns |= interval_columns(kind, estimate.interval(success, kind=kind))
            columns[f"{kind}_beyond"] = estimate.beyond(success, kind=kind)
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)


def pairs_table(agents: Sequence[str], log2_p50: FloatArray) -> pd.DataFrame:
    """Return ``pairs.csv``: every pair of agents once, from joint draws of their horizons.

    Parameters
    ----------
    log2_p50 : ndarray, shape (draw, agent)
        50 % horizons in log2 minutes; a row is one draw of all agents.

    Returns
    -------
    DataFrame
        ``probability`` that A's horizon is the longer one (a tie, both infinite, counts half), and
        the median and 95 % interval of log2 of A's horizon over B's: 1 is twice as long.
    """
    import pandas as pd

    log2 = bounded(log2_p50)  # infinite less infinite is no number
    tables = []
    for a, agent in enumerate(agents[:-1]):
        ratio = log2[:, a, None] - log2[:, a + 1 :]
        low, median, high = np.quantile(ratio, [0.025, 0.5, 0.975], axis=0)
        chance = (ratio > 0).mean(axis=0) + 0.5 * (ratio == 0).mean(axis=0)
        values = (agent, list(agents[a + 1 :]), chance, median, low, high)
        tables.append(pd.DataFrame(dict(zip(PAIR_COLUMNS, values, strict=True))))
    if not tables:
        return pd.DataFrame(columns=list(PAIR_COLUMNS))
    return pd.concat(tables, ignore_index=True)


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
            "provenance": design.task_provenance or [""] * n_tasks,
        }
    )
