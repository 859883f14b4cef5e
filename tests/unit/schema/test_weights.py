"""METR's weights: those of their public file, and sums of one."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pandas as pd
import pytest

from builders import agent_row, small_rows, write_rows
from calls import Call
from tidegauge.schema.runs import METR_COLUMNS, read_runs
from tidegauge.schema.weights import with_task_weights

NAMES = ("equal_task_weight", "invsqrt_task_weight")


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_those_that_metr_published(realdata: Path, name: str) -> None:
    records = list(read_runs(realdata / "metr" / "all_runs.jsonl"))
    for record, ours in zip(records, with_task_weights(records), strict=True):
        assert getattr(ours, name) == pytest.approx(getattr(record, name), rel=1e-6)  # ten decimals


@pytest.mark.parametrize("name", NAMES)
def test_weights_of_an_agent_sum_to_one(tmp_path: Path, name: str) -> None:
    rows = [*small_rows(), agent_row("words/other", alias="solo")]
    total: defaultdict[str, float] = defaultdict(float)
    for record in with_task_weights(read_runs(write_rows(tmp_path / "runs.jsonl", rows))):
        total[record.alias] += getattr(record, name)
    assert total == pytest.approx(dict.fromkeys(total, 1.0))
    assert {"solo", "human"} <= set(total)


def test_appended_records_of_several_files_are_exported_with_the_weights_of_all(
    call: Call, tmp_path: Path
) -> None:
    """As METR's code reads a file: by its columns, the weights of an agent summing to one."""
    rows = small_rows()
    old = [{**row, "score_cont": None, "score": 0.25, "own_column": 7} for row in rows[::2]]
    files = write_rows(tmp_path / "a.jsonl", old), write_rows(tmp_path / "b.jsonl", rows[1::2])
    said = call("horizon", "export", *files, "--out", tmp_path / "metr.jsonl", "-q")
    assert said.code == 0, said.err
    table = pd.read_json(tmp_path / "metr.jsonl", lines=True)
    assert list(table)[: len(METR_COLUMNS)] == list(METR_COLUMNS)
    assert len(table) == len(rows)
    assert table.groupby("alias")[list(NAMES)].sum().to_numpy() == pytest.approx(1)
    assert (table["own_column"] == 7).sum() == len(old)
    assert (table.loc[table["own_column"] == 7, "score_cont"] == 0.25).all()


@pytest.mark.parametrize("name", NAMES)
def test_an_exported_file_is_metrs_own(
    realdata: Path, call: Call, tmp_path: Path, name: str
) -> None:
    theirs = realdata / "metr" / "all_runs.jsonl"
    assert call("horizon", "export", theirs, "--out", tmp_path / "metr.jsonl", "-q").code == 0
    ours = pd.read_json(tmp_path / "metr.jsonl", lines=True)
    published = pd.read_json(theirs, lines=True)
    assert set(published) - {"score"} <= set(ours)
    assert ours[name].to_numpy() == pytest.approx(published[name].to_numpy(), rel=1e-6)
    assert ours["score_cont"].equals(published["score"])
