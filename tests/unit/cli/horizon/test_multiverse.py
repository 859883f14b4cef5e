"""``horizon multiverse`` as its users meet it: its files, its tables, its refusals."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from builders import agent_row, human_row, small_rows, write_rows
from calls import Call
from tidegauge.engine.config import SamplerConfig
from tidegauge.errors import InputError
from tidegauge.horizon import read_runs
from tidegauge.horizon.methods.hierarchical import Hierarchical
from tidegauge.horizon.methods.regression import Regression
from tidegauge.horizon.store.folder import OWNED
from tidegauge.horizon.studies import multiverse_study
from tidegauge.horizon.studies.multiverse_study import StudyOptions, study

QUICK_GRID = """
- method: regression
  weighting: [invsqrt, equal]
  regularisation: [1e-5, 0.1]
- method: exact
  sources: [all, without code]
- method: regression
  lengths: simex
"""
DATES = "date:\n  agent-a: 2023-01-01\n  agent-b: 2024-01-01\n  agent-c: 2025-01-01\n"


@pytest.fixture
def call(call: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call the command without other processes."""
    monkeypatch.setattr("tidegauge.engine.parallel.available_cores", lambda: 1)
    return partial(call, "horizon", "multiverse")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    rows = small_rows(agents=("agent-a", "agent-b", "agent-c"))
    return write_rows(tmp_path / "runs.jsonl", rows)


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    path = tmp_path / "grid.yaml"
    path.write_text(QUICK_GRID)
    return path


def test_multiverse_writes_its_files_and_says_which_choice_moves_most(
    call: Call, runs: Path, grid: Path, tmp_path: Path
) -> None:
    out, dates = tmp_path / "out", tmp_path / "dates.yaml"
    dates.write_text(DATES)
    said = call(runs, "--out", out, "--grid", grid, "--release-dates", dates, "--plots", "-q")
    assert said.code == 0, said.err
    assert {path.name for path in out.iterdir()} == set(OWNED["multiverse"]) - {
        "influence.csv",
        "sensitivity.csv",
    }
    table = pd.read_csv(out / "multiverse.csv")
    assert list(table.columns)[:6] == [
        *("universe", "method", "weighting", "regularisation", "lengths", "sources"),
    ]
    assert list(table.columns)[6:12] == ["agent", "p50", "low", "high", "beyond", "converged"]
    assert len(table) == 7 * 3
    assert (table["low"] <= table["p50"]).all()
    assert table["converged"].all()
    doubling = pd.read_csv(out / "doubling.csv")
    assert list(doubling["universe"]) == list(range(1, 8))
    assert doubling["agents"].eq(3).all()
    choices = pd.read_csv(out / "choices.csv")
    assert set(choices["choice"]) == set(table.columns[1:6])
    assert choices["mean_abs_log2_change"].is_monotonic_decreasing
    levels = pd.read_csv(out / "levels.csv")
    assert set(levels["choice"]) == set(choices["choice"])
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["kind"] == "horizon/multiverse"
    assert len(manifest["settings"]["universes"]) == 7
    assert list(manifest["inputs"].values()) == [hashlib.sha256(runs.read_bytes()).hexdigest()]
    names = {"horizons", "curve_p50", "choices_p50", "curve_doubling", "choices_doubling"}
    found = {path.name for path in (out / "plots").iterdir()}
    assert found == {f"{name}.{kind}" for name in names for kind in ("png", "svg")}
    assert said.out.index(choices["choice"][0]) < said.out.index(choices["choice"][4])
    assert "doubling time in months" in said.out


def test_sensitivity_and_influence_are_written_when_asked_for(
    call: Call, runs: Path, grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegauge.horizon.studies.sensitivity.ALTERNATIVES", {})
    out = tmp_path / "out"
    arguments = ("--grid", grid, "--universes", 2, "--sensitivity", "--influence", "--plots", "-q")
    said = call(runs, "--out", out, *arguments)
    assert said.code == 0, said.err
    influence = pd.read_csv(out / "influence.csv")
    assert set(influence["family"]) == {"words", "code", "research"}
    assert set(pd.read_csv(out / "sensitivity.csv")["kind"]) == {"power"}
    assert (out / "plots" / "influence.svg").exists()
    assert (out / "plots" / "sensitivity.png").exists()
    assert "families whose absence moves p50 most" in said.out
    assert "other priors" in said.out
    assert pd.read_csv(out / "multiverse.csv")["universe"].nunique() == 2


def test_the_default_grid_is_fitted_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every universe of it, with the sampler taken out: what is tested is the bookkeeping."""
    fits = []

    def stand_in(method: Hierarchical, design: Any, **options: Any) -> object:
        fits.append(method.options)
        return Regression().fit(design, **options)

    monkeypatch.setattr(Hierarchical, "fit", stand_in)
    rows = small_rows()
    rows += [human_row("code/fix", minutes=60, human_minutes=30.0, score_binarized=0)]
    rows += [agent_row("code/new", human_minutes=50.0, human_source="estimate")]
    runs = write_rows(tmp_path / "varied.jsonl", rows)
    found = study(read_runs(runs), StudyOptions(workers=1)).multiverse
    assert len(found.outcomes) == 64
    assert found.failed == []
    assert len(fits) == 32
    assert found.choices == [
        *("method", "weighting", "regularisation", "lengths", "residual", "noise", "failures"),
        *("estimates", "sources", "tasks"),
    ]


def test_universes_that_fail_or_do_not_converge_exit_1_and_are_named(
    call: Call, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty, real = SamplerConfig(draws=8, tune=10, chains=2), Hierarchical.fit

    def hurried(method: Hierarchical, design: Any, **options: Any) -> object:
        return real(replace(method, short_sampler=hasty), design, **options)

    monkeypatch.setattr(Hierarchical, "fit", hurried)
    rows = [{**row, "human_source": "estimate"} for row in small_rows() if row["alias"] != "human"]
    estimated = write_rows(tmp_path / "estimated.jsonl", rows)
    grid = tmp_path / "some.yaml"
    grid.write_text("- method: regression\n  lengths: [given, simex]\n- method: core\n")
    out = tmp_path / "out"
    said = call(estimated, "--out", out, "--grid", grid, "-q")
    assert said.code == 1
    assert "universe 2 failed: no task has two successful human runs" in said.err
    assert "not converged: universes 3" in said.err
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["converged"] is False
    assert list(manifest["failed"]) == ["2"]
    table = pd.read_csv(out / "multiverse.csv")
    assert not table.loc[table["universe"] == 3, "converged"].any()


def test_filters_choose_the_rows_that_are_read(call: Call, runs: Path, tmp_path: Path) -> None:
    grid, out = tmp_path / "one.yaml", tmp_path / "out"
    grid.write_text("method: exact")
    said = call(runs, "--out", out, "--grid", grid, "--exclude", "alias=agent-b", "-q")
    assert said.code == 0, said.err
    assert set(pd.read_csv(out / "multiverse.csv")["agent"]) == {"agent-a", "agent-c"}
    assert "every universe makes the same choices" in said.out
    manifest = json.loads((out / "manifest.json").read_text())
    assert len(manifest["settings"]["filters"]) == 1


def test_a_multiverse_that_cannot_be_read_leaves_the_earlier_files(
    call: Call, runs: Path, grid: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert call(runs, "--out", out, "--grid", grid, "--universes", 1, "-q").code == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    bad = write_rows(tmp_path / "bad.jsonl", [agent_row(human_minutes=-1)])
    assert call(bad, "--out", out, "-q").code == 2
    grid.write_text("- colour: red")
    assert call(runs, "--out", out, "--grid", grid, "-q").code == 2
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- colour: red", "block 1: colour: no such choice"),
        ("- sources: without SWAA", "without SWAA: no task is of it; the sources are HCAST"),
        ("- trend: linear", "a trend is asked for, but no release dates"),
    ],
)
def test_a_bad_grid_exits_2_before_any_fit(
    call: Call,
    runs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    message: str,
) -> None:
    monkeypatch.setattr("tidegauge.horizon.studies.multiverse.parallel_map", None)
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    said = call(runs, "--out", tmp_path / "out", "--grid", path, "-q")
    assert said.code == 2
    assert message in said.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--universes", "0"), "--universes"),
        (("--workers", "-1"), "--workers"),
        (("--grid", "none.yaml"), "does not exist"),
        (("--release-dates", "none.yaml"), "does not exist"),
        (("--model", "huge"), "is not one of"),
    ],
)
def test_a_bad_option_exits_2(
    call: Call, runs: Path, tmp_path: Path, arguments: tuple[str, str], message: str
) -> None:
    said = call(runs, "--out", tmp_path / "out", *arguments)
    assert said.code == 2
    assert message in said.err
    assert not (tmp_path / "out").exists()


def test_humans_only_and_one_family_are_refused_in_words(
    call: Call, grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multiverse_study, "explore", None)  # before any fit
    humans = write_rows(tmp_path / "humans.jsonl", [human_row()])
    assert "no agent runs" in call(humans, "--out", tmp_path / "out", "-q").err
    rows = [{**row, "task_family": "one"} for row in small_rows()]
    one = write_rows(tmp_path / "one.jsonl", rows)
    grid.write_text("- method: exact")
    said = call(one, "--out", tmp_path / "out", "--grid", grid, "--influence", "-q")
    assert said.code == 2
    assert "one family of tasks" in said.err


def test_agents_that_always_or_never_succeed_are_told_as_they_are(
    call: Call, grid: Path, tmp_path: Path
) -> None:
    rows = small_rows()
    for row in rows:
        if row["alias"] != "human":
            row["score_binarized"] = float(row["alias"] == "agent-a")
    path = write_rows(tmp_path / "extreme.jsonl", rows)
    said = call(path, "--out", tmp_path / "out", "--grid", grid, "--plots", "-q")
    assert said.code == 0, said.err
    table = pd.read_csv(tmp_path / "out" / "multiverse.csv")
    regression = table[table["method"] == "regression"]
    assert (regression.loc[regression["agent"] == "agent-a", "p50"] == float("inf")).all()
    assert (regression.loc[regression["agent"] == "agent-b", "p50"] == 0).all()
    choices = pd.read_csv(tmp_path / "out" / "choices.csv").set_index("choice")
    assert choices.loc["weighting", "mean_abs_log2_change"] == 0  # nothing to be moved


@pytest.mark.parametrize("name", ["universes", "workers"])
def test_options_of_the_library_are_checked_too(name: str) -> None:
    with pytest.raises(InputError, match=f"{name}=0: must be at least 1"):
        StudyOptions(**{name: 0})  # type: ignore[arg-type]
