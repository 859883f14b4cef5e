"""METR's analysis: one weighted logistic regression per agent, and a hierarchical bootstrap.

A replicate draws families, then tasks within them, then runs within those, with replacement. By
counts that is two multinomials and a binomial, so all replicates are drawn and fitted at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from tidegauge.arrays import FloatArray
from tidegauge.engine.logistic import LogisticFits, logistic_ridge
from tidegauge.errors import InputError
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.data.weights import SCHEMES, run_weights
from tidegauge.horizon.horizons.estimate import Curves, Estimate
from tidegauge.horizon.methods.base import Effort
from tidegauge.progress import SILENT, Progress

DEFAULT_REGULARISATION = 1e-5  # METR's TH1.1; their first paper used 0.1
LENGTHS = ("given", "simex")
_REPLICATES_AT_ONCE = 100
# Ends of a 95 % interval to a few per cent of its width; simex refits each a hundred times.
_SHORT_REPLICATES, _SHORT_SIMEX_REPLICATES = 200, 50


@dataclass(frozen=True, kw_only=True)
class RegressionOptions:
    """Choices of the regression.

    Attributes
    ----------
    weighting : str
        Task weights: ``invsqrt`` of the family's size, ``equal`` tasks, or ``none`` (equal runs).
    regularisation : float
        Ridge on the slope.
    lengths : str
        human_minutes as ``given``, or corrected for their noise by ``simex``.
    replicates : int
        Of the bootstrap.
    """

    weighting: str = "invsqrt"
    regularisation: float = DEFAULT_REGULARISATION
    lengths: str = "given"
    replicates: int = 1000

    def __post_init__(self) -> None:
        for name, allowed in (("weighting", SCHEMES), ("lengths", LENGTHS)):
            if (value := getattr(self, name)) not in allowed:
                raise InputError(f"{name}={value}: must be one of {', '.join(allowed)}")
        if not 0 < self.regularisation < math.inf:
            raise InputError(f"regularisation={self.regularisation}: must be above 0")
        if self.replicates < 1:
            raise InputError(f"replicates={self.replicates}: must be at least 1")


DEFAULT_REGRESSION = RegressionOptions()


@dataclass(frozen=True)
class Regression:
    """METR's regression: the fitted curve at the file's own human_minutes."""

    name: str = "regression"
    options: RegressionOptions = DEFAULT_REGRESSION

    @property
    def settings(self) -> dict[str, Any]:
        """The options."""
        return {"regression": self.options}

    def fit(
        self,
        design: Design,
        *,
        effort: Effort = Effort.FULL,
        seed: int = 1,
        progress: Progress = SILENT,
    ) -> Estimate:
        """Regress; predictions of a fold need no bootstrap, so it has the least there is."""
        from tidegauge.horizon.methods.simex import fit_simex  # which resamples as it is done here

        simex = self.options.lengths == "simex"
        short = _SHORT_SIMEX_REPLICATES if simex else _SHORT_REPLICATES
        most = {Effort.FULL: self.options.replicates, Effort.SHORT: short, Effort.FOLD: 1}[effort]
        options = replace(self.options, replicates=min(most, self.options.replicates))
        if simex:
            with progress.step("regressions with added noise"):
                found = fit_simex(design, regression=options, seed=seed)
        else:
            found = fit_regression(design, options=options, seed=seed, progress=progress)
        return replace(found, method=self.name)


def fit_regression(
    design: Design,
    *,
    options: RegressionOptions = DEFAULT_REGRESSION,
    seed: int = 1,
    progress: Progress = SILENT,
) -> Estimate:
    """Regress success on log2 human_minutes for each agent, with bootstrap replicates."""
    weights = run_weights(design, options.weighting)
    x = design.log2_minutes
    point = logistic_ridge(
        x,
        weights * design.successes,
        weights * (design.attempts - design.successes),
        ridge=options.regularisation,
    )
    rng = np.random.default_rng(seed)
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
    return bootstrap_estimate(
        design, point, LogisticFits(np.concatenate(intercepts), np.concatenate(slopes))
    )


def bootstrap_estimate(design: Design, point: LogisticFits, replicates: LogisticFits) -> Estimate:
    """Return the estimate of a point fit (agent,) and its replicates (replicate, agent).

    A replicate without a run of the agent has no curve (NaN): it counts as the point fit.
    """
    alpha, beta = point.intercept, point.slope
    missing = np.isnan(replicates.intercept)
    with np.errstate(invalid="ignore"):  # an agent that always succeeds: infinity times zero
        eta = alpha[:, None] + beta[:, None] * design.log2_minutes
    return Estimate(
        method="regression",
        agents=design.agents,
        alpha=np.where(missing, alpha, replicates.intercept),
        beta=np.where(missing, beta, replicates.slope),
        success=expit(eta),
        longest_minutes=float(design.human_minutes.max()),
        point=Curves(alpha, beta),
    )


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
