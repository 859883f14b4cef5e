"""The look for other modes: its verdicts, and that one mode is told as one."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from designs import draw_design, usual_truth
from tidegauge.engine.config import SamplerConfig
from tidegauge.engine.sampling import LogDensity
from tidegauge.horizon.methods.hierarchical import _answers
from tidegauge.horizon.model.options import CORE, DEFAULT_PRIORS, HorizonOptions
from tidegauge.horizon.sampler import fit
from tidegauge.horizon.sampler.expansion import Reference, reference_at
from tidegauge.horizon.sampler.fit import fit_horizon, start_reference
from tidegauge.horizon.sampler.modes import CHAINS, Problem, Screen
from tidegauge.horizon.sampler.target import whitened_density
from tidegauge.progress import SILENT

QUICK = SamplerConfig(draws=50, tune=100, chains=2, target_accept=0.8)


def test_verdicts_by_the_mass_of_the_other_mode() -> None:
    assert Screen(16, 0, 0.0, "").check().passed is True
    small = Screen(16, 1, 0.001, "o1: slope -3.20 instead of -0.15").check()
    assert small.passed is None
    assert "1 of 16" in small.detail
    assert "o1: slope -3.20" in small.detail
    assert Screen(16, 5, 0.4, "o1: ...").check().passed is False


def test_a_model_with_one_mode_is_looked_at_and_passes() -> None:
    rng = np.random.default_rng(5)
    design = draw_design(usual_truth(rng, n_agents=3, n_tasks=20, n_families=5), rng)
    options = HorizonOptions(residual="task")
    fitted = fit_horizon(design, options=options, sampler=QUICK, patient=False)
    assert fitted.modes is not None
    assert fitted.modes.detail == f"none met by {CHAINS} dispersed short chains"
    assert "other_modes" in [check["name"] for check in fitted.diagnostics["checks"]]


def test_a_fit_moves_to_a_heavier_mode_that_was_met(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    design = draw_design(usual_truth(rng, n_agents=2, n_tasks=6, n_families=2), rng)
    problem = Problem(design, DEFAULT_PRIORS, CORE)
    here = start_reference(design).x
    there = here + 0.3
    asked_about = []

    def look(problem: Problem, density: LogDensity, reference: Reference, **_: object) -> Screen:
        asked_about.append(reference.x)
        lighter = reference.x is there
        return Screen(16, 3, 0.01 if lighter else 0.99, "", here if lighter else there)

    monkeypatch.setattr(fit, "screen_modes", look)
    density, screen = fit._settle(problem, here, seed=1, screened=True, progress=SILENT)
    assert [x is there for x in asked_about] == [False, True]
    assert screen is not None
    assert screen.mass == 0.01
    expected = whitened_density(
        design, DEFAULT_PRIORS, CORE, reference_at(design, DEFAULT_PRIORS, CORE, there)
    )
    np.testing.assert_array_equal(density.data, expected.data)


def test_starts_in_unlike_modes_are_told_apart_by_their_mass() -> None:
    light, heavy, close = (SimpleNamespace(log_mass=mass) for mass in (-20.0, -3.0, -4.0))
    assert list(_answers([light, heavy])) == [[light, heavy], [heavy]]  # type: ignore[list-item]
    assert list(_answers([close, heavy])) == [[close, heavy]]  # type: ignore[list-item]


def test_core_is_not_looked_at() -> None:
    rng = np.random.default_rng(5)
    design = draw_design(usual_truth(rng, n_agents=2, n_tasks=6, n_families=2), rng)
    fitted = fit_horizon(design, options=CORE, sampler=QUICK, patient=False)
    assert fitted.modes is None
