"""Horizons by hand, and that nothing is dropped."""

from __future__ import annotations

import numpy as np

from tidegauge.horizon.horizons.quantities import log2_horizon, minutes_interval, share_beyond


def test_horizon_by_hand() -> None:
    # logistic(3 - 0.5 x) = 1/2 at x = 6; = 4/5 where 3 - 0.5 x = ln 4.
    assert log2_horizon(np.array(3.0), np.array(-0.5), success=0.5) == 6
    np.testing.assert_allclose(
        log2_horizon(np.array(3.0), np.array(-0.5), success=0.8), (3 - np.log(4)) / 0.5
    )


def test_flat_curves_are_infinite_or_zero() -> None:
    found = log2_horizon(np.array([1.0, -1.0]), np.array([0.0, -0.0]), success=0.5)
    assert found.tolist() == [np.inf, -np.inf]


def test_a_rising_curve_is_infinite_or_zero_by_its_end() -> None:
    alpha, beta = np.array([-1.0, -9.0]), np.array([0.5, 0.5])
    found = log2_horizon(alpha, beta, success=0.5, longest_log2=10.0)
    assert found.tolist() == [np.inf, -np.inf]


def test_quantiles_are_over_all_draws_the_infinite_too() -> None:
    draws = np.concatenate([np.linspace(0, 5, 60), np.full(40, np.inf)])[:, None]
    interval = minutes_interval(draws)
    assert interval.high[0] == np.inf
    np.testing.assert_allclose(np.log2(interval.median[0]), np.quantile(draws[:, 0], 0.5))
    assert share_beyond(draws, longest_minutes=2.0**4)[0] == np.mean(draws[:, 0] > 4)


def test_absurd_horizons_do_not_overflow_to_errors() -> None:
    interval = minutes_interval(np.array([[-1e12], [1e12], [3e5]]))
    assert interval.high[0] == np.inf
    assert interval.low[0] == 0


def test_nan_counts_as_beyond() -> None:
    assert share_beyond(np.array([[np.nan], [0.0]]), longest_minutes=8.0)[0] == 0.5
