"""One pass over the records: counts, repeats, disagreements, and memory that does not grow."""

from __future__ import annotations

import gzip
import json
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import tidegauge.horizon.data.counts
from builders import agent_row, human_row, small_rows, write_rows
from tidegauge.errors import InputError, RunFileError
from tidegauge.horizon.data.counts import HumanRun, read_tally


def counts_of(tally: Any) -> dict[tuple[str, str], tuple[int, int]]:
    return {
        (agent, task): (cell.attempts, cell.successes)
        for agent, cells in tally.cells.items()
        for task, cell in cells.items()
    }


def test_agent_runs_become_counts_and_human_runs_are_kept(tally_of: Any) -> None:
    tally = tally_of(
        [
            agent_row(),
            agent_row(score_binarized=0, score_cont=0.25),
            agent_row(alias="agent-b", score_binarized=0),
            human_row(minutes=3),
            human_row(minutes=5, score_binarized=0),
        ]
    )
    assert counts_of(tally) == {
        ("agent-a", "words/count"): (2, 1),
        ("agent-b", "words/count"): (1, 0),
    }
    assert tally.human_runs == [
        HumanRun("words/count", 3.0, True, 1.0),
        HumanRun("words/count", 5.0, False, 1.0),
    ]
    assert tally.n_rows == 5


def test_continuous_scores_are_summed_whichever_column_has_them(tally_of: Any) -> None:
    tally = tally_of(
        [
            agent_row(score_cont=0.25),
            agent_row(score_cont=None, score=0.5),
            agent_row(score_cont=None),  # neither column: the binary score, 1
            agent_row(score_cont=-2.0, score=99.0),
        ]
    )
    assert tally.cells["agent-a"]["words/count"].score_sum == 0.25 + 0.5 + 1 + 0


@pytest.mark.parametrize(("score", "counts_as"), [(5.0, 1.0), (1.0, 1.0), (-3.0, 0.0)])
def test_scores_are_clipped_run_by_run(tally_of: Any, score: float, counts_as: float) -> None:
    rows = [agent_row(score_cont=0.0) for _ in range(9)]
    tally, same = (tally_of([agent_row(score_cont=s), *rows]) for s in (score, counts_as))
    cells = [each.cells["agent-a"]["words/count"] for each in (tally, same)]
    assert cells[0] == cells[1]
    assert cells[0].score_sum == counts_as


def test_scores_sum_to_the_same_bits_in_any_order(tally_of: Any) -> None:
    rows = [agent_row(score_cont=score) for score in (0.1, 0.2, 0.3)]
    assert 0.1 + 0.2 + 0.3 != 0.3 + 0.2 + 0.1  # what a plain sum would give
    tallies = (tally_of(rows), tally_of(rows[::-1]))
    one, other = (tally.cells["agent-a"]["words/count"].score_sum for tally in tallies)
    assert one == other == pytest.approx(0.6, abs=1e-11)


def test_repeated_rows_are_counted_once_and_said(tally_of: Any) -> None:
    rows = small_rows()
    once, twice = tally_of(rows), tally_of([*rows, *rows])
    assert counts_of(twice) == counts_of(once)
    assert twice.human_runs == once.human_runs
    assert twice.n_rows == 2 * len(rows)
    assert twice.n_repeated == len(rows)
    assert twice.notes == [
        f"{len(rows)} rows repeat an earlier run (same run_id, agent, task, score and times): "
        "counted once"
    ]
    assert once.notes == []


def test_rows_without_a_run_id_or_with_another_outcome_are_other_runs(tally_of: Any) -> None:
    rows = [
        *[agent_row()] * 3,
        agent_row(run_id=1),
        agent_row(run_id="1"),
        agent_row(run_id=1, score_binarized=0),
        agent_row(run_id=1, started_at=5),
        agent_row(run_id=1, alias="agent-b"),
        agent_row("words/sort", run_id=1),
        agent_row(run_id=["a", "list"]),
        agent_row(run_id=["a", "list"]),
    ]
    tally = tally_of(rows)
    assert sum(attempts for attempts, _ in counts_of(tally).values()) == len(rows)
    assert tally.n_repeated == 0


def test_the_same_file_twice_is_read_once_and_said(tmp_path: Path) -> None:
    rows = [{k: v for k, v in row.items() if k != "run_id"} for row in small_rows()]
    path = write_rows(tmp_path / "runs.jsonl", rows)
    copy = shutil.copy(path, tmp_path / "copy.jsonl")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "link.jsonl").symlink_to(path)
    once = read_tally([path])
    for other, note in (
        (path, f"{path} is given twice: read once"),
        (copy, f"{copy} has the same content as {path}: read once"),
        (
            tmp_path / "sub" / "link.jsonl",
            f"{tmp_path / 'sub' / 'link.jsonl'} has the same content as {path}: read once",
        ),
    ):
        twice = read_tally([path, other])
        assert counts_of(twice) == counts_of(once)
        assert twice.n_rows == once.n_rows
        assert twice.notes == [note]


def test_a_zipped_copy_is_known_by_its_run_ids(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "runs.jsonl", small_rows())
    zipped = tmp_path / "runs.jsonl.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    tally = read_tally([path, zipped])
    assert counts_of(tally) == counts_of(read_tally([path]))
    assert "counted once" in tally.notes[0]
    assert tally.sha256[str(path)] == tally.sha256[str(zipped)]  # of the uncompressed bytes


def test_several_files_are_one_analysis(tmp_path: Path) -> None:
    rows = small_rows()
    whole = read_tally([write_rows(tmp_path / "whole.jsonl", rows)])
    parts = [
        write_rows(tmp_path / "a.jsonl", rows[::2]),
        write_rows(tmp_path / "b.jsonl", rows[1::2]),
    ]
    assert counts_of(read_tally(parts)) == counts_of(whole)


@pytest.mark.parametrize(
    ("field", "first", "other"),
    [
        ("task_family", "words", "letters"),
        ("human_minutes", 8.0, 9.5),
        ("human_source", "baseline", "estimate"),
        ("task_source", "HCAST", "SWAA"),
    ],
)
def test_rows_that_disagree_about_a_task_are_a_fault_with_both_places(
    tmp_path: Path, field: str, first: object, other: object
) -> None:
    a = write_rows(tmp_path / "a.jsonl", [agent_row(), agent_row()])
    b = write_rows(tmp_path / "b.jsonl", [agent_row("words/sort"), agent_row(**{field: other})])
    with pytest.raises(RunFileError) as caught:
        read_tally([a, b])
    flag = ", or use --conflicts geomean (or first)" if field == "human_minutes" else ""
    assert caught.value.problems == [
        f"{b}:2: {field}={other}: task words/count has {first} at {a}:1; "
        f"a task has one, so correct it or give the other version its own task_id{flag}"
    ]


@pytest.mark.parametrize(("conflicts", "minutes"), [("geomean", 12.0), ("first", 8.0)])
def test_rows_that_disagree_on_minutes_can_be_settled(
    tmp_path: Path, conflicts: str, minutes: float
) -> None:
    rows = [agent_row(), agent_row(human_minutes=18.0), agent_row(human_minutes=18.0)]
    tally = read_tally([write_rows(tmp_path / "runs.jsonl", rows)], conflicts=conflicts)
    assert tally.tasks["words/count"].human_minutes == pytest.approx(minutes)
    assert tally.cells["agent-a"]["words/count"].attempts == 3
    assert any("1 tasks have rows with different human_minutes" in note for note in tally.notes)


def test_no_other_disagreement_is_settled(tmp_path: Path) -> None:
    rows = [agent_row(), agent_row(task_family="other", human_minutes=9.0)]
    with pytest.raises(RunFileError, match=r"task_family=other"):
        read_tally([write_rows(tmp_path / "runs.jsonl", rows)], conflicts="geomean")


@pytest.mark.parametrize("order", [1, -1])
def test_a_source_missing_in_some_rows_is_taken_from_the_others(tally_of: Any, order: int) -> None:
    rows = [agent_row(task_source=None), agent_row(task_source=""), agent_row(task_source="SWAA")]
    tally = tally_of(rows[::order])
    assert tally.tasks["words/count"].source == "SWAA"


@pytest.mark.parametrize("order", [1, -1])
def test_a_named_source_wins_over_the_ai_rd_prefix_in_any_order(tally_of: Any, order: int) -> None:
    rows = [agent_row("ai_rd_x", task_source=None), agent_row("ai_rd_x", task_source="HCAST")]
    assert tally_of(rows[::order]).tasks["ai_rd_x"].source == "HCAST"


def test_only_human_runs_is_a_fault(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "runs.jsonl", [human_row(), human_row(minutes=2)])
    with pytest.raises(RunFileError, match=r"no agent runs, every alias is 'human'; add some"):
        read_tally([path])


def test_faults_of_several_files_are_counted_together(tmp_path: Path) -> None:
    bad = [agent_row(score_binarized=7)] * 15
    paths = [write_rows(tmp_path / f"{name}.jsonl", bad) for name in "ab"]
    with (tmp_path / "b.jsonl").open("a") as handle:
        handle.write("{\n")  # so that b is no copy of a
    with pytest.raises(RunFileError) as caught:
        read_tally(paths)
    assert caught.value.n_problems == 31
    assert len(caught.value.problems) == 20
    assert caught.value.problems[15].startswith(f"{tmp_path / 'b.jsonl'}:1: ")


def test_a_missing_file_among_several_is_said(tmp_path: Path) -> None:
    good = write_rows(tmp_path / "runs.jsonl", [agent_row()])
    with pytest.raises(InputError, match=r"missing\.jsonl: No such file"):
        read_tally([good, tmp_path / "missing.jsonl"])


def peak_of_reading(path: Path) -> int:
    tracemalloc.start()
    try:
        read_tally([path])
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_length_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Repeats are looked for among a fixed number of runs; lowered, so that both files reach it.
    monkeypatch.setattr(tidegauge.horizon.data.counts, "REMEMBERED_RUNS", 1000)
    line = json.dumps(agent_row(scaffold="s" * 300))
    peaks = []
    for n_rows in (3_000, 60_000):
        path = tmp_path / f"{n_rows}.jsonl"
        with path.open("w") as handle:
            for i in range(n_rows):
                handle.write(f'{line[:-1]}, "run_id": {i}}}\n')
        peaks.append(peak_of_reading(path))
    assert peaks[1] < peaks[0] + 100_000  # 57,000 more rows of 500 bytes


def test_runs_beyond_the_remembered_ones_are_said(
    tally_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidegauge.horizon.data.counts, "REMEMBERED_RUNS", 10)
    tally = tally_of(small_rows())
    assert tally.notes == ["repeated runs were looked for among the first 10 runs only"]
