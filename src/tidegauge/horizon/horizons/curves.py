"""Each agent's success curve with its band, and the success rates that were seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from tidegauge.arrays import FloatArray, weighted_quantiles
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.horizons.estimate import Estimate

if TYPE_CHECKING:
    from tidegauge.horizon.result import HorizonResult

_GRID = 61
_BIN_LOG2 = 2.0  # rates are shown for tasks within a factor of four of each other, as in the table
_BAND = (0.025, 0.5, 0.975)


@dataclass(frozen=True)
class Curve:
    """One agent's success curve on a grid of minutes, and the rates seen around some lengths.

    `low` and `high` are the pointwise 95 % band of the draws.
    """

    agent: str
    minutes: FloatArray
    median: FloatArray
    low: FloatArray
    high: FloatArray
    seen_minutes: FloatArray
    seen_rate: FloatArray
    seen_runs: FloatArray
    p50_minutes: float


def success_curves(result: HorizonResult) -> list[Curve]:
    """Return every agent's curve over the lengths of the tasks, in the order of the design."""
    design, estimate = result.design, result.estimate
    lengths = result.task_log2
    ends = np.concatenate([lengths, design.log2_minutes])
    log2 = np.linspace(ends.min() - 1, ends.max() + 1, _GRID)
    p50 = estimate.interval(0.5, kind="typical").median
    return [
        _curve(design, estimate, a, log2=log2, lengths=lengths, p50_minutes=float(p50[a]))
        for a in range(len(design.agents))
    ]


def _curve(
    design: Design,
    estimate: Estimate,
    a: int,
    *,
    log2: FloatArray,
    lengths: FloatArray,
    p50_minutes: float,
) -> Curve:
    low, median, high = _band(estimate, a, log2)
    # Edges at whole powers of four minutes, as those of the table's buckets.
    bins = np.floor(lengths / _BIN_LOG2).astype(np.int64)
    bins -= bins.min()
    attempts, successes = design.attempts[a], design.successes[a]
    runs, won, total = np.array(
        [np.bincount(bins, weights=w) for w in (attempts, successes, attempts * lengths)],
        dtype=np.float64,
    )
    seen = runs > 0
    return Curve(
        agent=design.agents[a],
        minutes=np.exp2(log2),
        median=median,
        low=low,
        high=high,
        seen_minutes=np.exp2(total[seen] / runs[seen]),
        seen_rate=won[seen] / runs[seen],
        seen_runs=runs[seen],
        p50_minutes=p50_minutes,
    )


def _band(estimate: Estimate, a: int, log2: FloatArray) -> FloatArray:
    """Return the ends of the band and the curve between them, shape (3, length)."""
    with np.errstate(invalid="ignore"):  # an agent that never succeeds may have no slope
        eta = estimate.alpha[:, a, None] + estimate.beta[:, a, None] * log2
        if estimate.weight is None:
            ends = np.quantile(eta, _BAND, axis=0)
        else:
            weight = estimate.weight[:, a]
            ends = np.array([weighted_quantiles(column, weight, _BAND) for column in eta.T]).T
        if estimate.point is not None:
            ends[1] = estimate.point.alpha[a] + estimate.point.beta[a] * log2
    band: FloatArray = expit(ends)
    return band
