"""Simulation-based calibration of every option: each rank histogram is uniform."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from sbc import p_values
from sbc_full import STUDIES, run_study


@pytest.mark.parametrize("study", STUDIES)
def test_ranks_of_prior_draws_are_uniform(study: str) -> None:
    values = p_values(run_study(study))
    worst = min(values, key=lambda name: values[name])
    # One chance in a hundred over all studies and parameters.
    assert values[worst] > 0.01 / (len(values) * len(STUDIES)), (worst, values)
