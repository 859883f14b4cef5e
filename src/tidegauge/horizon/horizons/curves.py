"""Each agent's success curve from a stored fit, with the success rates that were seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from tidegauge.arrays import FloatArray
from tidegauge.horizon.horizons.tables import BUCKETS
from tidegauge.horizon.store.stored_fit import Posterior, StoredFit

if TYPE_CHECKING:
    import pandas as pd


_GRID = 61
_BIN_LOG2 = 2.0  # rates are shown for tasks within a factor of four of each other, as in the table


@dataclass(frozen=True)
class Curve:
    """One agent's success curve on a grid of minutes, and the rates seen around some lengths.

    `low` and `high` are None without draws; `seen_runs` is None where runs were not counted.
    """

    agent: str
    minutes: FloatArray
    median: FloatArray
    low: FloatArray | None
    high: FloatArray | None
    seen_minutes: FloatArray
    seen_rate: FloatArray
    seen_runs: FloatArray | None
    p50_minutes: float


def success_curves(fit: StoredFit) -> list[Curve]:
    """Return every agent's curve over the lengths that matter, in the table's order.

    With draws: their pointwise median and 95 % band, and the share of successful runs by inferred
    task length. Without: the curve of the table's coefficients, and its length buckets.
    """
    log2 = _grid_of(fit)
    rows = fit.horizons.to_dict("records")
    if fit.posterior is None or fit.tasks is None:
        return [_curve_of_row(row, log2) for row in rows]
    lengths = fit.tasks["log2_mean"].to_numpy()
    return [_curve_of_draws(fit.posterior, a, row, log2, lengths) for a, row in enumerate(rows)]


def _grid_of(fit: StoredFit) -> FloatArray:
    if fit.tasks is not None:
        ends = _ends(fit.tasks)
    else:
        p80 = fit.horizons["p80"].to_numpy()
        usable = p80[np.isfinite(p80) & (p80 > 0)]
        shortest = np.clip(usable.min() if usable.size else 1.0, 1e-3, 1.0)
        ends = float(np.log2(shortest)), float(np.log2(2880))
    return np.linspace(ends[0] - 1, ends[1] + 1, _GRID)


def _ends(tasks: pd.DataFrame) -> tuple[float, float]:
    lengths = np.concatenate([tasks["log2_mean"], np.log2(tasks["human_minutes"])])
    return float(lengths.min()), float(lengths.max())


def _curve_of_row(row: dict[Any, Any], log2: FloatArray) -> Curve:
    with np.errstate(invalid="ignore"):  # an agent that never succeeds has no slope
        median = expit(row["intercept"] + row["coefficient"] * log2)
    middles = np.array([np.sqrt(low * high) for low, high in BUCKETS.values()])
    rates = np.array([row[bucket] for bucket in BUCKETS])
    seen = np.isfinite(rates)
    return Curve(
        agent=row["agent"],
        minutes=np.exp2(log2),
        median=median,
        low=None,
        high=None,
        seen_minutes=middles[seen],
        seen_rate=rates[seen],
        seen_runs=None,
        p50_minutes=row["p50"],
    )


def _curve_of_draws(
    posterior: Posterior, a: int, row: dict[Any, Any], log2: FloatArray, lengths: FloatArray
) -> Curve:
    eta = posterior.alpha[:, a, None] + posterior.beta[:, a, None] * log2
    low, median, high = expit(np.quantile(eta, [0.025, 0.5, 0.975], axis=0))
    attempts, successes = posterior.counts.attempts[a], posterior.counts.successes[a]
    # Edges at whole powers of four minutes, as those of the table's buckets.
    bins = np.floor(lengths / _BIN_LOG2).astype(np.int64)
    bins -= bins.min()
    runs, won, total = np.array(
        [np.bincount(bins, weights=w) for w in (attempts, successes, attempts * lengths)],
        dtype=np.float64,
    )
    seen = runs > 0
    return Curve(
        agent=row["agent"],
        minutes=np.exp2(log2),
        median=median,
        low=low,
        high=high,
        seen_minutes=np.exp2(total[seen] / runs[seen]),
        seen_rate=won[seen] / runs[seen],
        seen_runs=runs[seen],
        p50_minutes=row["p50"],
    )
