"""Success curves and the rates seen beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from tidegauge.horizon import load
from tidegauge.horizon.horizons.curves import success_curves

FOLDERS = ("fit_folder", "regression_folder", "exact_folder")


@pytest.mark.parametrize("name", FOLDERS)
def test_rates_seen_add_up_to_the_runs(name: str, request: pytest.FixtureRequest) -> None:
    result = load(request.getfixturevalue(name))
    for a, curve in enumerate(success_curves(result)):
        assert curve.seen_runs.sum() == result.design.attempts[a].sum()
        won = (curve.seen_rate * curve.seen_runs).sum()
        assert won == pytest.approx(result.design.successes[a].sum())
        assert (curve.low <= curve.high).all()


def test_the_curve_is_the_pointwise_median_of_the_draws(fit_folder: Path) -> None:
    result = load(fit_folder)
    for a, curve in enumerate(success_curves(result)):
        middle = len(curve.minutes) // 2
        log2 = np.log2(curve.minutes[middle])
        draws = expit(result.estimate.alpha[:, a] + result.estimate.beta[:, a] * log2)
        assert curve.median[middle] == pytest.approx(np.median(draws), rel=1e-6)
        assert (curve.low <= curve.median).all()
        assert (curve.median <= curve.high).all()


def test_the_curve_of_a_regression_crosses_half_at_its_horizon(regression_folder: Path) -> None:
    for curve in success_curves(load(regression_folder)):
        log2 = np.interp(-0.5, -curve.median, np.log2(curve.minutes))
        if curve.minutes[0] < curve.p50_minutes < curve.minutes[-1]:
            assert log2 == pytest.approx(np.log2(curve.p50_minutes), abs=0.05)
