"""The hierarchical model as a method: one fit, a fit for a fold, or a short fit of many."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.engine.config import SamplerConfig
from tidegauge.engine.diagnostics import mixing
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.horizons.estimate import Estimate, estimate_of_draws, estimate_of_fit
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
    from tidegauge.horizon.model.parameters import Point
    from tidegauge.horizon.result import HorizonFit

# A mean probability of success needs far fewer draws than the tails of a horizon.
FOLD_SAMPLER = SamplerConfig(draws=750, tune=300, chains=2, target_accept=0.95, cores=1)
# Of each of the two starts of a short fit.
SHORT_SAMPLER = SamplerConfig(draws=400, tune=300, chains=2, target_accept=0.95, cores=1)
_STARTS, _NEXT_SEED, _LONGER = 2, 1_000_003, 3
_MUCH_HEAVIER = 4.0  # log mass: 98 %, estimated to about one
# Limits of a short fit: R-hat of the horizons over all chains, of every parameter within a start.
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
            screened=full,
        )
        return estimate_of_fit(found, method=self.name)


def _short_fit(
    fit_horizon: functools.partial[HorizonFit], sampler: SamplerConfig, seed: int
) -> Estimate:
    """Sample with short chains; once more, longer, if they do not agree.

    Chains come from two starts with a pilot run each: all chains of one start can lie in the same
    mode of a posterior that has several, and would agree. Where the two ended in different modes,
    the one that holds nearly all the mass is the answer. Where chains of one start did, longer
    ones begin in the heaviest mode that many dispersed chains find.
    """
    fit = functools.partial(fit_horizon, patient=False, weighed=True)
    seeds = [(seed + start * _NEXT_SEED) % 2**63 for start in range(_STARTS)]
    # Two starts are the search for modes here; what they cannot settle is searched with many.
    fits = [fit(sampler=replace(sampler, seed=own), screened=False) for own in seeds]
    for chosen in _answers(fits):
        found = pooled_estimate(chosen)
        if found.converged:
            return found
    longer = replace(
        sampler,
        draws=_LONGER * sampler.draws,
        tune=_LONGER * sampler.tune,
        chains=_STARTS * sampler.chains,
        seed=seeds[-1],
    )
    last = fit(sampler=longer)
    # Converged starts of comparable mass are pooled with it: together they may still disagree.
    comparable = [
        one
        for one in fits
        if pooled_estimate([one]).converged and not last.log_mass - one.log_mass >= _MUCH_HEAVIER
    ]
    found = pooled_estimate([replace(last, point=last.point.thinned(_LONGER)), *comparable])
    missed = last.modes is not None and last.modes.passed is False
    return replace(found, converged=found.converged and not missed)


def _answers(fits: Sequence[HorizonFit]) -> Iterator[Sequence[HorizonFit]]:
    """Yield all fits together, then the one in whose mode nearly all mass is, if there is one."""
    yield fits
    *_, second, heaviest = sorted(fits, key=lambda fit: fit.log_mass)
    if heaviest.log_mass - second.log_mass > _MUCH_HEAVIER:
        yield [heaviest]


def pooled_estimate(fits: Sequence[HorizonFit]) -> Estimate:
    """Pool fits of the same model, and check how well the draws of their 50 % horizons agree.

    The `fit` of the estimate is the first one, with the draws of all.
    """
    first, point = fits[0], _pooled([fit.point for fit in fits])
    worst, error = mixing(bounded(log2_horizon(point.alpha, point.beta, success=0.5)))
    r_hats = [float(fit.diagnosis.parameters["r_hat"].fillna(np.inf).max()) for fit in fits]
    divergences = sum(fit.diagnosis.divergences for fit in fits)
    fine = worst < R_HAT_HORIZON and max(r_hats) < R_HAT_ALL and divergences == 0
    return replace(
        estimate_of_draws(first.design, point, method=model_name(first.options, first.priors)),
        converged=bool(fine),
        r_hat=max(worst, *r_hats),
        divergences=divergences,
        median_error=error,
        fit=replace(first, point=point),
    )


def _pooled(points: Sequence[Point]) -> Point:
    """Put the chains of several fits side by side."""
    parts = [point.present() for point in points]
    return replace(
        points[0], **{name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    )
