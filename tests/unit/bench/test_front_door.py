"""The public names of `tidegauge.bench`: few, lazy, documented, and enough."""

from __future__ import annotations

import doctest
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import tidegauge.bench as tb


def test_every_public_name_is_there_and_documented() -> None:
    for name in tb.__all__:
        assert inspect.getdoc(getattr(tb, name)), name
    assert set(tb.__all__) <= set(dir(tb))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tb.nothing  # noqa: B018


def test_importing_the_room_imports_nothing_heavy() -> None:
    code = (
        "import sys, tidegauge.bench; print([m for m in sys.modules if m in ('numpy', 'uvicorn')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_example_of_the_room_runs() -> None:
    assert doctest.testmod(tb).failed == 0


def test_from_simulated_data_to_a_verified_record_in_python(tmp_path: Path) -> None:
    prepared = tb.simulate("surge", tmp_path / "prepared", seed=1)
    workspace = tb.make_workspace(prepared, tmp_path / "workspace", limits=tb.Limits(hours=1))
    grade = tb.grade(prepared, workspace / "input" / "sample_submission.csv")
    assert grade.valid
    options = tb.RunOptions(
        command="cp input/sample_submission.csv submission/submission.csv",
        alias="copy",
        isolation="none",
        limits=tb.Limits(hours=0.01),
    )
    report = tb.run_agent(prepared, tmp_path / "runs", tmp_path / "runs.jsonl", options)
    assert report["score"] == round(grade.score or 0, 5)
    folder = Path(report["submission_path"]).parent
    again = tb.open_prepared("surge", str(tmp_path / "prepared"))
    assert tb.verify(folder, again, runs=tmp_path / "runs.jsonl") == []
