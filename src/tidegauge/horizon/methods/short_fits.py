"""One fit of a design by any set of choices, boiled down to draws of each agent's log2 horizon."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.engine.config import SamplerConfig
from tidegauge.engine.diagnostics import mixing
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.horizons.estimate import Estimate, estimate_of_draws
from tidegauge.horizon.horizons.quantities import bounded, log2_horizon
from tidegauge.horizon.methods.exact import fit_exact
from tidegauge.horizon.methods.regression import RegressionOptions, fit_regression
from tidegauge.horizon.methods.simex import fit_simex
from tidegauge.horizon.model.option_file import model_name
from tidegauge.horizon.model.options import CORE, DEFAULT_PRIORS, HorizonOptions, HorizonPriors
from tidegauge.horizon.studies.specifications import Universe

if TYPE_CHECKING:
    from tidegauge.horizon.model.parameters import Point
    from tidegauge.horizon.result import HorizonFit


# Of each start; a mean or a median needs far fewer draws than the tails of a horizon.
SHORT_SAMPLER = SamplerConfig(draws=400, tune=300, chains=2, target_accept=0.95, cores=1)
_STARTS, _NEXT_SEED, _LONGER = 2, 1_000_003, 3
_MUCH_HEAVIER = 4.0  # log mass: 98 %, estimated to about one
REPLICATES = 200  # of the bootstrap: ends of a 95 % interval to a few per cent of its width
_SIMEX_REPLICATES = 50  # each is refitted a hundred times
# R-hat of what is reported over all chains, and of every parameter within a start.
R_HAT_HORIZON, R_HAT_ALL = 1.05, 1.1


def fit_universe(universe: Universe, design: Design, *, seed: int) -> Estimate:
    """Fit the data of a universe, as its `data_of` gives them."""
    match universe.method:
        case "hierarchical":
            return fit_short(design, options=universe.model, seed=seed)[0]
        case "grid":
            return fit_exact(design)
        case _:
            return _regression(universe, design, seed)


def fit_short(
    design: Design,
    *,
    options: HorizonOptions = CORE,
    priors: HorizonPriors = DEFAULT_PRIORS,
    sampler: SamplerConfig = SHORT_SAMPLER,
    seed: int,
) -> tuple[Estimate, HorizonFit]:
    """Sample the hierarchical model with short chains; once more, longer, if they do not agree.

    Chains come from two starts with a pilot run each: all chains of one start can lie in the same
    mode of a posterior that has several, and would agree. Where the two ended in different modes,
    the one that holds nearly all the mass is the answer. Where chains of one start did, longer
    ones begin in the heaviest mode that many dispersed chains find.

    Returns
    -------
    Estimate, HorizonFit
        The estimate, and the fit they are of; with the draws of both in its `point`.
    """
    from tidegauge.horizon.sampler.fit import (
        fit_horizon,
    )  # the sampler is slow to import: faults first

    fit = functools.partial(
        fit_horizon, design, priors=priors, options=options, patient=False, weighed=True
    )
    seeds = [(seed + start * _NEXT_SEED) % 2**63 for start in range(_STARTS)]
    # Two starts are the screen here; what they cannot settle is screened with many.
    fits = [fit(sampler=replace(sampler, seed=own), screened=False) for own in seeds]
    for chosen in _answers(fits):
        found = horizon_of(chosen)
        if found.converged:
            return found, replace(chosen[0], point=_pooled([one.point for one in chosen]))
    longer = replace(
        sampler,
        draws=_LONGER * sampler.draws,
        tune=_LONGER * sampler.tune,
        chains=_STARTS * sampler.chains,
        seed=seeds[-1],
    )
    last = fit(sampler=longer)
    # Starts that are sound and not much lighter have a say: together they may still disagree.
    rivals = [
        one
        for one in fits
        if horizon_of([one]).converged and not last.log_mass - one.log_mass >= _MUCH_HEAVIER
    ]
    found = horizon_of([replace(last, point=last.point.thinned(_LONGER)), *rivals])
    missed = last.modes is not None and last.modes.passed is False
    return replace(found, converged=found.converged and not missed), last


def _answers(fits: Sequence[HorizonFit]) -> Iterator[Sequence[HorizonFit]]:
    """Yield all fits together, then the one in whose mode nearly all mass is, if there is one."""
    yield fits
    *_, second, heaviest = sorted(fits, key=lambda fit: fit.log_mass)
    if heaviest.log_mass - second.log_mass > _MUCH_HEAVIER:
        yield [heaviest]


def _pooled(points: Sequence[Point]) -> Point:
    """Put the chains of several fits side by side."""
    parts = [point.present() for point in points]
    return replace(
        points[0], **{name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    )


def horizon_of(fits: Sequence[HorizonFit]) -> Estimate:
    """Pool fits of the same model, and check how well the draws of their 50 % horizons agree."""
    point = _pooled([fit.point for fit in fits])
    log2 = bounded(log2_horizon(point.alpha, point.beta, success=0.5))
    worst, error = mixing(log2)
    r_hats = [float(fit.diagnosis.parameters["r_hat"].fillna(np.inf).max()) for fit in fits]
    divergences = sum(fit.diagnosis.divergences for fit in fits)
    fine = worst < R_HAT_HORIZON and max(r_hats) < R_HAT_ALL and divergences == 0
    first = fits[0]
    return replace(
        estimate_of_draws(first.design, point, method=model_name(first.options, first.priors)),
        converged=bool(fine),
        r_hat=max(worst, *r_hats),
        divergences=divergences,
        median_error=error,
    )


def _regression(universe: Universe, design: Design, seed: int) -> Estimate:
    options = RegressionOptions(
        weighting=universe.weighting,
        regularisation=universe.regularisation,
        replicates=REPLICATES,
        seed=seed,
    )
    if universe.lengths == "simex":
        return fit_simex(design, regression=replace(options, replicates=_SIMEX_REPLICATES))
    return fit_regression(design, options=options)
