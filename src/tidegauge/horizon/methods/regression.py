"""METR's analysis: one weighted logistic regression per agent, and a hierarchical bootstrap.

A replicate draws families, then tasks within them, then runs within those, with replacement. By
counts that is two multinomials and a binomial, so all replicates are drawn and fitted at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.engine.logistic import LogisticFits, logistic_ridge
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.data.weights import run_weights
from tidegauge.horizon.horizons.quantities import log2_horizon
from tidegauge.progress import SILENT, Progress

DEFAULT_REGULARISATION = 1e-5  # METR's TH1.1; their first paper used 0.1
_REPLICATES_AT_ONCE = 100


@dataclass(frozen=True, kw_only=True)
class FrequentistOptions:
    """Choices of the regression: task weights, ridge on the slope, bootstrap replicates."""

    weights: str = "invsqrt"
    regularisation: float = DEFAULT_REGULARISATION
    replicates: int = 1000
    seed: int = 1


DEFAULT_FREQUENTIST = FrequentistOptions()


@dataclass(frozen=True)
class FrequentistFit:
    """The point fit per agent, and every bootstrap replicate of it (replicate, agent)."""

    point: LogisticFits
    replicates: LogisticFits
    weights: FloatArray


def fit_frequentist(
    design: Design,
    *,
    options: FrequentistOptions = DEFAULT_FREQUENTIST,
    progress: Progress = SILENT,
) -> FrequentistFit:
    """Regress success on log2 human_minutes for each agent, with bootstrap replicates."""
    weights = run_weights(design, options.weights)
    x = design.log2_minutes
    point = logistic_ridge(
        x,
        weights * design.successes,
        weights * (design.attempts - design.successes),
        ridge=options.regularisation,
    )
    rng = np.random.default_rng(options.seed)
    intercepts, slopes = [], []
    with progress.step("bootstrap replicates", total=options.replicates) as step:
        for begin in range(0, options.replicates, _REPLICATES_AT_ONCE):
            n = min(_REPLICATES_AT_ONCE, options.replicates - begin)
            attempts, successes = resample(design, n, rng)
            fits = logistic_ridge(
                x,
                weights * successes,
                weights * (attempts - successes),
                ridge=options.regularisation,
            )
            intercepts.append(fits.intercept)
            slopes.append(fits.slope)
            step.update(begin + n)
    replicates = LogisticFits(np.concatenate(intercepts), np.concatenate(slopes))
    return FrequentistFit(point=point, replicates=replicates, weights=weights)


def resample(design: Design, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Draw n hierarchical bootstrap replicates; return attempts and successes (n, agent, task)."""
    n_families = len(design.families)
    families = rng.multinomial(n_families, np.full(n_families, 1 / n_families), size=n)
    tasks = np.zeros((n, len(design.tasks)), dtype=np.int64)
    for f in range(n_families):
        members = np.flatnonzero(design.task_family == f)
        tasks[:, members] = rng.multinomial(
            families[:, f] * members.size, np.full(members.size, 1 / members.size)
        )
    attempts = tasks[:, None, :] * design.attempts.astype(np.int64)
    rate = np.divide(
        design.successes,
        design.attempts,
        out=np.zeros_like(design.successes),
        where=design.attempts > 0,
    )
    return attempts.astype(float), rng.binomial(attempts, rate).astype(float)


def log2_horizon_of(fits: LogisticFits, *, success: float, longest_log2: float) -> FloatArray:
    """Return log2 horizons of fitted curves, whatever the sign of their slope.

    A slope that is not negative has no length at which success falls to the rate: the horizon is
    infinite where the curve is above the rate at the longest task, and zero otherwise.
    """
    falling = fits.slope < 0
    logit = np.log(success) - np.log1p(-success)
    with np.errstate(invalid="ignore"):
        at_longest = fits.intercept + np.where(falling, 0, fits.slope) * longest_log2
        log2 = log2_horizon(fits.intercept, np.where(falling, fits.slope, -1.0), success=success)
    result = np.where(falling, log2, np.where(at_longest >= logit, np.inf, -np.inf))
    return np.where(np.isnan(fits.intercept), np.nan, result)
