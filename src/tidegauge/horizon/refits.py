"""One fit of a design by any set of choices, boiled down to draws of each agent's log2 horizon."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tidegauge.engine.config import SamplerConfig
from tidegauge.horizon.contenders import FOLD_SAMPLER
from tidegauge.horizon.design import Design
from tidegauge.horizon.frequentist import FrequentistOptions, fit_frequentist, log2_horizon_of
from tidegauge.horizon.grid import AgentGrid, fit_grid, weighted_quantiles
from tidegauge.horizon.options import CORE, DEFAULT_PRIORS, HorizonOptions, HorizonPriors
from tidegauge.horizon.quantities import log2_horizon
from tidegauge.horizon.simex import fit_simex
from tidegauge.horizon.universes import Universe

if TYPE_CHECKING:
    from tidegauge.horizon.fit import HorizonFit

FloatArray = NDArray[np.float64]

REPLICATES = 200  # of the bootstrap: ends of a 95 % interval to a few per cent of its width
_SIMEX_REPLICATES = 50  # each is refitted a hundred times
_GRID_DRAWS = 2001
_FARTHEST_LOG2 = 1e6
# The chains are short, for medians: R-hat of what is reported, and of all parameters.
R_HAT_HORIZON, R_HAT_ALL = 1.02, 1.1


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
        Largest R-hat of all parameters (NaN if nothing is sampled), divergent transitions.
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
    sampler: SamplerConfig = FOLD_SAMPLER,
    seed: int,
) -> tuple[Horizon50, HorizonFit]:
    """Sample the hierarchical model with short chains; once more, longer, if they do not agree."""
    from tidegauge.horizon.fit import fit_horizon  # the sampler is slow to import: faults first

    for longer in (1, 3):
        config = replace(
            sampler, seed=seed, draws=sampler.draws * longer, tune=sampler.tune * longer
        )
        fit = fit_horizon(design, priors=priors, options=options, sampler=config, patient=False)
        found = horizon_of(fit)
        if found.converged:
            break
    return found, fit


def horizon_of(fit: HorizonFit) -> Horizon50:
    """Boil a posterior down to its 50 % horizons and how well they were sampled."""
    log2 = _finite(log2_horizon(fit.point.alpha, fit.point.beta, success=0.5))
    r_hat = float(fit.diagnosis.parameters["r_hat"].fillna(np.inf).max())
    worst, error = _mixing(log2)
    divergences = fit.diagnosis.divergences
    fine = worst < R_HAT_HORIZON and r_hat < R_HAT_ALL and divergences == 0
    draws = log2.reshape(-1, log2.shape[-1])
    return Horizon50(
        agents=fit.design.agents,
        middle=np.median(draws, axis=0),
        draws=draws,
        converged=bool(fine),
        r_hat=r_hat,
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
    if log2.shape[0] == 1:
        return 1.0, error
    return float(np.nanmax([float(az.rhat(column)) for column in columns])), error


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
