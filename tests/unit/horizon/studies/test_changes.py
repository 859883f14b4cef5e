"""Changes of horizons between two fits, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from designs import draw_design, usual_truth
from tidegauge.horizon.horizons.estimate import Estimate
from tidegauge.horizon.studies.changes import p50_changes


def test_changes_are_of_the_agents_both_fits_have_within_the_range_of_the_tasks() -> None:
    rng = np.random.default_rng(1)
    drawn = draw_design(usual_truth(rng, n_agents=3, n_tasks=10, n_families=2), rng)
    design = replace(drawn, human_minutes=np.exp2(np.arange(10.0)))

    def estimate(agents: tuple[str, ...], log2: list[float], error: float) -> Estimate:
        alpha = np.array([log2])
        return Estimate(
            method="made",
            agents=agents,
            alpha=alpha,
            beta=-np.ones_like(alpha),
            success=np.zeros((len(agents), 1)),
            longest_minutes=1.0,
            median_error=np.full(len(agents), error),
        )

    longest = float(design.log2_minutes.max())
    before = estimate(("a", "b", "c"), [2.0, 3.0, longest + 5], 0.3)
    after = estimate(("c", "a"), [longest + 9, 2.5], 0.4)
    found = p50_changes(design, before, after).set_index("agent")
    assert list(found.index) == ["c", "a"]
    assert found.loc["a", "log2_change"] == pytest.approx(0.5)
    assert found.loc["a", "p50_all"] == pytest.approx(4)
    assert found.loc["c", "log2_change"] == 0
    assert found.loc["a", "change_error"] == pytest.approx(0.5)
