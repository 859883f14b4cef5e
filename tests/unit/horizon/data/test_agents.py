"""What is told of agents from their names and dates."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from designs import draw_design, usual_truth
from tidegauge.horizon.data.agents import group_names, lab_of, model_family_of, with_agent_facts
from tidegauge.horizon.data.design import Design


@pytest.mark.parametrize(
    ("agent", "lab", "family"),
    [
        ("Claude 3.5 Sonnet (New)", "Anthropic", "claude 3"),
        ("GPT-4 Turbo", "OpenAI", "gpt 4"),
        ("o1-preview", "OpenAI", "o 1"),
        ("gpt-3.5-turbo-instruct", "OpenAI", "gpt 3"),
        ("Gemini 2.5 Pro", "Google", "gemini 2"),
        ("DeepSeek-R1", "DeepSeek", "deepseek 1"),
        ("my agent", "other", "my"),
        ("42", "other", "42"),
        ("???", "other", "other"),
    ],
)
def test_names_tell_the_lab_and_the_line_of_models(agent: str, lab: str, family: str) -> None:
    assert (lab_of(agent), model_family_of(agent)) == (lab, family)


@pytest.fixture
def design() -> Design:
    rng = np.random.default_rng(1)
    return draw_design(usual_truth(rng, n_agents=3, n_tasks=4, n_families=2), rng)


def test_years_count_from_the_mean_date_of_those_in_the_trend(design: Design) -> None:
    dates = {
        "agent 0": datetime.date(2022, 1, 1),
        "agent 1": datetime.date(2024, 1, 1),
        "agent 2": datetime.date(2025, 1, 1),
    }
    dated = with_agent_facts(design, dates=dates, since=datetime.date(2023, 1, 1))
    assert np.isnan(dated.agent_years[0])
    np.testing.assert_allclose(dated.agent_years[1:], [-183 / 365.25, 183 / 365.25])
    assert datetime.date.fromordinal(int(dated.origin_day)) == datetime.date(2024, 7, 2)


def test_given_groups_come_before_names(design: Design) -> None:
    grouped = with_agent_facts(design, groups={"agent 0": "ours", "agent 1": "ours"})
    assert group_names(grouped, "lab") == ("ours", "ours", "other")
    assert group_names(design, "lab") == ("other",) * 3
    assert group_names(grouped, "all") == ("all",) * 3
