"""Simulation-extrapolation: METR's regression, corrected for noise in the human times.

A length measured with noise flattens the curve fitted on it. Adding more noise on purpose shows
how the coefficients move with its variance; a quadratic through them, carried back past the data
to no noise at all, is the corrected fit (Cook and Stefanski 1994). The noise is taken as classical:
what was measured is the true log2 length plus an independent error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.engine.logistic import LogisticFits, logistic_ridge
from tidegauge.errors import InputError
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.data.subset import estimate_only
from tidegauge.horizon.data.weights import run_weights
from tidegauge.horizon.horizons.estimate import Estimate
from tidegauge.horizon.methods.regression import (
    RegressionOptions,
    bootstrap_estimate,
    resample,
)

ADDED = (0.5, 1.0, 1.5, 2.0)  # noise variances added, in units of the noise that is there
_NO_NOISE = -1.0


@dataclass(frozen=True, kw_only=True)
class SimexOptions:
    """How the noise is known, and how much of it is simulated.

    Attributes
    ----------
    run_sd_log2 : float or None
        Standard deviation of one human run, log2 minutes; None estimates it from repeated runs.
    estimate_sd_log2 : float or None
        That of an estimate; None takes an estimate to be as good as one run. An assumption: a
        file rarely has tasks with both.
    noises : int
        Draws of the added noise at each variance, at least 2.
    """

    run_sd_log2: float | None = None
    estimate_sd_log2: float | None = None
    noises: int = 30

    def __post_init__(self) -> None:
        for name in ("run_sd_log2", "estimate_sd_log2"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < np.inf:
                raise InputError(f"{name}={value}: must be 0 or above")
        if self.noises < 2:
            raise InputError(f"noises={self.noises}: must be at least 2")


DEFAULT_SIMEX = SimexOptions()


def human_run_sd(design: Design) -> float:
    """Pool the spread of successful human runs about their task's mean, log2 minutes.

    Raises
    ------
    InputError
        No task has two of them.
    """
    n_tasks = len(design.tasks)
    count = np.bincount(design.run_task, minlength=n_tasks)
    total = np.bincount(design.run_task, weights=design.run_log2, minlength=n_tasks)
    mean = total / np.maximum(count, 1)
    spare = int(np.maximum(count - 1, 0).sum())
    if not spare:
        raise InputError(
            "no task has two successful human runs, so their noise is not known; "
            "add runs, or leave out simex"
        )
    return float(np.sqrt(np.sum((design.run_log2 - mean[design.run_task]) ** 2) / spare))


def length_sd(design: Design, options: SimexOptions = DEFAULT_SIMEX) -> FloatArray:
    """Return the standard deviation of each task's log2 length: that of the mean of its runs.

    A task without a successful run and without an estimate counts as timed once.
    """
    one = human_run_sd(design) if options.run_sd_log2 is None else options.run_sd_log2
    estimate = one if options.estimate_sd_log2 is None else options.estimate_sd_log2
    runs = np.bincount(design.run_task, minlength=len(design.tasks))
    return np.where(estimate_only(design), estimate, one / np.sqrt(np.maximum(runs, 1)))


def fit_simex(
    design: Design,
    *,
    regression: RegressionOptions,
    options: SimexOptions = DEFAULT_SIMEX,
    seed: int = 1,
) -> Estimate:
    """Regress as `fit_regression` does, and extrapolate every fit to lengths without noise.

    The bootstrap replicates are extrapolated each by itself; the simulated noise is common to
    them all, so that their spread is that of the data.
    """
    sd = length_sd(design, options)
    weights = run_weights(design, regression.weighting)
    rng = np.random.default_rng(seed)
    attempts, successes = resample(design, regression.replicates, rng)
    won = weights * np.concatenate([design.successes[None], successes])
    lost = weights * np.concatenate(
        [(design.attempts - design.successes)[None], attempts - successes]
    )
    noise = rng.normal(size=(options.noises, len(design.tasks))) * sd
    fits = extrapolate(design.log2_minutes, won, lost, noise=noise, ridge=regression.regularisation)
    return bootstrap_estimate(
        design,
        LogisticFits(fits.intercept[0], fits.slope[0]),
        LogisticFits(fits.intercept[1:], fits.slope[1:]),
    )


def extrapolate(
    x: FloatArray, won: FloatArray, lost: FloatArray, *, noise: FloatArray, ridge: float
) -> LogisticFits:
    """Return regressions carried back to no noise in `x`.

    Parameters
    ----------
    x : ndarray, shape (task,)
        Measured log2 minutes.
    won, lost : ndarray, shape (..., task)
        Weights of successes and failures, as `logistic_ridge` takes them.
    noise : ndarray, shape (noise, task)
        Draws of an error as large as the one in `x`.

    Returns
    -------
    LogisticFits
        Shapes (...); a regression without a finite solution stays as it is.
    """
    measured = logistic_ridge(x, won, lost, ridge=ridge)
    # Centred per task, at the same variance: the extrapolation would multiply a chance shift.
    noise = (noise - noise.mean(axis=0)) * np.sqrt(len(noise) / (len(noise) - 1))
    points = [np.stack([measured.intercept, measured.slope])]
    for added in ADDED:
        total = np.zeros_like(points[0])
        for errors in noise:
            fits = logistic_ridge(x + np.sqrt(added) * errors, won, lost, ridge=ridge)
            total += np.stack([fits.intercept, fits.slope])
        points.append(total / len(noise))
    weights = _extrapolation_weights(np.array([0.0, *ADDED]))
    with np.errstate(invalid="ignore"):  # an infinite intercept: never or always successful
        intercept, slope = np.tensordot(weights, np.stack(points), axes=1)
    usable = np.isfinite(intercept) & np.isfinite(slope)
    return LogisticFits(
        np.where(usable, intercept, measured.intercept), np.where(usable, slope, measured.slope)
    )


def _extrapolation_weights(added: FloatArray) -> FloatArray:
    """Return how the least-squares quadratic at no noise weighs the fits at each variance."""
    powers = np.vander(added, 3)
    target = np.vander([_NO_NOISE], 3)[0]
    weights: FloatArray = target @ np.linalg.pinv(powers)
    return weights
