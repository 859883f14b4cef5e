"""Which of two agents has the longer horizon, with what probability, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.arrays import FloatArray

if TYPE_CHECKING:
    import pandas as pd


COLUMNS = (
    *("agent_a", "agent_b", "probability"),
    *("log2_ratio", "log2_ratioq0.025", "log2_ratioq0.975"),
)
_BOUND = 1e6  # as in the horizons' own quantiles: infinite less infinite is no number


def pairs_table(agents: Sequence[str], log2_p50: FloatArray) -> pd.DataFrame:
    """Return ``pairs.csv``: every pair of agents once, from joint draws of their horizons.

    Parameters
    ----------
    log2_p50 : ndarray, shape (draw, agent)
        50 % horizons in log2 minutes; a row is one draw of all agents.

    Returns
    -------
    DataFrame
        ``probability`` that A's horizon is the longer one (a tie, both infinite, counts half), and
        the median and 95 % interval of log2 of A's horizon over B's: 1 is twice as long.
    """
    import pandas as pd

    bounded = np.clip(log2_p50, -_BOUND, _BOUND)
    tables = []
    for a, agent in enumerate(agents[:-1]):
        ratio = bounded[:, a, None] - bounded[:, a + 1 :]
        low, median, high = np.quantile(ratio, [0.025, 0.5, 0.975], axis=0)
        chance = (ratio > 0).mean(axis=0) + 0.5 * (ratio == 0).mean(axis=0)
        values = (agent, list(agents[a + 1 :]), chance, median, low, high)
        tables.append(pd.DataFrame(dict(zip(COLUMNS, values, strict=True))))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(COLUMNS))
