"""How steep success curves are, over release date: what leads from T50 to a horizon T(q).

An agent on the trend has log2 T(q) = log2 T50 + gap, and the gap depends on how steep its curve is.
Agents differ in that, and it may change with date:

    log(-beta_a) ~ Normal(level + change t_a, scatter)

The agents' slopes are those of the joint fit, each with its own error and all with errors that they
share; every draw of the line belongs to a joint draw of the fit (see `TrendModel.draw`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.engine.priors import normal
from tidegauge.horizon.horizons.estimate import Estimate
from tidegauge.horizon.horizons.quantities import bounded
from tidegauge.horizon.trend.measured import (
    Measured,
    centre_and_sd,
    covariance,
    dated_agents,
    normal_scores,
)
from tidegauge.horizon.trend.prediction import TrendModel

if TYPE_CHECKING:
    from tidegauge.horizon.result import HorizonFit

# Of log(-beta) a year: over five years a factor of four either way is within two of these.
CHANGE_PRIOR = normal(0, 0.15)
# Flatter or steeper than that, by extrapolation, is a constant or a step.
_FLATTEST_LOG, _STEEPEST_LOG = -20.0, 3.0
_SEED = 1


@dataclass(frozen=True, eq=False)
class Steepness:
    """Draws of the line log(-beta) = level + change t, each of shape (draw,).

    Attributes
    ----------
    scatter : ndarray, shape (draw,)
        Standard deviation of agents around the line.
    new_tasks : Estimate
        How the difficulty of new tasks varies, in the same draws.
    """

    level: FloatArray
    change: FloatArray
    scatter: FloatArray
    new_tasks: Estimate

    def gap(
        self,
        years: FloatArray,
        *,
        success: float,
        kind: str,
        off: FloatArray | float = 0.0,
    ) -> FloatArray:
        """Return log2 T(success) - log2 T50 of an agent released then, shape (draw, year).

        Parameters
        ----------
        off : ndarray, shape (draw,)
            How many standard deviations the agent's log steepness is off the line.
        """
        own = self.level + off * self.scatter
        log_steepness = own[:, None] + self.change[:, None] * years
        beta = -np.exp(np.clip(log_steepness, _FLATTEST_LOG, _STEEPEST_LOG))
        # A curve that is one half at one minute: its horizon is the gap. One date at a time: slopes
        # far in the future have another range.
        columns = [
            replace(self.new_tasks, agents=("",), alpha=np.zeros_like(one), beta=one).log2_horizons(
                success, kind=kind
            )
            for one in np.split(beta, years.size, axis=1)
        ]
        return bounded(np.concatenate(columns, axis=1))


def steepness_of_fit(fit: HorizonFit) -> Steepness:
    """Take the line out of a fit with a trend."""
    design, dated, found = fit.design, dated_agents(fit), fit.estimate
    lapse = found.lapse
    draws = np.log(np.maximum(-found.beta[:, dated], np.finfo(float).tiny))
    median, sd = centre_and_sd(draws)
    scores = normal_scores(draws)
    names = tuple(design.agents[a] for a in dated)
    measured = Measured(names, design.agent_years[dated], median, covariance(sd, scores))
    priors = replace(
        fit.priors,
        trend_level=fit.priors.mu_slope,
        trend_rate=CHANGE_PRIOR,
        sigma_horizon=fit.priors.sigma_slope,
    )
    rng = np.random.default_rng(_SEED)
    drawn = TrendModel("linear", measured, priors=priors).draw(len(draws), rng, errors=sd * scores)
    return Steepness(
        level=drawn["trend_level"],
        change=drawn["trend_rate"],
        scatter=drawn["sigma_horizon"],
        new_tasks=replace(
            found,
            success=np.zeros((0, 0)),
            fit=None,
            # Lapses are the middle agent's.
            lapse=None if lapse is None else np.median(lapse[:, dated], axis=1, keepdims=True),
        ),
    )
