"""The reference that shapes the coordinates."""

from __future__ import annotations

import numpy as np
import pytest

from designs import draw_design, usual_truth
from tidegauge.horizon.model.options import DEFAULT_PRIORS, FULL
from tidegauge.horizon.model.parameters import ALPHA, PHI, layout_of
from tidegauge.horizon.sampler import expansion_agents
from tidegauge.horizon.sampler.expansion import reference_at
from tidegauge.horizon.sampler.target import start_point, start_reference


def test_rounding_errors_of_linear_algebra_do_not_reach_the_coordinates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(3)
    design = draw_design(usual_truth(rng, n_agents=10, n_tasks=90, n_families=3), rng)
    first = start_reference(design, DEFAULT_PRIORS, FULL).expansion
    plain, eigh = expansion_agents.sequential, np.linalg.eigh

    def off(values: np.ndarray) -> np.ndarray:
        return values * (1 + rng.choice([-1e-14, 0, 1e-14], values.shape))

    monkeypatch.setattr(expansion_agents, "sequential", lambda *given: off(plain(*given)))

    def other_signs(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = eigh(matrix)
        return off(values), off(vectors) * rng.choice([-1, 1], values.size)

    monkeypatch.setattr(np.linalg, "eigh", other_signs)
    second = start_reference(design, DEFAULT_PRIORS, FULL).expansion
    for name, part in first.sections().items():
        np.testing.assert_array_equal(part, second.sections()[name], err_msg=name)


def test_an_agent_far_from_all_tasks_still_has_coordinates() -> None:
    rng = np.random.default_rng(3)
    design = draw_design(usual_truth(rng, n_agents=3, n_tasks=12, n_families=3), rng)
    layout, x = layout_of(design, FULL), start_point(design, DEFAULT_PRIORS, FULL)
    x[layout.place(ALPHA)] = [-2000.0, 0.0, 2000.0]
    x[layout.place(PHI)] = np.log(0.01)
    for name, part in reference_at(design, DEFAULT_PRIORS, FULL, x).expansion.sections().items():
        assert np.isfinite(part).all(), name
