"""Three methods, one shape of answer: hierarchical, frequentist, grid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from tidegauge.arrays import FloatArray, weighted_quantiles
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.horizons.quantities import (
    Interval,
    log2_horizon,
    marginal_logit,
    minutes_interval,
    share_beyond,
)
from tidegauge.horizon.horizons.tables import Horizons
from tidegauge.horizon.methods.exact import AgentGrid
from tidegauge.horizon.methods.regression import FrequentistFit, log2_horizon_of
from tidegauge.horizon.model.likelihood import mean_success

if TYPE_CHECKING:
    from tidegauge.horizon.sampler.fit import HorizonFit


def log2_horizons(fit: HorizonFit, *, success: float, marginal: bool = False) -> FloatArray:
    """Return draws (draw, agent) of the log2 horizon at a success rate.

    Typical is a task that is as hard as its length says; marginal a random task of that length,
    with the residual and the discrimination of new tasks averaged over.
    """
    point = fit.point.flat()
    if not marginal:
        return log2_horizon(point.alpha, point.beta, success=success)
    nothing = np.zeros(point.mu_global.shape)
    parts = (point.sigma_residual_family, point.sigma_residual_task)
    logit = marginal_logit(
        success,
        residual_sd=np.sqrt(sum((part**2 for part in parts if part is not None), nothing)),
        discrimination_sd=nothing if (s := point.sigma_discrimination) is None else s,
    )
    return log2_horizon(point.alpha, point.beta, success=success, logit=logit[:, None])


def horizons_of_fit(fit: HorizonFit) -> Horizons:
    """Summarise the posterior; without a residual term, marginal and typical are the same."""
    point = fit.point.flat()
    log2_p50 = log2_horizons(fit, success=0.5)
    intervals = {
        (success, marginal): minutes_interval(
            log2_horizons(fit, success=success, marginal=marginal)
        )
        for success in (0.5, 0.8)
        for marginal in (False, True)
    }
    longest = float(fit.design.human_minutes.max())
    thin = max(1, fit.point.alpha.shape[1] // 250)
    return Horizons(
        intercept=np.median(point.alpha, axis=0),
        slope=np.median(point.beta, axis=0),
        success=mean_success(fit.point, thin=thin),
        p50=intervals[0.5, False],
        p80=intervals[0.8, False],
        p50_marginal=intervals[0.5, True],
        p80_marginal=intervals[0.8, True],
        p50_beyond=share_beyond(log2_p50, longest_minutes=longest),
    )


def horizons_of_bootstrap(design: Design, fit: FrequentistFit) -> Horizons:
    """Take the point fit as the centre and the bootstrap's quantiles as its interval."""
    longest = float(design.human_minutes.max())
    intervals = {}
    for name, success in (("p50", 0.5), ("p80", 0.8)):
        limits = {"success": success, "longest_log2": float(np.log2(longest))}
        point = log2_horizon_of(fit.point, **limits)
        replicates = log2_horizon_of(fit.replicates, **limits)
        # A replicate without a run of the agent says nothing about it: NaN, left out.
        kept = np.where(np.isnan(replicates), point, replicates)
        spread = minutes_interval(kept)
        with np.errstate(over="ignore"):
            intervals[name] = Interval(np.exp2(point), spread.low, spread.high)
    log2_p50 = log2_horizon_of(fit.replicates, success=0.5, longest_log2=float(np.log2(longest)))
    with np.errstate(invalid="ignore"):
        eta = fit.point.intercept[:, None] + fit.point.slope[:, None] * design.log2_minutes
    return Horizons(
        intercept=fit.point.intercept,
        slope=fit.point.slope,
        success=expit(eta),
        p50=intervals["p50"],
        p80=intervals["p80"],
        p50_marginal=intervals["p50"],
        p80_marginal=intervals["p80"],
        p50_beyond=share_beyond(log2_p50, longest_minutes=longest),
    )


def horizons_of_grid(design: Design, grids: list[AgentGrid]) -> Horizons:
    """Summarise each agent's exact posterior."""
    x, longest = design.log2_minutes, float(design.human_minutes.max())
    intercept, slope, success, beyond = [], [], [], []
    ends: dict[float, list[FloatArray]] = {0.5: [], 0.8: []}
    for grid in grids:
        intercept.append(weighted_quantiles(grid.alpha, grid.weight, [0.5])[0])
        slope.append(weighted_quantiles(grid.beta, grid.weight, [0.5])[0])
        heavy = grid.weight > 1e-9 * grid.weight.max()  # the rest is not worth its exponentials
        curves = expit(grid.alpha[heavy, None] + grid.beta[heavy, None] * x)
        success.append(grid.weight[heavy] @ curves / grid.weight[heavy].sum())
        for rate, found in ends.items():
            log2 = np.clip(log2_horizon(grid.alpha, grid.beta, success=rate), -1e6, 1e6)
            found.append(weighted_quantiles(log2, grid.weight, [0.5, 0.025, 0.975]))
        log2 = log2_horizon(grid.alpha, grid.beta, success=0.5)
        beyond.append(grid.weight[~(log2 <= np.log2(longest))].sum())
    with np.errstate(over="ignore", under="ignore"):
        p50, p80 = (Interval(*np.exp2(np.array(ends[rate]).T)) for rate in (0.5, 0.8))
    return Horizons(
        intercept=np.array(intercept),
        slope=np.array(slope),
        success=np.array(success),
        p50=p50,
        p80=p80,
        p50_marginal=p50,
        p80_marginal=p80,
        p50_beyond=np.array(beyond),
    )
