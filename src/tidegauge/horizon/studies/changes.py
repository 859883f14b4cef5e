"""How far the 50 % horizons move from one fit to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidegauge.horizon.data.design import Design
from tidegauge.horizon.horizons.estimate import Estimate
from tidegauge.horizon.horizons.quantities import minutes_of

if TYPE_CHECKING:
    import pandas as pd


def p50_changes(design: Design, before: Estimate, after: Estimate) -> pd.DataFrame:
    """Return, per agent of both estimates, the change of log2 p50 and its Monte Carlo error.

    Horizons outside the range of the tasks count as its ends in ``log2_change``.
    """
    import pandas as pd

    x = design.log2_minutes
    place = {agent: a for a, agent in enumerate(before.agents)}
    agents = [agent for agent in after.agents if agent in place]
    old = np.array([place[agent] for agent in agents])
    new = np.array([a for a, agent in enumerate(after.agents) if agent in place])
    first, second = before.centre_log2()[old], after.centre_log2()[new]
    error, other_error = (
        np.zeros(len(one.agents)) if one.median_error is None else one.median_error
        for one in (before, after)
    )
    return pd.DataFrame(
        {
            "agent": agents,
            "p50_all": minutes_of(first),
            "p50": minutes_of(second),
            "log2_change": np.clip(second, x.min(), x.max()) - np.clip(first, x.min(), x.max()),
            "change_error": np.hypot(error[old], other_error[new]),
        }
    )
