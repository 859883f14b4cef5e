"""What ``horizon check`` counts, against a file counted by hand."""

from __future__ import annotations

from typing import Any

from builders import agent_row, human_row
from tidegauge.horizon.data.summary import summarise


def rows() -> list[dict[str, Any]]:
    estimate = {"human_source": "estimate", "human_minutes": 60.0}
    window = {"task_source": "RE-Bench", "human_minutes": 480.0}
    return [
        agent_row("words/a"),
        agent_row("words/a", alias="agent-b", score_binarized=0),
        *[human_row("words/a", minutes=m, score_binarized=s) for m, s in ((2, 1), (3, 1), (9, 0))],
        agent_row("code/b", **estimate),
        human_row("code/b", minutes=60, **estimate),
        human_row("code/b", minutes=20, **estimate),
        agent_row("code/c", **estimate),
        agent_row("lab/d", **window),
        human_row("lab/d", minutes=480, **window),
        human_row("code/untried", minutes=1, task_source=None),
        human_row("code/untried", minutes=0, task_source=None),
    ]


def test_summary_against_counts_by_hand(tally_of: Any) -> None:
    summary = summarise(tally_of(rows()))
    assert (summary.rows, summary.agents, summary.tasks, summary.families) == (13, 2, 5, 3)
    assert summary.sources == {"HCAST": 3, "RE-Bench": 1, "unknown": 1}
    assert summary.human_sources == {"baseline": 3, "estimate": 2}
    assert (summary.human_total, summary.human_successful, summary.human_failed) == (8, 6, 2)
    assert summary.human_used == 4  # 2 and 3 on a, 20 on b, 1 on untried
    assert summary.human_windows == 1
    assert summary.human_per_task == (1, 2.0, 3)
    assert summary.estimate_only_tasks == 2  # c, and d by its window
    assert summary.tasks_with_both == 1
    assert (summary.agent_runs, summary.agent_success_share) == (5, 0.8)
    assert summary.tasks_untried == 1
    assert summary.minutes_range == (8.0, 480.0)


def test_summary_lines_are_what_is_printed(tally_of: Any) -> None:
    lines = dict(summarise(tally_of(rows())).lines())
    assert lines == {
        "rows": "13",
        "agents": "2",
        "tasks": "5",
        "families": "3",
        "task sources": "HCAST 3, RE-Bench 1, unknown 1",
        "human sources": "baseline 3, estimate 2",
        "task length": "8 to 480 minutes",
        "human runs": "8",
        "  successful": "6",
        "  failed": "2",
        "  used as timings": "4",
        "  fixed windows": "1",
        "  per task": "1 to 3, median 2",
        "estimate-only tasks": "2",
        "agent runs": "5 (80.0% successful)",
        "tasks with both timings and estimate": "1",
        "tasks no agent tried": "1",
    }


def test_a_file_without_humans_is_summarised(tally_of: Any) -> None:
    lines = dict(summarise(tally_of([agent_row()])).lines())
    assert lines["human runs"] == "0"
    assert lines["  per task"] == "0 to 0, median 0"
