"""One fit of a design by any set of choices, boiled down to draws of each agent's log2 horizon."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.arrays import FloatArray, weighted_quantiles
from tidegauge.engine.config import SamplerConfig
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.horizons.quantities import log2_horizon
from tidegauge.horizon.methods.exact import AgentGrid, fit_grid
from tidegauge.horizon.methods.regression import (
    FrequentistOptions,
    fit_frequentist,
    log2_horizon_of,
)
from tidegauge.horizon.methods.simex import fit_simex
from tidegauge.horizon.model.options import CORE, DEFAULT_PRIORS, HorizonOptions, HorizonPriors
from tidegauge.horizon.studies.specifications import Universe

if TYPE_CHECKING:
    from tidegauge.horizon.model.parameters import Point
    from tidegauge.horizon.sampler.fit import HorizonFit


# Of each start; a mean or a median needs far fewer draws than the tails of a horizon.
SHORT_SAMPLER = SamplerConfig(draws=400, tune=300, chains=2, target_accept=0.95, cores=1)
_STARTS, _NEXT_SEED, _LONGER = 2, 1_000_003, 3
_MUCH_HEAVIER = 4.0  # log mass: 98 %, estimated to about one
REPLICATES = 200  # of the bootstrap: ends of a 95 % interval to a few per cent of its width
_SIMEX_REPLICATES = 50  # each is refitted a hundred times
_GRID_DRAWS = 2001
_FARTHEST_LOG2 = 1e6
# R-hat of what is reported over all chains, and of every parameter within a start.
R_HAT_HORIZON, R_HAT_ALL = 1.05, 1.1


@dataclass(frozen=True)
class Horizon50:
    """What one fit says of the 50 % horizon, log2 minutes.

    Attributes
    ----------
    agents : tuple of str
    middle : ndarray, shape (agent,)
        Posterior median, or the point fit of a regression.
    draws : ndarray, shape (draw, agent)
        Posterior draws or bootstrap replicates, finite.
    converged : bool
        Whether the chains agree well enough for medians and intervals; True if nothing is sampled.
    r_hat, divergences
        Largest R-hat of all parameters and of the horizons (NaN if nothing is sampled), divergent
        transitions.
    error : ndarray, shape (agent,)
        Monte Carlo standard error of `middle`.
    """

    agents: tuple[str, ...]
    middle: FloatArray
    draws: FloatArray
    converged: bool
    r_hat: float
    divergences: int
    error: FloatArray


def fit_universe(universe: Universe, design: Design, *, seed: int) -> Horizon50:
    """Fit the data of a universe, as its `data_of` gives them."""
    match universe.method:
        case "hierarchical":
            return fit_short(design, options=universe.model, seed=seed)[0]
        case "grid":
            return _grid(design, seed)
        case _:
            return _regression(universe, design, seed)


def fit_short(
    design: Design,
    *,
    options: HorizonOptions = CORE,
    priors: HorizonPriors = DEFAULT_PRIORS,
    sampler: SamplerConfig = SHORT_SAMPLER,
    seed: int,
) -> tuple[Horizon50, HorizonFit]:
    """Sample the hierarchical model with short chains; once more, longer, if they do not agree.

    Chains come from two starts with a pilot run each: all chains of one start can lie in the same
    mode of a posterior that has several, and would agree. Where the two ended in different modes,
    the one that holds nearly all the mass is the answer. Where chains of one start did, longer
    ones begin in the heaviest mode that many dispersed chains find.

    Returns
    -------
    Horizon50, HorizonFit
        The horizons, and the fit they are of; with the draws of both in its `point`.
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
    missed = last.screen is not None and last.screen.check().passed is False
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


def horizon_of(fits: Sequence[HorizonFit]) -> Horizon50:
    """Boil fits of the same model down to 50 % horizons and how well they agree."""
    point = _pooled([fit.point for fit in fits])
    log2 = _finite(log2_horizon(point.alpha, point.beta, success=0.5))
    worst, error = _mixing(log2)
    r_hats = [float(fit.diagnosis.parameters["r_hat"].fillna(np.inf).max()) for fit in fits]
    divergences = sum(fit.diagnosis.divergences for fit in fits)
    fine = worst < R_HAT_HORIZON and max(r_hats) < R_HAT_ALL and divergences == 0
    draws = log2.reshape(-1, log2.shape[-1])
    return Horizon50(
        agents=fits[0].design.agents,
        middle=np.median(draws, axis=0),
        draws=draws,
        converged=bool(fine),
        r_hat=max(worst, *r_hats),
        divergences=divergences,
        error=error,
    )


def _mixing(log2: FloatArray) -> tuple[float, FloatArray]:
    """Return the largest R-hat of (chain, draw, agent), and each median's Monte Carlo error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # ArviZ announces its next major
        import arviz as az

    columns = [np.ascontiguousarray(log2[..., a]) for a in range(log2.shape[-1])]
    error = np.array([float(az.mcse(column, method="median")) for column in columns])
    r_hats = [float(az.rhat(column)) for column in columns]
    return max([1.0, *(value for value in r_hats if np.isfinite(value))]), error


def _regression(universe: Universe, design: Design, seed: int) -> Horizon50:
    options = FrequentistOptions(
        weights=universe.weighting,
        regularisation=universe.regularisation,
        replicates=REPLICATES,
        seed=seed,
    )
    if universe.lengths == "simex":
        fit = fit_simex(design, regression=replace(options, replicates=_SIMEX_REPLICATES))
    else:
        fit = fit_frequentist(design, options=options)
    longest = float(design.log2_minutes.max())
    middle = log2_horizon_of(fit.point, success=0.5, longest_log2=longest)
    draws = log2_horizon_of(fit.replicates, success=0.5, longest_log2=longest)
    # A replicate without a run of the agent says nothing about it.
    return _unsampled(design, middle, np.where(np.isnan(draws), middle, draws))


def _grid(design: Design, seed: int) -> Horizon50:
    rng = np.random.default_rng(seed)
    pairs = [_grid_draws(grid, rng) for grid in fit_grid(design)]
    return _unsampled(
        design, np.array([middle for middle, _ in pairs]), np.stack([d for _, d in pairs], axis=1)
    )


def _grid_draws(grid: AgentGrid, rng: np.random.Generator) -> tuple[float, FloatArray]:
    """Return the exact median, and an even sample of the quantiles in random order.

    Agents are independent on the grid, so only the order within an agent is left to chance.
    """
    log2 = _finite(log2_horizon(grid.alpha, grid.beta, success=0.5))
    levels = np.linspace(0, 1, _GRID_DRAWS)  # whose own 2.5 % is that of the grid
    values = weighted_quantiles(log2, grid.weight, [0.5, *levels.tolist()])
    return float(values[0]), rng.permutation(values[1:])


def _unsampled(design: Design, middle: FloatArray, draws: FloatArray) -> Horizon50:
    return Horizon50(
        agents=design.agents,
        middle=_finite(middle),
        draws=_finite(draws),
        converged=True,
        r_hat=float("nan"),
        divergences=0,
        error=np.zeros(len(design.agents)),
    )


def _finite(log2: FloatArray) -> FloatArray:
    return np.clip(log2, -_FARTHEST_LOG2, _FARTHEST_LOG2)
