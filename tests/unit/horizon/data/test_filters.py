"""Rows left out while reading: what each form means, what is counted, what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from builders import agent_row, human_row, small_rows, write_rows
from tidegauge.errors import InputError, RunFileError
from tidegauge.horizon.data.counts import Tally, read_tally
from tidegauge.horizon.data.filters import RowFilter, parse_filter

Row = dict[str, Any]


def filters_of(*texts: str) -> list[RowFilter]:
    """``+FIELD=VALUE`` for --only, ``-FIELD=VALUE`` for --exclude."""
    return [parse_filter(text[1:], keep=text[0] == "+") for text in texts]


def kept(folder: Path, rows: Sequence[Row], *texts: str) -> Tally:
    path = write_rows(folder / "runs.jsonl", rows)
    return read_tally([path], filters=filters_of(*texts))


def aliases(folder: Path, rows: Sequence[Row], *texts: str) -> list[str]:
    return sorted(kept(folder, rows, *texts).cells)


FIELDS = [
    agent_row(alias="whole", public=True, level=3, note="a b"),
    agent_row(alias="fraction", public=False, level=3.5, note="x=y"),
    agent_row(alias="text", public="yes", level="3", note=""),
    agent_row(alias="without"),
    agent_row(alias="null", public=None, level=None),
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("+public=true", ["whole"]),
        ("-public=true", ["fraction", "null", "text", "without"]),
        ("+public=true,yes", ["text", "whole"]),
        ("+public=", ["null", "without"]),  # not said
        ("+level=3", ["text", "whole"]),
        ("+level=3.0", ["whole"]),  # numbers compare as numbers, texts as texts
        ("+level>=3", ["fraction", "text", "whole"]),
        ("+level>3", ["fraction"]),
        ("-level<3.5", ["fraction", "null", "without"]),
        ("+note=x=y", ["fraction"]),
        ("+note = a b", ["whole"]),
        ("+alias~w*", ["whole", "without"]),
        ("-alias~*t,nu??", ["fraction", "whole"]),
        ("+task_family=words", ["fraction", "null", "text", "whole", "without"]),
        ("+human_minutes=8", ["fraction", "null", "text", "whole", "without"]),
        ("+human_minutes<=8", ["fraction", "null", "text", "whole", "without"]),
    ],
)
def test_each_form_keeps_the_rows_it_says(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert aliases(tmp_path, FIELDS, text) == expected


def test_several_only_must_all_hold_and_any_exclude_is_enough(tmp_path: Path) -> None:
    assert aliases(tmp_path, FIELDS, "+level>=3", "-public=true", "-note=x=y") == ["text"]


def test_a_filter_gives_what_a_file_without_those_rows_gives(tmp_path: Path) -> None:
    rows = small_rows()
    filtered = kept(tmp_path, rows, "-task_family=code", "+human_minutes<400")
    there = [r for r in rows if r["task_family"] != "code" and r["human_minutes"] < 400]
    by_hand = kept(tmp_path, there)
    assert (filtered.tasks.keys(), filtered.cells) == (by_hand.tasks.keys(), by_hand.cells)
    assert filtered.human_runs == by_hand.human_runs
    assert filtered.n_rows == by_hand.n_rows == len(there)


def test_what_was_left_out_is_counted_once_for_the_first_that_refuses(tmp_path: Path) -> None:
    rows = small_rows()  # a task has 3 human rows and 12 agent rows; two families have two tasks
    notes = kept(tmp_path, rows, "-task_family=code", "+human_minutes<100").notes
    assert notes[0] == "30 rows left out by --exclude task_family=code (6 of them human runs)"
    assert notes[1] == "15 rows left out by --only human_minutes<100 (3 of them human runs)"


@pytest.mark.parametrize("text", ["+alias=agent-a", "-alias=agent-b", "+alias~*-a", "+model=m"])
def test_a_choice_among_agents_keeps_the_human_runs(tmp_path: Path, text: str) -> None:
    rows = [{**row, "model": "m"} if row["alias"] == "agent-a" else row for row in small_rows()]
    tally = kept(tmp_path, rows, text)
    assert list(tally.cells) == ["agent-a"]
    assert len(tally.human_runs) == 15


def test_human_runs_go_when_they_are_named(tmp_path: Path) -> None:
    tally = kept(tmp_path, small_rows(), "-alias=human")
    assert tally.human_runs == []
    assert len(tally.cells) == 2


def test_a_field_that_no_record_has_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        kept(tmp_path, FIELDS, "-pubic=true")
    said = str(raised.value)
    assert said.startswith("--exclude pubic=true: no record has the field pubic (did you ")
    assert "(did you mean public?); there are " in said
    assert "task_id" in said
    with pytest.raises(InputError, match="no record has the field time_limit"):
        kept(tmp_path, FIELDS, "+time_limit>3")  # METR's name, but in no row


def test_a_field_in_some_rows_only_is_there(tmp_path: Path) -> None:
    rows = [agent_row(alias="plain")] * 3 + [agent_row(alias="marked", late=1)]
    assert aliases(tmp_path, rows, "+late=1") == ["marked"]


def test_no_agent_run_left_is_refused_with_the_counts(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^no agent run is left: 60 rows left out by --only"):
        kept(tmp_path, small_rows(), "+alias=nobody")


def test_no_agent_run_in_the_file_is_the_file_s_fault(tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match="every alias is 'human'"):
        kept(tmp_path, [human_row()], "+task_family=words")


def test_faults_are_told_even_of_rows_that_would_go(tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match=":2: score_binarized=2"):
        kept(tmp_path, [agent_row(), agent_row(score_binarized=2, public=1)], "-public=1")


@pytest.mark.parametrize("text", ["", "alias", "=x", "alias!=x", ">3", "  ~x"])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^--only .*write FIELD=VALUE"):
        parse_filter(text, keep=True)


def test_an_order_needs_a_number() -> None:
    with pytest.raises(InputError, match="compares with a number, not 'long'"):
        parse_filter("human_minutes>long", keep=False)


def test_a_filter_reads_back_as_it_was_written() -> None:
    for text in ("task_source=SWAA,HCAST", "human_minutes>=4", "alias~*mini*"):
        condition = parse_filter(text, keep=False)
        assert str(condition) == f"--exclude {text}"
        assert parse_filter(str(condition).removeprefix("--exclude "), keep=False) == condition
