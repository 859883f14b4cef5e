"""Horizons as draws, whatever the method: what tables of rates and of pairs are made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.horizons.estimate import log2_horizons
from tidegauge.horizon.horizons.quantities import log2_horizon, minutes_interval, share_beyond
from tidegauge.horizon.methods.exact import AgentGrid
from tidegauge.horizon.methods.regression import FrequentistFit, log2_horizon_of

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.horizon.sampler.fit import HorizonFit

Log2At = Callable[[float], FloatArray]

_GRID_DRAWS = 20_000


@dataclass(frozen=True)
class Spread:
    """Every agent's horizon at any success rate, log2 minutes.

    Attributes
    ----------
    typical, marginal : callable
        From a success rate to draws (draw, agent); rows are joint draws of all agents.
    centre : callable or None
        From a success rate to the point values (agent,) of a method that is not a posterior.
    """

    typical: Log2At
    marginal: Log2At
    centre: Log2At | None = None


def spread_of_fit(fit: HorizonFit) -> Spread:
    """Take every draw of the posterior."""
    return Spread(
        typical=lambda success: log2_horizons(fit, success=success),
        marginal=lambda success: log2_horizons(fit, success=success, marginal=True),
    )


def spread_of_bootstrap(design: Design, fit: FrequentistFit) -> Spread:
    """Take every replicate; one without a run of the agent says nothing and counts as the point."""
    longest = float(np.log2(design.human_minutes.max()))

    def centre(success: float) -> FloatArray:
        return log2_horizon_of(fit.point, success=success, longest_log2=longest)

    def typical(success: float) -> FloatArray:
        draws = log2_horizon_of(fit.replicates, success=success, longest_log2=longest)
        return np.where(np.isnan(draws), centre(success), draws)

    return Spread(typical, typical, centre)


def spread_of_grid(grids: Sequence[AgentGrid], *, seed: int) -> Spread:
    """Draw from each agent's exact posterior; agents know nothing of each other."""
    rng = np.random.default_rng(seed)
    chosen = [rng.choice(g.weight.size, _GRID_DRAWS, p=g.weight / g.weight.sum()) for g in grids]
    alpha = np.stack([grid.alpha[c] for grid, c in zip(grids, chosen, strict=True)], axis=1)
    beta = np.stack([grid.beta[c] for grid, c in zip(grids, chosen, strict=True)], axis=1)

    def typical(success: float) -> FloatArray:
        return log2_horizon(alpha, beta, success=success)

    return Spread(typical, typical)


def rates_table(design: Design, spread: Spread, rates: Sequence[float]) -> pd.DataFrame:
    """Return ``rates.csv``: horizons in minutes at each success rate, agent by agent.

    ``typical_beyond`` and ``marginal_beyond`` are the shares of draws that are infinite or beyond
    the longest task.
    """
    import pandas as pd

    longest = float(design.human_minutes.max())
    tables = []
    for success in dict.fromkeys(rates):
        columns: dict[str, object] = {"agent": design.agents, "success": success}
        for name, log2_at in (("typical", spread.typical), ("marginal", spread.marginal)):
            draws = log2_at(success)
            found = minutes_interval(draws)
            centre = found.median
            if spread.centre is not None:
                with np.errstate(over="ignore"):
                    centre = np.exp2(spread.centre(success))
            columns |= {name: centre, f"{name}q0.025": found.low, f"{name}q0.975": found.high}
            columns[f"{name}_beyond"] = share_beyond(draws, longest_minutes=longest)
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)
