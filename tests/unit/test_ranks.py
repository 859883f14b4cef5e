"""Ranks: uniform for a right posterior, not for one that is too narrow, too wide or shifted."""

from __future__ import annotations

import numpy as np
import pytest

from ranks import rank_among, uniformity_p_value

KEPT = 99


def ranks_of(shift: float, width: float) -> np.ndarray:
    """A normal mean with known noise: the posterior is exact, then spoilt."""
    rng = np.random.default_rng(5)
    found = []
    for _ in range(500):
        truth = rng.normal()
        seen = truth + rng.normal()
        posterior = rng.normal(seen / 2 + shift, np.sqrt(0.5) * width, size=(2, 200))
        found.append(rank_among(posterior, np.array(truth), kept=KEPT))
    return np.array(found)


def test_the_right_posterior_is_uniform() -> None:
    assert uniformity_p_value(ranks_of(0, 1), kept=KEPT) > 0.01


@pytest.mark.parametrize(("shift", "width"), [(0.3, 1), (0, 0.7), (0, 1.5)])
def test_a_wrong_posterior_is_not(shift: float, width: float) -> None:
    assert uniformity_p_value(ranks_of(shift, width), kept=KEPT) < 0.001


def test_bins_must_divide_the_ranks() -> None:
    with pytest.raises(ValueError, match="100 possible ranks"):
        uniformity_p_value(np.arange(100), kept=KEPT, bins=30)
