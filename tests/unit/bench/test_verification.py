"""A report that was changed, or that is of other data, is found by grading again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tidegauge.bench as tb
from calls import Call
from tidegauge.bench.competition_folder import Prepared
from tidegauge.errors import InputError

RunIt = Callable[..., tuple[dict[str, Any], Path]]
NAIVE = "python -m tidegauge.bench.agents.naive"


@pytest.fixture
def run(run_it: RunIt) -> Path:
    return run_it(NAIVE)[1]


def names(differences: list[Any]) -> list[str]:
    return [difference.name for difference in differences]


def test_an_honest_run_verifies_with_its_record(
    surge: Prepared, run: Path, tmp_path: Path, call: Call
) -> None:
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    assert tb.verify(run, surge, runs=tmp_path / "runs.jsonl") == []
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
    done = call("bench", "verify", "surge", run, "--prepared", surge.public.parent)
    assert (done.code, done.out) == (0, "nothing differs\n")


def test_a_run_without_a_submission_verifies(surge: Prepared, run_it: RunIt) -> None:
    assert tb.verify(run_it("true")[1], surge) == []


def test_a_changed_report_submission_or_record_is_found(
    surge: Prepared, run: Path, tmp_path: Path, call: Call
) -> None:
    report = json.loads((run / "report.json").read_text())
    (run / "report.json").write_text(json.dumps({**report, "score": 0.1, "gold_medal": True}))
    assert names(tb.verify(run, surge)) == ["score", "gold_medal"]
    done = call("bench", "verify", "surge", run, "--prepared", surge.public.parent, "--json")
    assert done.code == 1
    assert json.loads(done.out)["differences"][0]["found"] == report["score"]
    (run / "report.json").write_text(json.dumps(report))
    records = tmp_path / "runs.jsonl"
    records.write_text(
        records.read_text().replace(f'"score_cont":{report["score"]}', '"score_cont":1')
    )
    assert names(tb.verify(run, surge, runs=records)) == ["score"]
    with open(run / "submission.csv", "a") as handle:
        handle.write("s99h99,1\n")
    assert "submission_sha256" in names(tb.verify(run, surge))


def test_other_answers_are_found(surge: Prepared, run: Path, tmp_path: Path) -> None:
    other = tb.simulate("surge", tmp_path / "other", seed=9)
    assert "answers_sha256" in names(tb.verify(run, other))


def test_what_is_no_run_is_refused(surge: Prepared, run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a run's report"):
        tb.verify(tmp_path, surge)
    (tmp_path / "report.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match="not a run's report"):
        tb.verify(tmp_path, surge)
    foreign = replace(surge, competition=tb.get_competition("osic"))
    with pytest.raises(InputError, match="is a run of"):
        tb.verify(run, foreign)
