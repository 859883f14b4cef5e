"""Universes fitted side by side, and what is said of their choices."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from designs import draw_design, usual_truth
from tidegauge.engine.config import SamplerConfig
from tidegauge.errors import InputError
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.horizons.quantities import Interval
from tidegauge.horizon.methods.base import Effort
from tidegauge.horizon.methods.exact import Exact
from tidegauge.horizon.methods.hierarchical import SHORT_SAMPLER, Hierarchical
from tidegauge.horizon.methods.regression import Regression, RegressionOptions
from tidegauge.horizon.result import HorizonFit
from tidegauge.horizon.sampler.fit import fit_horizon
from tidegauge.horizon.studies.effects import choices_table, levels_table
from tidegauge.horizon.studies.multiverse import (
    Multiverse,
    Outcome,
    doubling_table,
    explore,
    horizons_table,
)
from tidegauge.horizon.studies.specifications import Universe, expand
from tidegauge.horizon.trend.least_squares import fit_trendline

DAYS = [datetime.date(2023, 1, 1), datetime.date(2024, 1, 1), datetime.date(2025, 1, 1)]


@pytest.fixture(scope="module")
def design() -> Design:
    rng = np.random.default_rng(8)
    truth = usual_truth(rng, n_agents=3, n_tasks=24, n_families=6)
    return draw_design(truth, rng, runs_per_cell=10)


@pytest.fixture(scope="module")
def dates(design: Design) -> dict[str, datetime.date]:
    return dict(zip(design.agents, DAYS, strict=True))


def test_a_universe_says_what_its_method_says(design: Design) -> None:
    grid = expand(
        [{"method": ["regression"], "weighting": ["equal"], "regularisation": [0.1]},
         {"method": ["exact"]}]
    )  # fmt: skip
    regression, exact = explore(design, grid, seed=3, workers=1).outcomes
    options = RegressionOptions(weighting="equal", regularisation=0.1, replicates=200)
    expected = Regression(options=options).fit(design, seed=3).interval()
    assert regression.p50 is not None
    np.testing.assert_allclose(regression.p50.median, expected.median)
    np.testing.assert_allclose(regression.p50.low, expected.low)
    expected = Exact().fit(design).interval()
    assert exact.p50 is not None
    np.testing.assert_allclose(exact.p50.median, expected.median)
    np.testing.assert_allclose(exact.p50.high, expected.high)
    assert regression.converged
    assert exact.converged


def test_hierarchical_universes_differ_by_their_choice_and_repeat_by_their_seed(
    design: Design,
) -> None:
    # Censoring needs failed runs: they say that the tasks are longer, so horizons are too.
    failed = replace(
        design, failed_task=np.arange(24), failed_log2=np.full(24, design.log2_minutes.max())
    )
    grid = expand([{"failures": ["ignore", "censor"]}])
    one = explore(failed, grid, seed=2, workers=1)
    again = explore(failed, grid[:1], seed=2, workers=1)
    ignored, censored = (outcome.p50 for outcome in one.outcomes)
    assert ignored is not None
    assert censored is not None
    assert (censored.median > ignored.median).all()
    same = again.outcomes[0].p50
    assert same is not None
    np.testing.assert_array_equal(same.median, ignored.median)
    assert all(outcome.converged for outcome in one.outcomes)


def test_chains_of_a_short_fit_that_lie_apart_do_not_pass_as_converged(
    design: Design, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fit_horizon

    def apart(part: Design, *, sampler: SamplerConfig, **options: Any) -> HorizonFit:
        fit = real(part, sampler=sampler, **options)
        moved = fit.point.alpha + 3.0 * (np.arange(sampler.chains) % 2)[:, None, None]
        return replace(fit, point=replace(fit.point, alpha=moved))

    one = Hierarchical().fit(design, effort=Effort.SHORT, seed=1)
    assert one.converged
    assert one.fit is not None
    assert one.fit.point.alpha.shape[:2] == (4, 400)
    np.testing.assert_array_equal(one.alpha.shape, (1600, 3))
    monkeypatch.setattr("tidegauge.horizon.sampler.fit.fit_horizon", apart)
    hasty = Hierarchical(short_sampler=replace(SHORT_SAMPLER, draws=200))
    other = hasty.fit(design, effort=Effort.SHORT, seed=1)
    assert not other.converged
    assert other.r_hat > 1.1


def test_a_universe_that_fails_is_recorded_and_stops_no_other(
    design: Design, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = replace(
        design, run_task=design.run_task[:0], run_log2=design.run_log2[:0],
        estimate_task=np.arange(24), estimate_log2=design.log2_minutes,
    )  # fmt: skip
    real = Regression.fit

    def broken(method: Regression, *arguments: Any, **options: Any) -> object:
        if method.options.weighting == "none":
            raise RuntimeError("no such luck")
        return real(method, *arguments, **options)

    monkeypatch.setattr(Regression, "fit", broken)
    grid = expand(
        [{"method": ["regression"], "weighting": ["equal", "none"]},
         {"method": ["exact"], "estimates": ["dropped"]},
         {"method": ["regression"], "lengths": ["simex"]}]
    )  # fmt: skip
    found = explore(timed, grid, workers=1)
    reasons = [one.reason for one in found.outcomes]
    assert reasons[0] == ""
    assert reasons[1] == "RuntimeError: no such luck"
    assert reasons[2].startswith("no agent run is left")
    assert reasons[3].startswith("no task has two successful human runs")
    assert [one.number for one in found.failed] == [2, 3, 4]
    table = horizons_table(found)
    assert len(table) == 3 + 3  # agents of the first, and one row for each that failed
    assert table["p50"].notna().sum() == 3
    assert list(table.loc[table["p50"].isna(), "reason"]) == reasons[1:]


def test_a_sample_is_drawn_by_the_seed_and_keeps_its_numbers(design: Design) -> None:
    grid = expand([{"method": ["regression"], "tasks": [f"resampled {n}" for n in range(1, 9)]}])

    def numbers(seed: int) -> list[int]:
        found = explore(design, grid, sample=3, seed=seed, workers=1)
        return [outcome.number for outcome in found.outcomes]

    one, again, other = numbers(5), numbers(5), numbers(6)
    assert one == again == sorted(one)
    assert len(set(one)) == 3
    assert one != other
    assert len(explore(design, grid[:2], sample=50, workers=1).outcomes) == 2


def test_no_universe_or_an_unknown_name_is_refused_before_any_fit(design: Design) -> None:
    with pytest.raises(InputError, match="the grid has no universe"):
        explore(design, [])
    with pytest.raises(InputError, match="without SWAA: no task is of it"):
        explore(design, expand([{"sources": ["without SWAA"]}]))


def test_workers_do_not_change_the_answer(design: Design) -> None:
    grid = expand([{"method": ["regression"], "weighting": ["equal", "none"]}])
    alone, shared = (explore(design, grid, workers=n) for n in (1, 2))
    times = ["seconds", "cpu_seconds"]
    one, other = (horizons_table(found).drop(columns=times) for found in (alone, shared))
    assert one.equals(other)


def test_doubling_time_is_the_line_through_the_horizons(
    design: Design, dates: dict[str, datetime.date]
) -> None:
    found = explore(design, expand([{"method": ["exact"]}]), dates=dates, workers=1)
    p50 = found.outcomes[0].p50
    assert p50 is not None
    years = np.array([day.toordinal() for day in DAYS]) / 365.25
    slope = np.polyfit(years, np.log2(p50.median), 1)[0]
    row = doubling_table(found).iloc[0]
    assert row["doubling_months"] == pytest.approx(12 / slope)
    assert row["agents"] == 3
    undated = explore(design, expand([{"method": ["exact"]}]), workers=1)
    assert doubling_table(undated).empty


def made(effect: Callable[[Universe], float], grid: tuple[Universe, ...]) -> Multiverse:
    """Universes whose log2 horizons are a known function of their choices."""
    outcomes = []
    for number, universe in enumerate(grid, start=1):
        log2 = np.array([2.0, 4.0, 6.0]) * (1 + 0.1 * effect(universe)) + effect(universe)
        minutes = np.exp2(log2)
        trend = fit_trendline(DAYS, log2, limits_log2=(-50, 50))
        outcomes.append(
            Outcome(number, universe, ("a", "b", "c"), Interval(minutes, minutes, minutes),
                    np.zeros(3), converged=True, trend=trend)
        )  # fmt: skip
    return Multiverse(tuple(outcomes), (-50.0, 50.0), 1)


def test_effects_are_the_ones_that_were_put_in() -> None:
    grid = expand(
        [{"method": ["regression"], "weighting": ["invsqrt", "equal"],
          "regularisation": [1e-5, 0.1]}]
    )  # fmt: skip

    def effect(universe: Universe) -> float:
        return 0.75 * (universe.regression.weighting == "equal") - 0.25 * (
            universe.regression.regularisation == 0.1
        )

    found = made(effect, grid)
    assert found.choices == ["weighting", "regularisation"]
    table = choices_table(found).set_index("choice")
    assert list(table.index) == ["weighting", "regularisation"]  # the larger first
    # log2 = base + effect * (1 + 0.1 * base) with bases 2, 4, 6: 1.4 times the effect on average.
    assert table.loc["weighting", "mean_abs_log2_change"] == pytest.approx(1.4 * 0.75)
    assert table.loc["regularisation", "mean_abs_log2_change"] == pytest.approx(1.4 * 0.25)
    assert table.loc["weighting", "typical_factor"] == pytest.approx(2 ** (1.4 * 0.75))
    assert list(table["pairs"]) == [2, 2]
    # Additive and balanced: the variance splits as the squares of the effects.
    assert table.loc["weighting", "eta_squared"] == pytest.approx(0.75**2 / (0.75**2 + 0.25**2))
    assert table["eta_squared"].sum() == pytest.approx(1)
    # The line rises by (6 - 2) * (1 + 0.1 * effect) doublings in two years.
    years = (DAYS[2] - DAYS[0]).days / 365.25
    rate = table.loc["weighting", "mean_abs_rate_change"]
    assert rate == pytest.approx(4 * 0.1 * 0.75 / years, rel=1e-3)
    signs = levels_table(found).set_index(["choice", "level"])["log2_change"]
    assert signs["weighting", "equal"] == pytest.approx(1.4 * 0.75)
    assert signs["regularisation", 0.1] == pytest.approx(-1.4 * 0.25)


def test_methods_are_compared_over_their_own_choices_with_the_data_alike() -> None:
    grid = expand(
        [{"method": ["regression"], "weighting": ["invsqrt", "equal"], "estimates": ["used"]},
         {"method": ["exact"], "estimates": ["used", "dropped"]}]
    )  # fmt: skip

    def effect(universe: Universe) -> float:
        if universe.method == "exact":
            return 1.0 + 5.0 * (universe.estimates == "dropped")
        return 0.5 * (universe.regression.weighting == "equal")

    table = choices_table(made(effect, grid)).set_index("choice")
    # Grid with estimates (1) against the mean of both weightings (0.25); dropped has no partner.
    assert table.loc["method", "mean_abs_log2_change"] == pytest.approx(1.4 * 0.75)
    assert table.loc["method", "pairs"] == 1
    assert table.loc["estimates", "mean_abs_log2_change"] == pytest.approx(1.4 * 5)
    assert table.loc["weighting", "universes"] == 2


def test_horizons_beyond_the_tasks_count_as_their_ends() -> None:
    grid = expand([{"method": ["regression"], "weighting": ["invsqrt", "equal"]}])
    found = made(lambda universe: 3.0 * (universe.regression.weighting == "equal"), grid)
    narrow = replace(found, tasks_log2=(0.0, 5.0))
    # a: 2 to 5.6, b: 4 to 8.2, c: 6 to 10.8; with the ends at 5: 3, 1 and 0.
    change = choices_table(narrow)["mean_abs_log2_change"].iloc[0]
    assert change == pytest.approx(4 / 3)


def test_one_universe_has_no_choice_to_compare() -> None:
    found = made(lambda universe: 0.0, expand([{"method": ["exact"]}]))
    assert choices_table(found).empty
    assert levels_table(found).empty
