"""Trends with known draws, for tests."""

from __future__ import annotations

import numpy as np

from tidegauge.horizon.horizons.estimate import Estimate
from tidegauge.horizon.trend.steepness import Steepness


def known_steepness(
    draws: int,
    *,
    steepness: float = 1.0,
    change: float = 0.0,
    scatter: float = 0.0,
    residual_sd: float = 0.0,
) -> Steepness:
    """Success curves of one steepness at year zero, the same in all draws."""
    nobody = np.zeros((draws, 0))
    return Steepness(
        level=np.full(draws, np.log(steepness)),
        change=np.full(draws, change),
        scatter=np.full(draws, scatter),
        new_tasks=Estimate(
            method="known",
            agents=(),
            alpha=nobody,
            beta=nobody,
            success=np.zeros((0, 0)),
            longest_minutes=480.0,
            residual_sd=np.full(draws, residual_sd) if residual_sd else None,
        ),
    )
