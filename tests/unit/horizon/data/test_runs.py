"""Runs from files and from tables: the same rules, the same arrays, the same faults."""

from __future__ import annotations

import datetime
import doctest
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pytest

import tidegauge.horizon.data.runs as module
from builders import agent_row, human_row, small_rows, write_rows
from tidegauge.errors import InputError, RunFileError
from tidegauge.horizon.data.runs import Runs, read_runs

DATES = {"agent-a": "2024-05-13", "agent-b": datetime.date(2025, 1, 2)}


class StreamOnly:
    """A table that has nothing but the Arrow stream, as polars would be met."""

    def __init__(self, table: pyarrow.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return self._table.__arrow_c_stream__(schema)


class InterchangeOnly:
    """A table that has nothing but the data frame interchange protocol."""

    def __init__(self, table: pyarrow.Table) -> None:
        self._table = table

    def __dataframe__(self, **options: Any) -> object:
        return self._table.__dataframe__(**options)


TABLES = {
    "rows": list,
    "pandas": pd.DataFrame,
    "nullable": lambda rows: pd.DataFrame(rows).convert_dtypes(),
    "arrow": pyarrow.Table.from_pylist,
    "stream": lambda rows: StreamOnly(pyarrow.Table.from_pylist(rows)),
    "interchange": lambda rows: InterchangeOnly(pyarrow.Table.from_pylist(rows)),
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_gives_what_its_file_gives(kind: str, tmp_path: Path) -> None:
    rows = small_rows()
    path = write_rows(tmp_path / "runs.jsonl", rows)
    from_file = read_runs(path, release_dates=DATES)
    from_table = Runs.from_frame(TABLES[kind](rows), release_dates=DATES)
    assert from_table == from_file
    assert hash(from_table.design) == hash(from_file.design)
    assert repr(from_table) == repr(from_file)


def test_columns_of_mixed_kinds_and_gaps_are_read_as_the_file_is(tmp_path: Path) -> None:
    rows = [
        agent_row(run_id=1, score_cont=0.5),
        agent_row(run_id="b", alias="other", tokens_count=3),
        human_row(minutes=4),
    ]
    path = write_rows(tmp_path / "runs.jsonl", rows)
    assert Runs.from_frame(pd.DataFrame(rows)) == read_runs(path)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("human_minutes", -3.0, "table, row 2: human_minutes=-3.0: must be a positive"),
        ("human_minutes", np.nan, "table, row 2: human_minutes is missing: must be"),
        ("score_binarized", 0.5, "table, row 2: score_binarized=0.5: must be 0 or 1"),
        ("alias", None, "table, row 2: alias is missing: must be a non-empty text"),
        ("human_minutes", 9.0, "row 2: human_minutes=9.0: task words/count has 8.0 at table, row"),
    ],
)
def test_a_bad_value_names_its_row_and_field(field: str, value: object, message: str) -> None:
    with pytest.raises(RunFileError) as caught:
        Runs.from_frame(pd.DataFrame([agent_row(), agent_row(**{field: value})]))
    assert message in str(caught.value)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    frame = pd.DataFrame(small_rows()).drop(columns="human_source")
    with pytest.raises(RunFileError, match="table, row 1: human_source is missing"):
        Runs.from_frame(frame)


@pytest.mark.parametrize("given", [pd.DataFrame(), [], 3, "runs.jsonl"])
def test_what_is_no_table_is_refused(given: object) -> None:
    with pytest.raises(InputError, match=r"no run record|not a table"):
        Runs.from_frame(given)


def test_times_as_timestamps_are_refused_with_the_remedy() -> None:
    row = human_row() | {"started_at": pd.Timestamp("2024-05-13")}
    with pytest.raises(RunFileError, match="a human run needs its time in milliseconds"):
        Runs.from_frame(pd.DataFrame([agent_row(), row]))


def test_filters_and_groups(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "runs.jsonl", small_rows())
    every = read_runs(path)
    runs = read_runs([path], exclude=[f"alias={every.design.agents[0]}"], groups={"agent-b": "B"})
    assert runs.design.agents == every.design.agents[1:]
    assert runs.groups == {"agent-b": "B"}
    assert any("rows left out by --exclude alias=" in note for note in runs.notes)
    with pytest.raises(InputError, match="must be a list of conditions"):
        read_runs(path, exclude="alias=human")


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"release_dates": {"agent-a": "May 2024"}}, "release_dates: agent-a=May 2024: not a date"),
        ({"release_dates": 5}, "release_dates: must map agents to dates"),
        ({"groups": {"agent-a": ""}}, "groups: agent-a=: must be the name of a group"),
    ],
)
def test_bad_facts_about_agents_are_refused(facts: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Runs.from_frame(small_rows(), **facts)


def test_what_runs_show_of_themselves(simulated_runs: Path) -> None:
    runs = read_runs(simulated_runs / "runs.jsonl", release_dates={"agent-01": "2024-05-13"})
    assert repr(runs).startswith("8 agents, 60 tasks in 28 families, ")
    assert "no release date for agent-02, " in repr(runs)
    page = runs._repr_html_()
    assert page.startswith("<p><strong>8 agents, 60 tasks")
    assert "<li>no release date for agent-02" in page
    table = runs.summary().set_index("what")["count"]
    assert (table["agents"], table["tasks"]) == ("8", "60")
    assert pickle.loads(pickle.dumps(runs)) == runs
    odd = Runs.from_frame([agent_row(alias="<b>")])
    assert "&lt;b&gt; always succeeds" in odd._repr_html_()


def test_the_public_file_of_metr(realdata: Path) -> None:
    path = realdata / "metr" / "all_runs.jsonl"
    runs = read_runs(path)
    frame = pd.read_json(path, lines=True)
    assert Runs.from_frame(frame) == runs
    counts = "10 agents, 83 tasks in 36 families, 6,848 agent runs, 211 human runs"
    assert repr(runs).splitlines()[0] == counts


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(module).failed == 0
