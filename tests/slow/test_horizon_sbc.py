"""Simulation-based calibration: every rank histogram is uniform."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from sbc import p_values, run_study


def test_ranks_of_prior_draws_are_uniform() -> None:
    values = p_values(run_study())
    assert len(values) == 10
    worst = min(values, key=lambda name: values[name])
    assert values[worst] > 0.01 / len(values), (worst, values)
