"""METR's weights: those of their public file, and sums of one."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from builders import agent_row, small_rows, write_rows
from tidegauge.schema.runs import read_runs
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
