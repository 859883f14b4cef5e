"""The reference that shapes the coordinates."""

from __future__ import annotations

import numpy as np
import pytest

from designs import draw_design, usual_truth
from tidegauge.horizon.sampler import expansion
from tidegauge.horizon.sampler.target import start_reference


def test_rounding_errors_of_linear_algebra_do_not_reach_the_coordinates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(3)
    design = draw_design(usual_truth(rng, n_agents=10, n_tasks=90, n_families=3), rng)
    first = start_reference(design)
    plain = expansion.inverse_root

    def by_another_library(precision: expansion.FloatArray) -> expansion.FloatArray:
        root = plain(precision)
        return root * (1 + rng.choice([-1e-14, 0, 1e-14], root.shape))

    monkeypatch.setattr(expansion, "inverse_root", by_another_library)
    second = start_reference(design)
    for one, other in zip(first.expansion, second.expansion, strict=True):
        np.testing.assert_array_equal(one, other)
