"""Tally, design and fit of small files, without the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from builders import write_rows
from tidegauge.horizon.data.counts import Tally, read_tally
from tidegauge.horizon.data.design import Design, build_design

TallyOf = Callable[[Iterable[Mapping[str, Any]]], Tally]
DesignOf = Callable[[Iterable[Mapping[str, Any]]], Design]


@pytest.fixture
def tally_of(tmp_path: Path) -> TallyOf:
    """Count rows as if they were a file of their own."""

    def count(rows: Iterable[Mapping[str, Any]]) -> Tally:
        return read_tally([write_rows(tmp_path / "runs.jsonl", rows)])

    return count


@pytest.fixture
def design_of(tally_of: TallyOf) -> DesignOf:
    """Lay out rows as if they were a file of their own."""

    def lay_out(rows: Iterable[Mapping[str, Any]]) -> Design:
        return build_design(tally_of(rows))

    return lay_out
