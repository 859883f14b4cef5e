"""The descriptive line over release dates, against lines whose slope is known."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from tidegauge.horizon.trend.least_squares import fit_trendline

DAYS = [datetime.date(2020, 1, 1) + datetime.timedelta(days=200 * i) for i in range(6)]
YEARS = np.array([day.toordinal() for day in DAYS]) / 365.25
WIDE = (-100.0, 100.0)


def test_exact_line_gives_its_doubling_time_and_no_width() -> None:
    log2 = 3 + 1.5 * (YEARS - YEARS[0])
    line = fit_trendline(DAYS, log2, np.tile(log2, (50, 1)), limits_log2=WIDE)
    assert line is not None
    assert line.doubling_months == pytest.approx(8)
    assert line.fastest_months == pytest.approx(8)
    assert line.slowest_months == pytest.approx(8)
    assert line.rising_share == 1
    assert line.log2[[0, -1]] == pytest.approx(log2[[0, -1]])
    assert line.fan is not None
    np.testing.assert_allclose(line.fan, np.tile(line.log2, (4, 1)))
    assert line.ends_log2 == pytest.approx((log2[0], log2[-1]))


def test_line_through_medians_and_draws_against_polyfit() -> None:
    rng = np.random.default_rng(5)
    draws = 2 * (YEARS - YEARS[0]) + rng.normal(size=(400, 6))
    medians = np.median(draws, axis=0)
    line = fit_trendline(DAYS, medians, draws, limits_log2=WIDE)
    assert line is not None
    assert line.doubling_months == pytest.approx(12 / np.polyfit(YEARS - 2020, medians, 1)[0])
    slopes = np.array([np.polyfit(YEARS - 2020, draw, 1)[0] for draw in draws])
    low, high = np.quantile(slopes, [0.025, 0.975])
    assert line.slowest_months == pytest.approx(12 / low)
    assert line.fastest_months == pytest.approx(12 / high)


def test_agents_without_date_or_horizon_are_left_out() -> None:
    log2 = np.append(YEARS - YEARS[0], [50.0, np.nan])
    line = fit_trendline([*DAYS, None, DAYS[0]], log2, limits_log2=WIDE)
    assert line is not None
    assert line.n_agents == 6
    assert line.doubling_months == pytest.approx(12)
    assert line.fan is None
    assert line.slowest_months is None


def test_slope_that_may_be_zero_has_no_slowest_doubling() -> None:
    draws = np.array([YEARS - YEARS[0], YEARS[0] - YEARS])
    line = fit_trendline(DAYS, draws[0], draws, limits_log2=WIDE)
    assert line is not None
    assert line.slowest_months == np.inf
    assert line.rising_share == 0.5
    falling = fit_trendline(DAYS, draws[1], limits_log2=WIDE)
    assert falling is not None
    assert falling.doubling_months < 0


def test_horizons_off_any_task_count_as_the_limit() -> None:
    log2 = np.array([-np.inf, 1, 2, 3, 4, np.inf])
    line = fit_trendline(DAYS, log2, limits_log2=(0.0, 5.0))
    same = fit_trendline(DAYS, np.arange(6.0), limits_log2=WIDE)
    assert line is not None
    assert same is not None
    assert line.doubling_months == same.doubling_months


@pytest.mark.parametrize("dates", [DAYS[:2], [DAYS[0]] * 4, [None] * 5, []])
def test_too_few_dates_give_no_line(dates: list[datetime.date | None]) -> None:
    assert fit_trendline(dates, np.arange(float(len(dates))), limits_log2=WIDE) is None
