"""What observations mean: the same to the specification, the density and the likelihood."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from density_checks import check_against_pymc
from designs import draw_design, usual_truth
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.model.likelihood import log_likelihoods
from tidegauge.horizon.model.observations import (
    continuous_scores,
    group_index,
    groups_of,
    in_joint_prior,
    rounded_up,
    scored_successes,
    source_index,
    sources_of,
    trend_years,
)
from tidegauge.horizon.model.options import CORE, HorizonOptions
from tidegauge.horizon.model.parameters import layout_of, unpack


@pytest.fixture(scope="module")
def design() -> Design:
    """Scores beyond the number of runs and below zero; two sources; two labs; one undated agent."""
    rng = np.random.default_rng(8)
    drawn = draw_design(usual_truth(rng, n_agents=3, n_tasks=6, n_families=2), rng)
    scores = drawn.successes * 0.9
    scores[0, 0], scores[1, 1] = drawn.attempts[0, 0] + 0.4, -0.3
    return dataclasses.replace(
        drawn,
        agents=("Claude A", "GPT-4 B", "Claude C"),
        task_source=("HCAST", "RE-Bench", "SWAA") * 2,
        score_sum=scores,
        agent_years=np.array([-1.0, np.nan, 1.0]),
    )


def test_scores_of_a_cell_lie_between_none_and_all_of_its_runs(design: Design) -> None:
    scores = continuous_scores(design)
    assert scores[0, 0] == design.attempts[0, 0]
    assert scores[1, 1] == 0
    np.testing.assert_array_equal(scores[2], design.score_sum[2])
    by_source = scored_successes(design, HorizonOptions(scores="re_bench"))
    re_bench = np.array(design.task_source) == "RE-Bench"
    np.testing.assert_array_equal(by_source[:, re_bench], scores[:, re_bench])
    np.testing.assert_array_equal(by_source[:, ~re_bench], design.successes[:, ~re_bench])


def test_every_statement_of_the_likelihood_counts_such_scores_alike(design: Design) -> None:
    options = HorizonOptions(scores="continuous")
    check_against_pymc(design, options)
    clipped = dataclasses.replace(design, score_sum=continuous_scores(design))
    x = np.random.default_rng(1).normal(size=(1, 1, layout_of(design, options).size))
    point = unpack(x, layout_of(design, options))
    found = log_likelihoods(design, options, point)["successes"]
    np.testing.assert_array_equal(found, log_likelihoods(clipped, options, point)["successes"])
    assert np.isfinite(found).all()


def test_a_duration_of_whole_minutes_may_be_a_minute_longer(design: Design) -> None:
    log2 = np.log2([1.0, 2.5, 7.0, 0.25])
    timed = dataclasses.replace(design, run_task=np.zeros(4, dtype=np.int64), run_log2=log2)
    np.testing.assert_array_equal(rounded_up(timed, CORE), log2)
    upper = rounded_up(timed, HorizonOptions(rounding=True))
    np.testing.assert_allclose(np.exp2(upper), [2.0, 2.5, 8.0, 0.25])


def test_sources_and_groups_are_counted_in_the_order_of_their_names(design: Design) -> None:
    options = HorizonOptions(human_scale="source", pooling="lab")
    assert sources_of(design, options) == ("HCAST", "RE-Bench", "SWAA")
    assert source_index(design, options).tolist() == [0, 1, 2, 0, 1, 2]
    assert groups_of(design, options) == ("Anthropic", "OpenAI")
    assert group_index(design, options).tolist() == [0, 1, 0]
    assert sources_of(design, CORE) == ("all",)
    assert groups_of(design, CORE) == ()
    assert not source_index(design, CORE).any()
    assert not group_index(design, CORE).any()


def test_the_joint_prior_is_of_dated_agents_or_of_all_that_are_pooled(design: Design) -> None:
    trend, pooled = HorizonOptions(trend="linear"), HorizonOptions(pooling="all")
    assert in_joint_prior(design, trend).tolist() == [True, False, True]
    assert in_joint_prior(design, pooled).all()
    assert not in_joint_prior(design, CORE).any()
    assert np.isnan(trend_years(design, pooled)).all()
