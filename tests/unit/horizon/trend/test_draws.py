"""Trends against their formulas, finite differences, and dates worked out by hand."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from tidegauge.horizon.data.agents import DAYS_PER_YEAR
from tidegauge.horizon.model.trend_shapes import SHAPES, TREND_SHAPES, trend_slope, trend_value
from tidegauge.horizon.trend.draws import LAST_YEAR, WORK_MINUTES, Trend
from tidegauge.horizon.trend.summary import (
    FAN_LEVELS,
    NEXT_AGENT,
    TREND,
    summarise_trend,
    trend_fan,
    trend_files,
    weighted_order_statistics,
)
from trends import known_steepness

ORIGIN = datetime.date(2024, 1, 1).toordinal()
YEARS = np.linspace(-3, 4, 29)
DRAWN = {
    "trend_level": np.array([5.0, -2.0, 3.0]),
    "trend_rate": np.array([1.2, 0.0, -0.7]),
    "trend_bend": np.array([0.3, -0.4, 0.0]),
    "trend_change": np.array([1.5, -1.0, 0.0]),
    "trend_kink": np.array([0.5, -1.0, 2.0]),
    "trend_log_height": np.array([2.7, 1.0, 3.5]),
    "trend_middle": np.array([1.0, -2.0, 0.0]),
}


def a_trend(
    shape: str = "linear",
    *,
    gap80: float = 2.0,
    change: float = 0.0,
    scatter: float = 0.5,
    slope_scatter: float = 0.0,
    residual_sd: float = 0.0,
    **coefficients: list[float],
) -> Trend:
    """A trend whose T80 lies `gap80` doublings below T50 at year zero."""
    draws = {name: np.array(values) for name, values in coefficients.items()}
    size = draws["trend_level"].size
    return Trend(
        shape=shape,
        coefficients=draws,
        scatter=np.full(size, scatter),
        steepness=known_steepness(
            size,
            steepness=np.log(4) / gap80,
            change=change,
            scatter=slope_scatter,
            residual_sd=residual_sd,
        ),
        origin_day=float(ORIGIN),
        first_day=ORIGIN - 2 * DAYS_PER_YEAR,
        last_day=ORIGIN + 1 * DAYS_PER_YEAR,
        n_agents=9,
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_slope_is_the_derivative_of_the_value(shape: str) -> None:
    step = 1e-5
    ends = [trend_value(shape, DRAWN, YEARS + side * step) for side in (1, -1)]
    numeric = (ends[0] - ends[1]) / (2 * step)
    np.testing.assert_allclose(trend_slope(shape, DRAWN, YEARS), numeric, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_draw_is_its_own_curve(shape: str) -> None:
    together = trend_value(shape, DRAWN, YEARS)
    assert together.shape == (3, YEARS.size)
    for draw in range(3):
        alone = {name: DRAWN[name][draw] for name in TREND_SHAPES[shape].coefficients}
        np.testing.assert_array_equal(trend_value(shape, alone, YEARS), together[draw])


def test_shapes_against_values_worked_out_by_hand() -> None:
    at = np.array([0.0, 2.0])
    linear = {"trend_level": 5.0, "trend_rate": 1.5}
    np.testing.assert_allclose(trend_value("linear", linear, at), [5, 8])
    bent = {**linear, "trend_bend": 0.5}
    np.testing.assert_allclose(trend_value("quadratic", bent, at), [5, 9])
    kinked = {**linear, "trend_change": 2.0, "trend_kink": 1.0}
    # Twenty widths from the corner, rounding is worth 0.05 exp(-20).
    np.testing.assert_allclose(trend_value("kink", kinked, at), [5, 10], atol=1e-8)
    np.testing.assert_allclose(trend_slope("kink", kinked, np.array([1.0])), [2.5])
    saturating = {**linear, "trend_log_height": np.log(6.0), "trend_middle": 2.0}
    np.testing.assert_allclose(trend_value("logistic", saturating, np.array([0.0])), [5])
    np.testing.assert_allclose(trend_slope("logistic", saturating, np.array([2.0])), [1.5])
    ends = trend_value("logistic", saturating, np.array([-1e6, 1e6]))
    np.testing.assert_allclose(np.diff(ends), [6.0])


def test_doubling_time_counts_draws_that_do_not_rise_as_infinite() -> None:
    rising = a_trend(trend_level=[5.0] * 4, trend_rate=[3.0, 2.0, 1.0, 0.5])
    half = summarise_trend([rising], interval=0.9).at(0.5)
    assert half.doubling_months.low == pytest.approx(4)
    assert half.doubling_months.median == pytest.approx(6)
    assert half.doubling_months.high == pytest.approx(24)
    assert half.rising == 1
    mixed = a_trend(trend_level=[5.0] * 4, trend_rate=[3.0, 0.0, -1.0, -2.0])
    half = summarise_trend([mixed], interval=0.9).at(0.5)
    assert half.doubling_months == (np.inf, 4, np.inf)
    assert half.rising == 0.25


def test_doubling_time_of_a_bent_trend_is_that_of_the_last_release() -> None:
    bent = a_trend("quadratic", trend_level=[5.0], trend_rate=[1.0], trend_bend=[0.5])
    assert summarise_trend([bent]).at(0.5).doubling_months.median == pytest.approx(12 / 1.5)


def test_dates_of_a_straight_trend_are_where_the_line_crosses() -> None:
    trend = a_trend(trend_level=[5.0], trend_rate=[1.5])
    for rate, gap in ((0.5, 0.0), (0.8, 2.0)):
        for reach in summarise_trend([trend]).at(rate).reaches:
            needed = np.log2(WORK_MINUTES[reach.name]) + gap
            assert reach.day.median == pytest.approx(ORIGIN + (needed - 5) / 1.5 * DAYS_PER_YEAR)
            assert reach.never == 0


def test_what_is_never_reached_and_what_always_was_stay_in_the_summary() -> None:
    # One draw was above a work day from the first, two rise too slowly or fall.
    trend = a_trend(trend_level=[20.0, 5.0, 5.0, 5.0], trend_rate=[0.0, 2.0, 0.01, -1.0])
    day = summarise_trend([trend]).at(0.5).reaches[0]
    assert day.name == "1 work day"
    assert day.never == 0.5
    assert day.day.low == -np.inf
    assert day.day.high == np.inf
    assert day.day.median == pytest.approx(ORIGIN + (np.log2(480) - 5) / 2 * DAYS_PER_YEAR)


def test_a_trend_that_turns_reaches_only_what_is_below_its_top() -> None:
    # Top of 5 + 2t - t^2 / 2 at t = 2: 7, that is 128 minutes.
    turning = a_trend("quadratic", trend_level=[5.0], trend_rate=[2.0], trend_bend=[-1.0])
    assert all(reach.never == 1 for reach in summarise_trend([turning]).at(0.5).reaches)
    higher = a_trend("quadratic", trend_level=[8.0], trend_rate=[2.0], trend_bend=[-1.0])
    day = summarise_trend([higher]).at(0.5).reaches[0]
    years = 2 - np.sqrt(2 * (10 - np.log2(480)))
    assert day.day.median == pytest.approx(ORIGIN + years * DAYS_PER_YEAR, abs=0.5)


def test_flat_success_curves_have_no_80_percent_date() -> None:
    trend = a_trend(gap80=1e7, trend_level=[5.0], trend_rate=[1.5])
    summary = summarise_trend([trend])
    for rate, never in ((0.5, 0.0), (0.8, 1.0)):
        assert [reach.never for reach in summary.at(rate).reaches] == [never] * 4


def test_mixing_weighs_draws_by_the_weights_of_their_shapes() -> None:
    slow = a_trend(trend_level=[5.0] * 2, trend_rate=[0.5] * 2)
    fast = a_trend(trend_level=[5.0] * 6, trend_rate=[3.0] * 6)
    for share, expected in ((0.4, 24.0), (0.6, 4.0)):
        summary = summarise_trend([slow, fast], [1 - share, share], name="stacked")
        assert summary.shape == "stacked"
        assert summary.at(0.5).doubling_months.median == pytest.approx(expected)
    assert summarise_trend([slow, fast], [1, 0]) == summarise_trend([slow, slow], [1, 0])


def test_fan_holds_the_quantiles_of_the_draws_and_goes_two_years_on() -> None:
    rates = np.random.default_rng(1).normal(1, 0.3, 999)
    trend = a_trend(trend_level=[5.0] * 999, trend_rate=list(rates))
    fan = trend_fan([trend], success=0.8)
    assert fan.days[0] == trend.first_day
    assert fan.days[-1] == pytest.approx(trend.last_day + 2 * DAYS_PER_YEAR)
    assert trend.last_day in fan.days
    np.testing.assert_allclose(fan.log2[2, -1], 5 + 3 * np.median(rates) - 2)
    assert (np.diff(fan.log2, axis=0) >= 0).all()


def test_the_next_agent_scatters_around_the_trend() -> None:
    """Draws of the level and the scatter add up; without uncertainty the fan is the normal's."""
    trend = a_trend(scatter=0.7, trend_level=[5.0] * 4000, trend_rate=[1.0] * 4000)
    own, agent = (trend_fan([trend], of=of) for of in (TREND, NEXT_AGENT))
    np.testing.assert_allclose(own.log2 - own.log2[2], 0, atol=1e-9)
    expected = 0.7 * stats.norm.ppf(FAN_LEVELS)
    np.testing.assert_allclose(agent.log2[:, 0] - own.log2[2, 0], expected, atol=0.01)
    levels = np.random.default_rng(2).normal(5, 0.4, 4000)
    uncertain = a_trend(scatter=0.7, trend_level=list(levels), trend_rate=[1.0] * 4000)
    agent = trend_fan([uncertain], of=NEXT_AGENT)
    spread = stats.norm.ppf(0.975) * np.hypot(0.4, 0.7)
    assert agent.log2[4, 0] - agent.log2[2, 0] == pytest.approx(spread, rel=0.06)


@pytest.mark.parametrize("success", [0.001, 0.3, 0.5, 0.8, 0.99, 0.999])
@pytest.mark.parametrize("residual_sd", [0.0, 1.5])
def test_surface_is_that_of_each_dates_own_success_curve(
    success: float, residual_sd: float
) -> None:
    """At every date an agent on the trend succeeds at T(q) with probability q."""
    steepness, change = np.log(4) / 2.0, 0.2
    trend = a_trend(
        change=change, residual_sd=residual_sd, trend_level=[5.0] * 3, trend_rate=[1.5] * 3
    )
    node, weight = np.polynomial.hermite_e.hermegauss(100)
    for years in (-2.0, 0.0, 1.0, 3.0):
        day = np.array([ORIGIN + years * DAYS_PER_YEAR])
        distance = trend.log2(day, success=success)[:, 0] - (5 + 1.5 * years)
        steep = steepness * np.exp(change * years)
        chance = expit(-steep * (distance[:, None] + residual_sd * node)) @ weight / weight.sum()
        # Between the dates at which the curve is inverted the gap is interpolated.
        np.testing.assert_allclose(chance, success, rtol=0.02)
        typical = trend.log2(day, success=success, kind="typical")[:, 0] - (5 + 1.5 * years)
        expected = -np.log(success / (1 - success)) / (steepness * np.exp(change * years))
        np.testing.assert_allclose(typical, expected, rtol=0.01, atol=1e-12)


def test_steeper_curves_with_date_double_the_reliable_horizon_faster() -> None:
    """log2 T(q) = 5 + 1.5 t - logit(q) / (k e^(ct)), whose slope adds c logit(q) / (k e^(ct))."""
    steepness, change = np.log(4) / 2.0, 0.1
    trend = a_trend(change=change, trend_level=[5.0] * 3, trend_rate=[1.5] * 3)
    for success in (0.2, 0.5, 0.8, 0.99):
        gap = np.log(success / (1 - success)) / (steepness * np.exp(change))
        slope = trend.slope(trend.last_day, success=success)
        np.testing.assert_allclose(slope, 1.5 + change * gap, rtol=1e-4)
    summary = summarise_trend([trend], rates=(0.5, 0.99))
    assert summary.at(0.99).doubling_months.median < summary.at(0.5).doubling_months.median


def test_far_extrapolation_and_extreme_rates_leave_no_nan() -> None:
    trend = a_trend(
        change=-3.0, slope_scatter=5.0, trend_level=[5.0] * 9, trend_rate=[40.0, -40.0, 0.0] * 3
    )
    files = trend_files(summarise_trend([trend], rates=(0.001, 0.5, 0.999)), [trend])
    table = files["trend.csv"]
    assert not table[table["quantity"] != "rising_share"].isna().any(axis=None)
    assert not files["trend_fan.csv"].isna().any(axis=None)
    assert not files["trend_dates.csv"].isna().any(axis=None)


def test_weighted_order_statistics_with_equal_weights_are_order_statistics() -> None:
    values = np.array([3.0, np.inf, 1.0, 2.0, -np.inf])
    found = weighted_order_statistics(values, (0.1, 0.5, 0.9), np.full(5, 0.2))
    np.testing.assert_array_equal(found, [-np.inf, 2, np.inf])


def test_tables_have_numbers_and_say_never_in_words() -> None:
    trend = a_trend(trend_level=[5.0] * 4, trend_rate=[3.0, 2.0, -0.1, -1.0])
    files = trend_files(summarise_trend([trend]), [trend])
    assert list(files["trend.csv"].columns) == [
        *("quantity", "success", "median", "low", "high", "detail"),
    ]
    table = files["trend.csv"].set_index(["quantity", "success"])
    assert len(table) == 2 * 5 + 1
    for column in ("median", "low", "high"):
        assert table[column].dtype == float
    assert table.loc[("doubling_months", 0.5), "high"] == np.inf
    assert table.loc[("rising_share", 0.5), "median"] == 0.5
    assert table.loc[("trend_minutes", 0.5), "high"] == pytest.approx(2**8)
    dates = files["trend_dates.csv"].set_index(["work", "success"])
    assert len(dates) == 2 * 4
    assert dates.loc[("1 work day", 0.5), "high"] == f"never by {LAST_YEAR}"
    assert dates.loc[("1 work day", 0.5), "never_share"] == 0.5
    years = (np.log2(480) - 5) / 3
    day = datetime.date.fromordinal(round(ORIGIN + years * DAYS_PER_YEAR))
    assert dates.loc[("1 work day", 0.5), "low"] == day.isoformat()
    fan = files["trend_fan.csv"]
    assert set(fan["success"]) == {0.5, 0.8}
    middle = fan[(fan["success"] == 0.5) & (fan["of"] == TREND)].iloc[-1]
    assert middle["extrapolated"]
    assert middle["q0.5"] == pytest.approx(2 ** (5 - 0.1 * 3))
