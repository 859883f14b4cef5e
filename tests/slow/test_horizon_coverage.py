"""Coverage of horizons and doubling times over many data sets, with binomial bounds."""

from __future__ import annotations

import pytest

from coverage_study import (
    TREND_TRUTHS,
    core_coverage,
    full_coverage,
    joint_trend_coverage,
    trend_coverage,
)
from tidegauge.horizon.model.options import CORE, FULL

DATA_SETS = 100


def test_core_covers_its_own_horizons() -> None:
    for found in core_coverage(DATA_SETS):
        assert found.is_nominal, found


def test_full_covers_every_kind_of_horizon() -> None:
    for kind, coverages in full_coverage(FULL, DATA_SETS).items():
        for found in coverages:
            assert found.is_nominal, (kind, found)


def test_core_does_not_cover_marginal_horizons_where_tasks_differ_beyond_their_length() -> None:
    narrow, wide = full_coverage(CORE, DATA_SETS)[0.8, True]
    assert narrow.is_below, narrow
    assert wide.is_below, wide


@pytest.mark.parametrize("shape", TREND_TRUTHS)
def test_trends_cover_the_doubling_time(shape: str) -> None:
    found = trend_coverage(shape, DATA_SETS)
    assert found.is_nominal, found


def test_joint_fits_cover_the_doubling_time() -> None:
    found = joint_trend_coverage(40)
    assert found.is_nominal, found
