"""``horizon compare`` as its users meet it: its files, its tables, its refusals."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from builders import agent_row, human_row, small_rows, write_rows
from calls import Call
from tidegauge.cli.horizon import compare as horizon_compare
from tidegauge.engine.config import SamplerConfig
from tidegauge.errors import InputError
from tidegauge.horizon import read_runs
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.methods.base import Method
from tidegauge.horizon.methods.hierarchical import Hierarchical
from tidegauge.horizon.methods.registry import NAMES, VARIANTS, find_method
from tidegauge.horizon.store.folder import OWNED
from tidegauge.horizon.studies.compare import CompareOptions, compare
from tidegauge.horizon.studies.held_out import KINDS
from tidegauge.report.horizon.terminal import loo_lines


@pytest.fixture
def call(call: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call the command without other processes."""
    monkeypatch.setattr("tidegauge.engine.parallel.available_cores", lambda: 1)
    return partial(call, "horizon", "compare")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "runs.jsonl", small_rows())


def test_the_command_offers_what_the_library_has() -> None:
    assert horizon_compare._KINDS == KINDS


def test_all_is_every_method(
    call: Call, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[CompareOptions] = []

    def refuse(runs: object, options: CompareOptions, *, progress: object) -> None:
        asked.append(options)
        raise InputError("not now")

    monkeypatch.setattr("tidegauge.horizon.analysis.compare_methods", refuse)
    assert call(runs, "--out", tmp_path / "out", "--method", "core", "--method", "all").code == 2
    assert [options.methods for options in asked] == [[*NAMES, *VARIANTS]]


def test_a_comparison_writes_every_file_and_prints_its_tables(
    call: Call, runs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    methods = [x for name in ("regression", "exact", "core") for x in ("--method", name)]
    said = call(runs, "--out", out, "--folds", 2, *methods, "-q")
    assert said.code == 0, said.err
    assert sorted(path.name for path in out.iterdir()) == sorted(OWNED["compare"])
    names = {path.name for path in (out / "plots").iterdir()}
    charts = ("horizons", "scores", "calibration", "tasks")
    assert names == {f"{chart}.{kind}" for chart in charts for kind in ("png", "svg")}
    horizons = pd.read_csv(out / "compare.csv")
    assert list(zip(horizons["agent"], horizons["method"], strict=True)) == [
        (agent, method)
        for agent in ("agent-a", "agent-b")
        for method in ("regression", "exact", "core")
    ]
    assert (horizons["p50q0.025"] <= horizons["p50"]).all()
    scores = pd.read_csv(out / "scores.csv")
    assert len(scores) == 12
    assert set(scores["runs"]) == {60}  # 2 agents, 5 tasks, 6 runs: all are predicted
    predictions = pd.read_csv(out / "predictions.csv")
    assert len(predictions) == 3 * 4 * 10
    folds = pd.read_csv(out / "folds.csv")
    assert len(folds) == 3 * 2 * 4
    assert folds["r_hat"].notna().sum() == 6  # core alone is sampled
    loo = pd.read_csv(out / "loo.csv")
    assert list(loo["method"]) == ["core"]
    assert list(loo["cells"]) == [10]
    assert list(loo["scores"]) == ["binary"]
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["settings"]["seed"] == 1
    assert list(manifest["inputs"].values()) == [hashlib.sha256(runs.read_bytes()).hexdigest()]
    for text in ("50 % horizon", "held out by", "agent-b", "climatology", "leave-one-cell-out"):
        assert text in said.out
    assert "do not compare" not in said.out


def test_elpd_of_unlike_outcomes_are_not_offered_for_comparison() -> None:
    row = {"cells": 10, "elpd": -5.0, "se": 1.0, "high_k": 0}
    told = [{"method": "core", "scores": "binary"}, {"method": "full", "scores": "continuous"}]
    both = pd.DataFrame([{**row, **own} for own in told])
    assert "do not compare: core binary, full continuous" in list(loo_lines(both))[-1]
    assert len(list(loo_lines(both.head(1)))) == 1


def test_a_fit_that_does_not_converge_exits_1_and_still_writes(
    call: Call, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty = SamplerConfig(draws=20, tune=20, chains=2)

    def hurried(name: str) -> Method:
        method = find_method(name)
        if isinstance(method, Hierarchical):
            return replace(method, sampler=hasty, fold_sampler=hasty)
        return method

    monkeypatch.setattr("tidegauge.horizon.studies.compare.find_method", hurried)
    said = call(runs, "--out", tmp_path / "out", "--method", "core", "--by", "agent", "-q")
    assert said.code == 1
    assert "not converged: core on all runs" in said.err
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["converged"] is False
    assert len(pd.read_csv(tmp_path / "out" / "scores.csv")) == 2


def test_variants_of_methods_and_trends_are_compared(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty, real = SamplerConfig(draws=20, tune=20, chains=2), Hierarchical.fit
    trends = []

    def hurried(method: Hierarchical, design: Design, **options: Any) -> object:
        trends.append((method.options.trend, np.isfinite(design.agent_years).sum()))
        quick = replace(method, sampler=hasty, fold_sampler=hasty, patient=False)
        return real(quick, design, **options)

    monkeypatch.setattr(Hierarchical, "fit", hurried)
    agents = ("agent-a", "agent-b", "agent-c")
    runs = write_rows(tmp_path / "runs.jsonl", small_rows(agents=agents))
    dates = tmp_path / "dates.yaml"
    dates.write_text("agent-a: 2023-01-01\nagent-b: 2024-01-01\nagent-c: 2025-01-01\n")
    methods = ("--method", "regression:lengths=simex", "--method", "core:trend=linear")
    arguments = (runs, "--out", tmp_path / "out", *methods, "--by", "task", "--folds", 2, "-q")
    undated = call(*arguments)
    assert (undated.code, trends) == (2, [])
    assert "a method has a trend, but there are no release dates" in undated.err
    said = call(*arguments, "--release-dates", dates, "--workers", 1)
    assert said.code == 1, said.err  # so few draws never converge
    assert set(trends) == {("linear", 3)}
    found = pd.read_csv(tmp_path / "out" / "compare.csv")
    assert set(found["method"]) == {"regression:lengths=simex", "core:trend=linear"}


def test_former_names_are_noted_once_and_written_as_they_are_now(
    call: Call, runs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    said = call(runs, "--out", out, "--method", "frequentist", "--by", "task", "--folds", 2, "-q")
    assert said.code == 0, said.err
    assert said.err.splitlines() == ["note: method frequentist is now called regression"]
    assert set(pd.read_csv(out / "compare.csv")["method"]) == {"regression"}


def test_a_comparison_that_fails_leaves_the_earlier_files(
    call: Call, runs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert call(runs, "--out", out, "--method", "regression", "--by", "task", "-q").code == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    bad = write_rows(tmp_path / "bad.jsonl", [agent_row(human_minutes=-1)])
    assert call(bad, "--out", out, "-q").code == 2
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_the_same_seed_gives_the_same_answer_and_another_seed_other_folds(runs: Path) -> None:
    choices = {"methods": ("regression", "exact"), "by": ("agent",), "folds": 2, "workers": 1}
    one, again, other = (
        compare(read_runs(runs), CompareOptions(**choices, seed=seed))  # type: ignore[arg-type]
        for seed in (7, 7, 8)
    )
    pd.testing.assert_frame_equal(one.horizons, again.horizons)
    pd.testing.assert_frame_equal(one.held_out.cells, again.held_out.cells)
    assert not one.held_out.cells["task_id"].equals(other.held_out.cells["task_id"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--folds", "1"), "at least 2, or all"),
        (("--folds", "0"), "at least 2, or all"),
        (("--folds", "-3"), "at least 2, or all"),
        (("--folds", "2.5"), "at least 2, or all"),
        (("--folds", "some"), "at least 2, or all"),
        (("--by", "source"), "is not one of 'task', 'family', 'agent'"),
        (("--method", "fuller"), "method=fuller: must be one of regression, exact"),
        (("--seed", "-1"), "is not in the range"),
    ],
)
def test_a_bad_option_exits_2_and_names_the_choice(
    call: Call, runs: Path, tmp_path: Path, arguments: tuple[str, str], message: str
) -> None:
    said = call(runs, "--out", tmp_path / "out", *arguments)
    assert said.code == 2
    assert message in said.err
    assert not (tmp_path / "out").exists()


def test_missing_arguments_and_files_exit_2(call: Call, runs: Path, tmp_path: Path) -> None:
    assert "--out" in call(runs).err
    assert "RUNS" in call("--out", tmp_path / "out").err
    said = call(tmp_path / "none.jsonl", "--out", tmp_path / "out", "-q")
    assert said.code == 2
    assert "none.jsonl: No such file" in said.err


def test_a_place_that_cannot_be_written_to_is_refused_before_any_fit(
    call: Call, runs: Path
) -> None:
    said = call(runs, "--out", runs / "out", "-q")
    assert said.code == 2
    assert "is not a folder; choose another place" in said.err


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([human_row()], "no agent runs"),
        ([agent_row(human_minutes=-1)], ":1: human_minutes=-1"),
        ([agent_row(), agent_row()], "tasks with agent runs: 1, but"),
    ],
    ids=["humans only", "bad value", "one task"],
)
def test_records_that_cannot_be_compared_exit_2_and_write_nothing(
    call: Call, tmp_path: Path, rows: list[dict[str, object]], message: str
) -> None:
    path = write_rows(tmp_path / "runs.jsonl", rows)
    said = call(path, "--out", tmp_path / "out", "-q")
    assert said.code == 2
    assert message in said.err
    assert "Traceback" not in said.err
    assert not (tmp_path / "out").exists()


def test_one_task_per_agent_leaves_nothing_to_learn_from(call: Call, tmp_path: Path) -> None:
    rows = [agent_row("words/a", alias="a"), agent_row("code/b", alias="b")]
    said = call(write_rows(tmp_path / "runs.jsonl", rows), "--out", tmp_path / "out", "-q")
    assert said.code == 2
    assert "no agent would keep a run outside its fold" in said.err


def test_one_family_is_compared_by_task_and_agent_with_a_note(tmp_path: Path) -> None:
    rows = [{**row, "task_family": "one"} for row in small_rows()]
    path = write_rows(tmp_path / "runs.jsonl", rows)
    options = CompareOptions(methods=("regression",), folds=9, workers=1)
    found = compare(read_runs(path), options)
    assert list(dict.fromkeys(found.held_out.cells["by"])) == ["task", "agent"]
    assert any("by family: families with agent runs: 1," in note for note in found.notes)
    assert any("by task: 5 folds, there are no more" in note for note in found.notes)
    with pytest.raises(InputError, match="families with agent runs: 1,"):
        compare(read_runs(path), CompareOptions(methods=("regression",), by=("family",)))


def test_agents_that_always_or_never_succeed_are_compared(tmp_path: Path) -> None:
    rows = small_rows()
    for alias, score in (("always", 1), ("never", 0)):
        own = [row for row in rows if row["alias"] == "agent-a"]
        rows += [{**row, "alias": alias, "score_binarized": score} for row in own]
    path = write_rows(tmp_path / "runs.jsonl", rows)
    options = CompareOptions(methods=("regression", "exact"), folds=2, workers=1)
    cells = compare(read_runs(path), options).held_out.cells
    assert np.isfinite(cells[["log_score", "brier", "probability"]].to_numpy()).all()


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"methods": ("fuller",)}, "method=fuller: must be one of"),
        ({"methods": ()}, "method: none given"),
        ({"by": ("source",)}, "by=source: must be one of"),
        ({"folds": 1}, "folds=1: must be at least 2"),
    ],
)
def test_options_of_the_library_are_checked_too(choice: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        CompareOptions(**choice)  # type: ignore[arg-type]
