"""The rules for human durations, estimates and sources, each by a file that needs it."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders import agent_row, human_row, small_rows
from tidegauge.horizon.data.design import Design, human_log2_mean, human_table

BEGAN = 1_735_689_600_000


def timed(design: Design) -> list[tuple[str, float]]:
    pairs = zip(design.run_task.tolist(), design.run_log2.tolist(), strict=True)
    return [(design.tasks[task], 2**log2) for task, log2 in pairs]


def estimated(design: Design) -> list[tuple[str, float]]:
    pairs = zip(design.estimate_task.tolist(), design.estimate_log2.tolist(), strict=True)
    return [(design.tasks[task], 2**log2) for task, log2 in pairs]


def test_one_rule_times_hcast_and_swaa(design_of: Any) -> None:
    swaa = {"task_source": "SWAA", "human_minutes": 0.5}
    design = design_of(
        [
            agent_row("hcast"),
            human_row("hcast", started_at=0, completed_at=240_000),
            agent_row("swaa", **swaa),
            human_row("swaa", started_at=BEGAN, completed_at=BEGAN + 15_000, **swaa),
        ]
    )
    assert timed(design) == [("hcast", pytest.approx(4)), ("swaa", pytest.approx(0.25))]
    assert estimated(design) == []
    assert design.task_source == ("HCAST", "SWAA")


@pytest.mark.parametrize(
    ("task", "source"), [("optimise", "RE-Bench"), ("ai_rd_optimise", None), ("ai_rd_x", "")]
)
def test_re_bench_durations_are_windows_and_its_minutes_one_estimate(
    design_of: Any, task: str, source: str | None
) -> None:
    fields = {"task_source": source, "human_minutes": 350.0}
    windows = [human_row(task, minutes=480, score_binarized=i % 2, **fields) for i in range(4)]
    design = design_of([agent_row(task, **fields), *windows])
    assert timed(design) == []
    assert design.failed_task.size == 0  # a failed window is no completion time either
    assert estimated(design) == [(task, pytest.approx(350))]
    assert design.task_source == ("RE-Bench",)
    assert any(note.startswith("4 RE-Bench human rows are fixed windows") for note in design.notes)


def test_an_ai_rd_task_of_another_named_source_is_timed(design_of: Any) -> None:
    design = design_of([agent_row("ai_rd_x"), human_row("ai_rd_x", minutes=5)])
    assert timed(design) == [("ai_rd_x", pytest.approx(5))]


def test_success_needs_a_positive_duration(design_of: Any) -> None:
    design = design_of([agent_row(), human_row(minutes=4), human_row(minutes=0)])
    assert timed(design) == [("words/count", pytest.approx(4))]
    assert design.failed_task.size == 0
    assert "1 human rows have no duration: ignored" in design.notes


def test_failed_runs_are_kept_apart(design_of: Any) -> None:
    rows = [human_row(minutes=4), human_row(minutes=16, score_binarized=0)]
    design = design_of([agent_row(), *rows, human_row(minutes=0, score_binarized=0)])
    assert timed(design) == [("words/count", pytest.approx(4))]
    assert design.failed_log2.tolist() == [4.0]
    assert design.failed_task.tolist() == [0]


@pytest.mark.parametrize("source", ["estimate", "qa", "external_qa"])
@pytest.mark.parametrize("score", [0, 1])
def test_an_estimate_written_as_a_run_counts_once(design_of: Any, source: str, score: int) -> None:
    fields = {"human_source": source, "human_minutes": 7.123}
    run = human_row(started_at=0, completed_at=427_380, score_binarized=score, **fields)
    design = design_of([agent_row(**fields), run])
    assert timed(design) == []
    assert design.failed_task.size == 0
    assert estimated(design) == [("words/count", pytest.approx(7.123))]
    assert any("repeat the estimate of their task: counted once" in note for note in design.notes)


def test_other_timed_runs_beside_an_estimate_are_both_used(design_of: Any) -> None:
    fields = {"human_source": "estimate", "human_minutes": 8.0}
    runs = [human_row(minutes=minutes, **fields) for minutes in (8, 3, 20)]
    design = design_of([agent_row(**fields), *runs])
    assert timed(design) == [
        ("words/count", pytest.approx(3)),
        ("words/count", pytest.approx(20)),
    ]
    assert estimated(design) == [("words/count", pytest.approx(8))]


def test_a_baseline_run_as_long_as_human_minutes_is_a_run(design_of: Any) -> None:
    design = design_of([agent_row(), human_row(minutes=8)])
    assert timed(design) == [("words/count", pytest.approx(8))]
    assert estimated(design) == []


def test_a_baseline_task_without_human_rows_counts_as_an_estimate_and_is_said(
    design_of: Any,
) -> None:
    design = design_of([agent_row(), agent_row("words/sort"), human_row("words/sort", minutes=3)])
    assert estimated(design) == [("words/count", pytest.approx(8))]
    assert (
        "1 baseline tasks have no human row in the file: their human_minutes counts as one estimate"
        in design.notes
    )


def test_the_minutes_of_a_baseline_task_with_failed_runs_alone_are_one_estimate(
    design_of: Any,
) -> None:
    design = design_of([agent_row(), human_row(minutes=30, score_binarized=0)])
    assert timed(design) == []
    assert estimated(design) == [("words/count", 8.0)]
    assert design.failed_task.tolist() == [0]
    assert any("have no successful human run" in note for note in design.notes)


def test_odd_files_say_what_was_done(design_of: Any) -> None:
    rows = [
        agent_row(alias="never", score_binarized=0),
        agent_row(alias="always"),
        agent_row("words/sort", alias="always"),
        agent_row(alias="mixed"),
        agent_row("words/sort", alias="mixed", score_binarized=0),
        human_row("words/untried", minutes=0),
    ]
    notes = design_of(rows).notes
    assert "no successful timed human run: task lengths rest on estimates alone" in notes
    assert "1 tasks were tried by no agent: they only inform task lengths" in notes
    assert "always always succeeds: its horizon is bounded on one side only" in notes
    assert "never never succeeds: its horizon is bounded on one side only" in notes
    assert not any(note.startswith("mixed") for note in notes)


def test_an_ordinary_file_needs_no_note(design_of: Any) -> None:
    assert design_of(small_rows()).notes == ()


def test_cells_are_counts_by_agent_and_task_sorted_by_family(design_of: Any) -> None:
    rows = [
        agent_row("b/1", alias="two", score_cont=0.5),
        agent_row("a/2", alias="one", score_binarized=0, score_cont=0.25),
        agent_row("a/2", alias="one"),
        agent_row("c", alias="two", task_family="a"),
    ]
    design = design_of(rows)
    assert design.agents == ("one", "two")
    assert design.tasks == ("a/2", "c", "b/1")
    assert design.families == ("a", "b")
    assert design.task_family.tolist() == [0, 0, 1]
    assert design.attempts.tolist() == [[2, 0, 0], [0, 1, 1]]
    assert design.successes.tolist() == [[1, 0, 0], [0, 1, 1]]
    assert design.score_sum.tolist() == [[1.25, 0, 0], [0, 1, 0.5]]


def assert_identical(one: Design, other: Design) -> None:
    for field in dataclasses.fields(Design):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype, field.name
            assert a.tobytes() == b.tobytes(), field.name
        else:
            assert a == b, field.name


def varied_rows() -> list[dict[str, Any]]:
    """Rows of every kind the rules speak of."""
    estimate = {"human_source": "qa", "human_minutes": 8.0}
    return [
        *small_rows(),
        *[agent_row("x/1", score_cont=0.1 * i, score_binarized=i % 2) for i in range(9)],
        *[human_row("x/1", minutes=m, score_binarized=m % 2) for m in (0, 1, 2, 3)],
        agent_row("x/2", **estimate),
        *[human_row("x/2", minutes=m, **estimate) for m in (8, 8, 5)],
        agent_row("ai_rd_z", task_source=None),
        agent_row("ai_rd_z", task_source="RE-Bench"),
        human_row("ai_rd_z", minutes=480, task_source=None),
        agent_row("x/3", run_id=1),
        agent_row("x/3", run_id=1),
    ]


@given(seed=st.integers(0, 2**32))
@settings(
    max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_rows_in_any_order_give_the_identical_design(design_of: Any, seed: int) -> None:
    rows = varied_rows()
    shuffled = random.Random(seed).sample(rows, len(rows))
    assert_identical(design_of(shuffled), design_of(rows))


def test_human_table_has_one_row_per_timing_or_estimate(design_of: Any) -> None:
    fields = {"human_source": "estimate", "human_minutes": 16.0}
    rows = [
        agent_row("b/1"),
        human_row("b/1", minutes=4),
        human_row("b/1", minutes=2),
        human_row("b/1", minutes=32, score_binarized=0),
        agent_row("a/1", **fields),
        human_row("a/1", minutes=16, **fields),
    ]
    table = human_table(design_of(rows))
    names = ["task_id", "task_family", "duration_log2", "source_type", "provenance"]
    assert list(table.columns) == names
    assert table.to_numpy().tolist() == [
        ["b/1", "b", 1.0, "baseline", "run"],
        ["b/1", "b", 2.0, "baseline", "run"],
        ["a/1", "a", 4.0, "estimate", "human_minutes"],
    ]


def test_human_table_of_a_file_without_humans_is_its_estimates(design_of: Any) -> None:
    table = human_table(design_of([agent_row(), agent_row("words/sort", human_minutes=2.0)]))
    assert table["source_type"].tolist() == ["estimate", "estimate"]
    assert table["duration_log2"].tolist() == [3.0, 1.0]


def test_human_log2_mean_falls_back_to_the_file(design_of: Any) -> None:
    rows = [agent_row(), human_row(minutes=2), human_row(minutes=8), agent_row("words/sort")]
    runs, mean = human_log2_mean(design_of(rows))
    assert runs.tolist() == [2, 0]
    assert mean.tolist() == [2.0, 3.0]
