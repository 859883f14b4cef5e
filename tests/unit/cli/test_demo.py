"""``tidegauge demo`` from simulated runs to a page and graded agents, on fewer agents and tasks."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from calls import Call
from tidegauge.cli import demo
from tidegauge.simulate import runs
from tidegauge.simulate.runs import RunsShape, scaled_shape

AGENTS = [f"agent-0{number}" for number in range(1, 5)]


@pytest.fixture(autouse=True)
def few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def few(**sizes: int) -> RunsShape:
        return scaled_shape(agents=len(AGENTS), tasks=24, rows=1000)

    monkeypatch.setattr(runs, "scaled_shape", few)


def test_the_tour_fits_compares_poses_and_grades(call: Call, tmp_path: Path) -> None:
    said = call("demo", "--out", tmp_path, "-q")
    assert said.code == 0, said.err
    folder = tmp_path / "horizon"
    truth = json.loads((folder / "data" / "truth.json").read_text())
    for method in ("core", "regression", "exact"):
        assert pd.read_csv(folder / method / "horizons.csv")["agent"].tolist() == AGENTS
        assert list((folder / method / "plots").glob("horizons.*"))
    assert truth
    for agent in AGENTS:
        assert agent in said.out  # in the comparison with the truth
    assert (folder / "comparison.png").stat().st_size > 1000
    assert "<svg" in (folder / "core" / "report.html").read_text(encoding="utf-8")
    records = (tmp_path / "competition" / "runs.jsonl").read_text().splitlines()
    assert [json.loads(line)["alias"] for line in records] == ["sample", "naive", "fvc"]


def test_the_tour_takes_another_model(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "competition_tour", lambda *_: 0)
    said = call("demo", "--out", tmp_path, "--method", "full:noise=normal,residual=task", "-q")
    assert said.code == 0, said.err
    folder = tmp_path / "horizon"
    manifest = json.loads((folder / "full" / "manifest.json").read_text())
    assert manifest["settings"]["options"]["residual"] == "task"
    assert "<svg" in (folder / "full" / "report.html").read_text(encoding="utf-8")
    assert "residuals" in json.loads((folder / "data" / "truth.json").read_text())


def test_the_tour_refuses_a_model_that_there_is_not(call: Call, tmp_path: Path) -> None:
    said = call("demo", "--out", tmp_path, "--method", "regression")
    assert said.code == 2
    assert "model=regression: must be one of core, full" in said.err
