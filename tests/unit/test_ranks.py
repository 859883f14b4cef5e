"""Ranks: uniform for a right posterior, not for one that is too narrow, too wide or shifted."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

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


def test_p_values_of_uniform_ranks_are_uniform() -> None:
    rng = np.random.default_rng(8)
    found = [uniformity_p_value(rng.integers(0, KEPT + 1, 300), kept=KEPT) for _ in range(100)]
    # Kolmogorov-Smirnov, one chance in a thousand.
    assert stats.kstest(found, "uniform").pvalue > 0.001


def test_posteriors_ten_percent_too_narrow_are_found_by_a_thousand_fits() -> None:
    rng = np.random.default_rng(6)
    found = []
    for _ in range(20):
        truth = rng.normal(size=1000)
        ranks = (rng.normal(0, 0.9, (KEPT, 1000)) < truth).sum(axis=0)
        found.append(uniformity_p_value(ranks, kept=KEPT) < 0.05)
    assert np.mean(found) > 0.5
