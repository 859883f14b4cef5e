"""Which agents stand in a trend, and which requests for one are refused."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from designs import draw_design, usual_truth
from tidegauge.engine.logistic import logistic_ridge
from tidegauge.errors import InputError
from tidegauge.horizon.data.agents import read_groups
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.data.runs import Runs
from tidegauge.horizon.data.weights import run_weights
from tidegauge.horizon.model.options import CORE, HorizonOptions
from tidegauge.horizon.trend.frontier import (
    FRONTIER_NOTE,
    AgentFacts,
    frontier_agents,
    place_agents,
)

LINEAR = HorizonOptions(trend="linear")


def day(year: int) -> datetime.date:
    return datetime.date(year, 1, 1)


def ordered_design(log2_horizons: list[float]) -> Design:
    """Agents with known horizons and so many runs that the regression must order them right."""
    rng = np.random.default_rng(5)
    n_agents = len(log2_horizons)
    truth = usual_truth(rng, n_agents=n_agents, n_tasks=60, n_families=12)
    truth = replace(
        truth, beta=np.full(n_agents, -0.8), alpha=0.8 * np.array(log2_horizons, dtype=float)
    )
    return draw_design(truth, rng, runs_per_cell=200)


def dates_of(design: Design, years: list[int]) -> dict[str, datetime.date]:
    return {agent: day(year) for agent, year in zip(design.agents, years, strict=False)}


def test_the_frontier_is_who_exceeded_all_earlier_agents() -> None:
    design = ordered_design([2, 4, 3, 6, 5, 8])
    dates = dates_of(design, [2019, 2020, 2021, 2022, 2023, 2024])
    assert frontier_agents(design, dates) == {"agent 0", "agent 1", "agent 3", "agent 5"}


def test_of_one_day_only_the_best_counts_and_the_undated_do_not() -> None:
    design = ordered_design([2, 4, 3, 9])
    dates = dates_of(design, [2019, 2020, 2020])  # the last and best has no date
    assert frontier_agents(design, dates) == {"agent 0", "agent 1"}


def test_since_and_frontier_leave_the_others_out_of_the_trend() -> None:
    design = ordered_design([2, 4, 3, 6, 5, 8])
    dates = dates_of(design, [2019, 2020, 2021, 2022, 2023, 2024])
    facts = AgentFacts(since=day(2020), frontier=True)
    runs = Runs(design, dates)
    placed = place_agents(runs, LINEAR, facts).design
    assert np.isnan(placed.agent_years).tolist() == [True, False, True, False, True, False]
    assert np.nanmean(placed.agent_years) == pytest.approx(0, abs=1e-12)
    everyone = place_agents(runs, LINEAR).design
    assert not np.isnan(everyone.agent_years).any()


@pytest.mark.parametrize(
    ("years", "facts", "message"),
    [
        ([2020, 2021], AgentFacts(), "2 of 4 agents have a release date, on 2 different days"),
        ([2020] * 4, AgentFacts(), "4 of 4 agents have a release date, on 1 different days"),
        ([2020, 2021, 2022, 2023], AgentFacts(since=day(2022)), "2 of 4 .* since 2022-01-01"),
        ([2023, 2022, 2021, 2020], AgentFacts(frontier=True), "1 of 4 .* at the frontier"),
    ],
)
def test_a_trend_through_too_few_agents_is_refused(
    years: list[int], facts: AgentFacts, message: str
) -> None:
    design = ordered_design([2, 4, 6, 8])
    dates = dates_of(design, years)
    with pytest.raises(InputError, match=message):
        place_agents(Runs(design, dates), LINEAR, facts)
    place_agents(Runs(design, dates), CORE)  # without a trend nothing is needed


@pytest.mark.parametrize("year", [1, 202, 1949, 2100, 2150, 9999])
def test_a_date_that_no_agent_can_have_is_refused_with_the_agent(year: int) -> None:
    design = ordered_design([2, 4, 6, 8])
    dates = dates_of(design, [2020, 2021, 2022, year])
    said = rf"release date of agent 3: {year:04}-01-01: .*; correct the date"
    with pytest.raises(InputError, match=said):
        place_agents(Runs(design, dates), LINEAR)


def test_an_agent_without_a_date_is_not_in_the_trend() -> None:
    design = ordered_design([2, 4, 6, 8])
    placed = place_agents(Runs(design, dates_of(design, [2020, 2021, 2022])), LINEAR)
    assert np.isnan(placed.design.agent_years).tolist() == [False, False, False, True]


def test_a_trend_of_record_holders_rises_where_nothing_improves() -> None:
    """Twelve agents alike, measured by few runs: those that were lucky hold the records."""
    assert AgentFacts(frontier=True).notes == [FRONTIER_NOTE]
    assert AgentFacts().notes == []
    slopes, levels = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        truth = usual_truth(rng, n_agents=12, n_tasks=30, n_families=6)
        alike = replace(truth, beta=np.full(12, -0.8), alpha=np.full(12, 4.0))
        design = draw_design(alike, rng, runs_per_cell=2)
        dates = dates_of(design, list(range(2010, 2022)))
        chosen = frontier_agents(design, dates)
        weights = run_weights(design)
        fits = logistic_ridge(
            design.log2_minutes,
            weights * design.successes,
            weights * (design.attempts - design.successes),
            ridge=1e-5,
        )
        log2 = -fits.intercept / fits.slope
        record = [a for a, agent in enumerate(design.agents) if agent in chosen]
        levels.append(log2[record].mean() - log2.mean())
        if len(record) > 1:
            slopes.append(np.polyfit(record, log2[record], 1)[0])
    for found in (np.array(levels), np.array(slopes)):
        assert found.mean() > 4 * found.std(ddof=1) / np.sqrt(found.size), found.mean()


@pytest.mark.parametrize(
    ("facts", "options", "message"),
    [
        (AgentFacts(), LINEAR, "trend=linear: needs release dates"),
        (AgentFacts(frontier=True), CORE, "add --trend linear"),
        (AgentFacts(since=day(2023)), CORE, "add --trend linear"),
    ],
)
def test_facts_that_nothing_would_use_are_refused(
    facts: AgentFacts, options: HorizonOptions, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        facts.check(options, dated=False)


def test_groups_reach_the_design_and_the_rest_are_other(tmp_path: Path) -> None:
    path = tmp_path / "labs.yaml"
    path.write_text("agent 0: north\nagent 1: 7\nelsewhere: south\n", encoding="utf-8")
    options = HorizonOptions(pooling="lab")
    design = ordered_design([2, 4, 6])
    placed = place_agents(Runs(design, groups=read_groups(path)), options)
    assert placed.design.agent_groups == ("north", "7", "other")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "must map agents to groups"),
        ("", "must map agents to groups"),
        ("a: [b]", "a=.*must be the name of a group"),
        ("a:", "a=None: must be the name of a group"),
        ("a: b: c", "not readable as YAML"),
    ],
)
def test_bad_groups_are_refused_with_the_file(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "labs.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message) as raised:
        read_groups(path)
    assert str(raised.value).startswith(str(path))
