"""The look for other modes: its verdicts, and that one mode is told as one."""

from __future__ import annotations

import numpy as np

from designs import draw_design, usual_truth
from tidegauge.engine.config import SamplerConfig
from tidegauge.horizon.fit import fit_horizon
from tidegauge.horizon.options import CORE, HorizonOptions
from tidegauge.horizon.outputs import fit_diagnostics
from tidegauge.horizon.screen import CHAINS, Screen

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
    fit = fit_horizon(design, options=options, sampler=QUICK, patient=False)
    assert fit.screen is not None
    assert (fit.screen.chains, fit.screen.apart) == (CHAINS, 0)
    names = [check["name"] for check in fit_diagnostics(fit, [])["checks"]]
    assert "other_modes" in names


def test_core_is_not_looked_at() -> None:
    rng = np.random.default_rng(5)
    design = draw_design(usual_truth(rng, n_agents=2, n_tasks=6, n_families=2), rng)
    fit = fit_horizon(design, options=CORE, sampler=QUICK, patient=False)
    assert fit.screen is None
