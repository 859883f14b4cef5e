"""Every spoiled submission of every made-up competition, judged as MLE-bench judges it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import mlebench_checkout as made
from mlebench_matrix import check_scores, check_verdicts, every_file
from tidegauge.bench.mlebench.checkout import open_checkout
from tidegauge.bench.mlebench.competition import (
    GradeOptions,
    checkout_competition,
    open_checkout_prepared,
)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[made.Reference]:
    world = tmp_path_factory.mktemp("mlebench")
    made.write_world(world)
    found = made.Reference(world / "checkout", world / "data")
    yield found
    found.close()


@pytest.mark.parametrize("name", sorted(made.MADE))
def test_every_spoiled_submission_is_judged_as_by_mlebench(
    name: str, reference: made.Reference, tmp_path: Path
) -> None:
    competition = checkout_competition(open_checkout(reference.checkout), name)
    prepared = open_checkout_prepared(competition, reference.data / name)
    files = every_file(prepared)
    assert len(files) >= 2 + 15
    quick = replace(prepared, options=GradeOptions(se_seconds=0))
    check_scores(quick, reference, files, tmp_path)
    check_verdicts(prepared, reference, files, tmp_path)
