"""Methods that can be compared: each fits a design and predicts success of any agent at any task.

A new model or variant joins the comparison as one more contender: a name, and a `fit` that returns
its probabilities. Contenders are plain values, since folds are fitted in other processes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from tidegauge.engine.config import SamplerConfig
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.horizons.estimate import Estimate, estimate_of_fit
from tidegauge.horizon.methods.exact import fit_exact
from tidegauge.horizon.methods.regression import (
    DEFAULT_REGRESSION,
    RegressionOptions,
    fit_regression,
)
from tidegauge.horizon.model.options import CORE, DEFAULT_SAMPLER, FULL, HorizonOptions
from tidegauge.progress import SILENT, Progress

# A mean probability of success needs far fewer draws than the tails of a horizon.
FOLD_SAMPLER = SamplerConfig(draws=750, tune=300, chains=2, target_accept=0.95, cores=1)


class Contender(Protocol):
    """One named way to learn from a design."""

    @property
    def name(self) -> str:
        """What the tables call it."""

    def fit(self, design: Design, *, seed: int, quick: bool, progress: Progress) -> Estimate:
        """Learn from the design; `quick` is for folds, where only predictions are needed."""


@dataclass(frozen=True)
class Climatology:
    """The baseline: every agent succeeds as often as it did on other tasks, however long."""

    name: str = "climatology"

    def fit(
        self, design: Design, *, seed: int = 1, quick: bool = False, progress: Progress = SILENT
    ) -> Estimate:
        """Average each agent's runs, with half a success and half a failure added."""
        rate = (design.successes.sum(axis=1) + 0.5) / (design.attempts.sum(axis=1) + 1)
        flat = np.log(rate) - np.log1p(-rate)
        return Estimate(
            method=self.name,
            agents=design.agents,
            alpha=flat[None],
            beta=np.zeros((1, rate.size)),
            success=np.repeat(rate[:, None], len(design.tasks), axis=1),
            longest_minutes=float(design.human_minutes.max()),
        )


@dataclass(frozen=True)
class Frequentist:
    """METR's regression: the fitted curve at the file's own human_minutes."""

    name: str = "frequentist"
    options: RegressionOptions = DEFAULT_REGRESSION

    def fit(
        self, design: Design, *, seed: int = 1, quick: bool = False, progress: Progress = SILENT
    ) -> Estimate:
        """Regress; a quick fit needs no bootstrap, so it draws the least there is."""
        options = replace(self.options, seed=seed)
        if quick:
            options = replace(options, replicates=1)
        return fit_regression(design, options=options, progress=progress)


@dataclass(frozen=True)
class Grid:
    """Each agent's exact posterior: the mean curve at the file's own human_minutes."""

    name: str = "grid"

    def fit(
        self, design: Design, *, seed: int = 1, quick: bool = False, progress: Progress = SILENT
    ) -> Estimate:
        """Sum the posteriors; there is nothing to make quicker."""
        with progress.step("summing each agent's posterior"):
            return fit_exact(design)


@dataclass(frozen=True)
class Hierarchical:
    """The hierarchical model: success averaged over agents' curves and tasks' difficulties."""

    name: str = "core"
    options: HorizonOptions = CORE
    sampler: SamplerConfig = DEFAULT_SAMPLER
    fold_sampler: SamplerConfig = FOLD_SAMPLER

    def fit(
        self, design: Design, *, seed: int = 1, quick: bool = False, progress: Progress = SILENT
    ) -> Estimate:
        """Sample; a quick fit takes fewer draws on one core and is not repeated."""
        from tidegauge.horizon.sampler.fit import (
            fit_horizon,
        )  # the sampler is slow to import: faults first

        fit = fit_horizon(
            design,
            options=self.options,
            sampler=replace(self.fold_sampler if quick else self.sampler, seed=seed),
            patient=not quick,
            screened=not quick,
            progress=progress,
        )
        return estimate_of_fit(fit, method=self.name)


def _variant(name: str, **choices: str | bool) -> Hierarchical:
    """Return core with one thing changed: to see what it alone does."""
    return Hierarchical(name=name, options=HorizonOptions(**choices))  # type: ignore[arg-type]


BASELINE: Contender = Climatology()
CONTENDERS: dict[str, Contender] = {
    contender.name: contender
    for contender in (
        Frequentist(),
        Grid(),
        Hierarchical(),
        Hierarchical(name="full", options=FULL),
        _variant("core-censor", failures="censor"),
        _variant("core-residual-task", residual="task"),
        _variant("core-residual-family", residual="family"),
        _variant("core-student-t", noise="student_t"),
        _variant("core-weibull", noise="weibull"),
        _variant("core-per-source", human_scale="source"),
        _variant("core-half-normal-2", human_prior="half_normal_2"),
        _variant("core-half-cauchy-1", human_prior="half_cauchy_1"),
        _variant("core-noise-growth", noise_growth=True),
        _variant("core-rounding", rounding=True),
        _variant("core-estimate-bias", estimate_bias=True),
        _variant("core-discrimination", discrimination=True),
        _variant("core-pooled", pooling="all"),
        _variant("core-pooled-lab", pooling="lab"),
        _variant("core-pooled-family", pooling="family"),
        _variant("core-continuous", scores="continuous"),
    )
}
DEFAULT_CONTENDERS = ("frequentist", "grid", "core", "full")
