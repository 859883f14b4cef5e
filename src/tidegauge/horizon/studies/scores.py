"""From held-out predictions to tables: scores, paired differences, calibration, misfitted tasks.

Scores are per run. Runs of one task share its difficulty, so their errors are not independent:
standard errors are over tasks, and over families where families were held out.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    import pandas as pd

BINS = 10
# Each score, and the column that marks a difference in it of less than two standard errors.
SCORES = {
    "log_score": "within_error",
    "brier": "brier_within_error",
    "fractional_log_score": "fractional_within_error",
}


class Mean(NamedTuple):
    """A mean per run with its standard error over clusters, NaN where there is one cluster."""

    value: float
    se: float


def clustered_mean(total: ArrayLike, runs: ArrayLike, cluster: ArrayLike) -> Mean:
    """Return the sum of `total` per run, and its standard error when clusters vary as a whole.

    Parameters
    ----------
    total, runs, cluster : array_like
        One entry a cell: a sum over its runs, how many they are, and what they share.

    Returns
    -------
    Mean
        The ratio of two sums; its error is that of a ratio, from the clusters' residuals.
    """
    names, index = np.unique(np.asarray(cluster).astype(str), return_inverse=True)
    sums = np.bincount(index, weights=np.asarray(total, dtype=float))
    sizes = np.bincount(index, weights=np.asarray(runs, dtype=float))
    value = float(sums.sum() / sizes.sum())
    if names.size < 2:
        return Mean(value, float("nan"))
    residual = sums - value * sizes
    variance = names.size / (names.size - 1) * float(residual @ residual)
    return Mean(value, float(np.sqrt(variance) / sizes.sum()))


def cluster_column(by: str) -> str:
    """Return what the standard errors of one kind of folds are over."""
    return "task_family" if by == "family" else "task_id"


def scores_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Return ``scores.csv``: one row per kind of folds and method, higher log score is better.

    The difference is to the best log score of that kind, paired run by run; ``within_error`` says
    that it is no more than twice its standard error, so that the order may be chance.
    """
    import pandas as pd

    differences = differences_table(cells)
    rows = []
    for (by, method), own in cells.groupby(["by", "method"], sort=False):
        cluster = own[cluster_column(str(by))]
        row: dict[str, object] = {
            "by": by,
            "method": method,
            "cells": len(own),
            "runs": own["attempts"].sum(),
            "clusters": cluster.nunique(),
        }
        for score in SCORES:
            mean = clustered_mean(own[score], own["attempts"], cluster)
            row |= {score: mean.value, f"{score}_se": mean.se}
        row["clipped_runs"] = own.loc[own["raw"] != own["probability"], "attempts"].sum()
        rows.append(row)
    table = pd.DataFrame(rows)
    best = table.loc[table.groupby("by")["log_score"].idxmax()].set_index("by")["method"]
    table["best"] = table["by"].map(best)
    paired = differences[["by", "method", "other", "log_score", "log_score_se", "within_error"]]
    names = {"other": "best", "log_score": "difference", "log_score_se": "difference_se"}
    return table.merge(paired.rename(columns=names), on=["by", "method", "best"], how="left")


def differences_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Return ``differences.csv``: every ordered pair of methods, first minus second, per run."""
    import pandas as pd

    rows = []
    for by, kind in cells.groupby("by", sort=False):
        shared = ["agent", "task_id"]
        own = {name: t.set_index(shared) for name, t in kind.groupby("method", sort=False)}
        for one, other in itertools.permutations(own, 2):
            first, second = own[one], own[other].loc[own[one].index]
            cluster = first.reset_index()[cluster_column(str(by))]
            row: dict[str, object] = {"by": by, "method": one, "other": other}
            for score, verdict in SCORES.items():
                gap = first[score].to_numpy() - second[score].to_numpy()
                mean = clustered_mean(gap, first["attempts"], cluster)
                row |= {score: mean.value, f"{score}_se": mean.se}
                row[verdict] = not abs(mean.value) > 2 * mean.se
            rows.append(row)
    return pd.DataFrame(rows)


def calibration_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Return ``calibration.csv``: predicted and seen success in ten equal steps of probability."""
    import pandas as pd

    step = np.minimum((cells["probability"] * BINS).astype(int), BINS - 1)
    rows = []
    for (by, method, number), own in cells.groupby(["by", "method", step], sort=False):
        runs = own["attempts"]
        cluster = own[cluster_column(str(by))]
        seen = clustered_mean(own["successes"], runs, cluster)
        rows.append(
            {
                "by": by,
                "method": method,
                "low": int(str(number)) / BINS,
                "high": (int(str(number)) + 1) / BINS,
                "cells": len(own),
                "runs": runs.sum(),
                "successes": own["successes"].sum(),
                "predicted": (own["probability"] * runs).sum() / runs.sum(),
                "seen": seen.value,
                "seen_se": seen.se,
            }
        )
    table = pd.DataFrame(rows)
    order = table.assign(at=table.groupby(["by", "method"], sort=False).ngroup())
    return table.loc[order.sort_values(["at", "low"]).index].reset_index(drop=True)


def tasks_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Return ``tasks.csv``: held-out successes expected and seen per task, worst fitted first.

    ``residual`` is their difference over the binomial standard deviation of the sum: beyond about
    three, the method is wrong about the task by more than binomial variation.
    """
    cells = cells.assign(
        expected=cells["attempts"] * cells["probability"],
        variance=cells["attempts"] * cells["probability"] * (1 - cells["probability"]),
    )
    keys = ["by", "method", "task_id", "task_family", "human_minutes"]
    table = cells.groupby(keys, sort=False, as_index=False)[
        ["attempts", "successes", "expected", "variance", "log_score"]
    ].sum()
    table["residual"] = (table["successes"] - table["expected"]) / np.sqrt(table["variance"])
    table["log_score"] /= table["attempts"]
    table["at"] = table.groupby(["by", "method"], sort=False).ngroup()
    table["size"] = -table["residual"].abs()
    table = table.sort_values(["at", "size", "task_id"], ignore_index=True)
    names = {"attempts": "runs", "successes": "seen"}
    columns = [*keys, "attempts", "successes", "expected", "residual", "log_score"]
    return table[columns].rename(columns=names)
