"""The hierarchical model as a method: one fit, a fit for a fold, or a short fit of many."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.engine.config import SamplerConfig
from tidegauge.engine.diagnostics import mixing
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.horizons.estimate import Estimate, estimate_of_fit
from tidegauge.horizon.horizons.quantities import bounded, log2_horizon
from tidegauge.horizon.methods.base import Effort
from tidegauge.horizon.model.option_file import model_name
from tidegauge.horizon.model.options import (
    CORE,
    DEFAULT_PRIORS,
    DEFAULT_SAMPLER,
    HorizonOptions,
    HorizonPriors,
)
from tidegauge.progress import SILENT, Progress

if TYPE_CHECKING:
    from tidegauge.horizon.result import HorizonFit

# A mean probability of success needs far fewer draws than the tails of a horizon.
FOLD_SAMPLER = SamplerConfig(draws=750, tune=300, chains=2, target_accept=0.95, cores=1)
SHORT_SAMPLER = SamplerConfig(draws=400, tune=300, chains=4, target_accept=0.95, cores=1)
_LONGER = 3  # chains of a short fit that did not converge
# Limits of a short fit: R-hat of the horizons, and of every parameter.
R_HAT_HORIZON, R_HAT_ALL = 1.05, 1.1


@dataclass(frozen=True)
class Hierarchical:
    """The hierarchical model: success averaged over agents' curves and tasks' difficulties.

    Attributes
    ----------
    patient : bool
        Whether a full fit that did not converge is repeated with smaller steps and longer chains.
    """

    name: str = "core"
    options: HorizonOptions = CORE
    priors: HorizonPriors = DEFAULT_PRIORS
    sampler: SamplerConfig = DEFAULT_SAMPLER
    fold_sampler: SamplerConfig = FOLD_SAMPLER
    short_sampler: SamplerConfig = SHORT_SAMPLER
    patient: bool = True

    @property
    def settings(self) -> dict[str, Any]:
        """Options, priors and the sampler of a full fit."""
        return {
            "model": model_name(self.options, self.priors),
            "options": self.options,
            "priors": self.priors,
            "sampler": self.sampler,
        }

    def fit(
        self,
        design: Design,
        *,
        effort: Effort = Effort.FULL,
        seed: int = 1,
        progress: Progress = SILENT,
    ) -> Estimate:
        """Sample; a fold takes fewer draws on one core and is not repeated."""
        from tidegauge.horizon.sampler.fit import fit_horizon  # slow to import: input faults first

        fit = functools.partial(
            fit_horizon, design, priors=self.priors, options=self.options, progress=progress
        )
        if effort is Effort.SHORT:
            return replace(_short_fit(fit, self.short_sampler, seed), method=self.name)
        full = effort is Effort.FULL
        found = fit(
            sampler=replace(self.sampler if full else self.fold_sampler, seed=seed),
            patient=full and self.patient,
        )
        return estimate_of_fit(found, method=self.name)


def _short_fit(
    fit_horizon: functools.partial[HorizonFit], sampler: SamplerConfig, seed: int
) -> Estimate:
    """Sample with short chains; once more, longer, if they do not agree."""
    fit = functools.partial(fit_horizon, patient=False)
    found = short_estimate(fit(sampler=replace(sampler, seed=seed)))
    if found.converged:
        return found
    longer = replace(sampler, draws=_LONGER * sampler.draws, tune=_LONGER * sampler.tune, seed=seed)
    last = fit(sampler=longer)
    return short_estimate(replace(last, point=last.point.thinned(_LONGER)))


def short_estimate(fit: HorizonFit) -> Estimate:
    """Return the estimate of a short fit, by how well the draws of its 50 % horizons agree."""
    point = fit.point
    worst, error = mixing(bounded(log2_horizon(point.alpha, point.beta, success=0.5)))
    r_hat = float(fit.diagnosis.parameters["r_hat"].fillna(np.inf).max())
    divergences = fit.diagnosis.divergences
    fine = worst < R_HAT_HORIZON and r_hat < R_HAT_ALL and divergences == 0
    return replace(
        estimate_of_fit(fit, method=model_name(fit.options, fit.priors)),
        converged=bool(fine),
        r_hat=max(worst, r_hat),
        divergences=divergences,
        median_error=error,
        fit=fit,
    )
