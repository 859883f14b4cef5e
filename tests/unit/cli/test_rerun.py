"""Results are made again from their manifests, and what differs is said."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from calls import Call

SMALL = ("--draws", 200, "--tune", 200, "--chains", 2)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, simulated_runs: Path) -> Path:
    """A folder to work in that holds runs.jsonl and release_dates.yaml."""
    for name in ("runs.jsonl", "release_dates.yaml"):
        shutil.copy(simulated_runs / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def regression(call: Call, *more: object) -> None:
    method = ("--method", "regression", "--replicates", 20)
    assert call("horizon", "fit", "runs.jsonl", "--out", "fit", *method, *more).code == 0


@pytest.mark.parametrize(
    ("command", "folder"),
    [
        ("horizon simulate --agents 3 --tasks 12 --out made", "made"),
        ("fvc simulate --patients 12 --out made", "made"),
        ("bench prepare surge --simulate --salt known --out made", "made"),
    ],
)
def test_simulated_results_come_back_the_same(
    command: str, folder: str, call: Call, here: Path
) -> None:
    assert call(*command.split()).code == 0
    before = sorted(path.name for path in here.iterdir())
    done = call("rerun", f"{folder}/manifest.json")
    assert done.code == 0, done.out
    assert "differs" not in done.out
    assert done.out.endswith("verdict: same\n")
    assert sorted(path.name for path in here.iterdir()) == before


def test_a_model_of_fvc_comes_back_the_same(call: Call, here: Path) -> None:
    assert call("fvc", "simulate", "--patients", 40, "--out", "cohort").code == 0
    assert call("fvc", "fit", "--input", "cohort", "--model", "model", "--workers", 1).code == 0
    done = call("rerun", "model", "--json")
    answer = json.loads(done.out)
    assert (done.code, answer["verdict"]) == (0, "same"), answer["files"]
    assert {"arrays.npz", "model.json"} <= {file["name"] for file in answer["files"]}


def test_a_regression_comes_back_the_same_and_is_kept_with_out(call: Call, here: Path) -> None:
    regression(call, "--release-dates", "release_dates.yaml")
    done = call("rerun", "fit", "--out", "again", "--quiet")
    assert (done.code, done.err) == (0, "")
    assert (here / "again" / "horizons.csv").read_bytes() == (
        here / "fit" / "horizons.csv"
    ).read_bytes()
    refused = call("rerun", "fit", "--out", "again")
    assert refused.code == 2
    assert "name a new folder" in refused.err


def test_a_changed_result_is_found_with_its_difference(call: Call, here: Path) -> None:
    regression(call)
    table = pd.read_csv(here / "fit" / "horizons.csv")
    table["p50"] *= 1.25
    table.to_csv(here / "fit" / "horizons.csv", index=False, float_format="%.10g")
    done = call("rerun", "fit")
    assert done.code == 1
    assert re.search(r"horizons\.csv +differs \(largest relative difference 0\.2\)", done.out)
    assert done.out.endswith("verdict: differs\n")


def test_a_changed_input_is_refused_until_the_original_is_given(call: Call, here: Path) -> None:
    regression(call)
    shutil.move(here / "runs.jsonl", here / "original.jsonl")
    absent = call("rerun", "fit")
    assert absent.code == 2
    assert "runs.jsonl: is not there; give its place with --input runs.jsonl=PATH" in absent.err
    lines = (here / "original.jsonl").read_text().splitlines(keepends=True)
    (here / "runs.jsonl").write_text("".join(lines[:-1]))
    changed = call("rerun", "fit")
    assert changed.code == 2
    assert "runs.jsonl: its contents have changed" in changed.err
    assert call("rerun", "fit", "--input", "runs.jsonl=original.jsonl").code == 0
    assert call("rerun", "fit", "--input", "rnus.jsonl=original.jsonl").code == 2


def test_a_sampled_fit_comes_back_within_monte_carlo_error(call: Call, here: Path) -> None:
    call("horizon", "fit", "runs.jsonl", "--out", "fit", *SMALL, "--seed", 1)
    call("horizon", "fit", "runs.jsonl", "--out", "other", *SMALL, "--seed", 2)
    # The results of another seed under the manifest of the first: unlike in every number.
    shutil.copy(here / "fit" / "manifest.json", here / "other" / "manifest.json")
    done = call("rerun", "other", "--json")
    answer = json.loads(done.out)
    files = {file["name"]: file["verdict"] for file in answer["files"]}
    assert files["parameters.csv"] == files["posterior.nc"] == "differs"
    assert answer["monte_carlo"]["largest_z"] < answer["monte_carlo"]["limit"]
    assert (done.code, answer["verdict"]) == (0, "same within Monte Carlo error")
    assert call("rerun", "other", "--exact").code == 1
    parameters = pd.read_csv(here / "other" / "parameters.csv")
    parameters["mean"] += 2 * parameters["sd"]
    parameters.to_csv(here / "other" / "parameters.csv", index=False, float_format="%.10g")
    assert call("rerun", "other").code == 1


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "not readable as a manifest"),
        ("{", "not readable as a manifest"),
        ("[]", "records no command"),
        ('{"kind": "horizon/core"}', "records no command"),
    ],
)
def test_what_is_no_manifest_is_refused(
    content: str | None, problem: str, call: Call, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "manifest.json").write_text(content)
    done = call("rerun", tmp_path / "manifest.json")
    assert done.code == 2
    assert problem in done.err


def forged_manifest(folder: Path, *words: object, **fields: object) -> Path:
    command = {"arguments": list(map(str, words)), "inputs": {}, "out": "x", **fields}
    (folder / "manifest.json").write_text(json.dumps({"command": command}))
    return folder / "manifest.json"


@pytest.mark.parametrize("name", ["agent", "page", "rerun"])
def test_a_manifest_of_others_runs_no_other_command(
    name: str, call: Call, here: Path, tmp_path: Path
) -> None:
    """Only what makes one folder, and nothing outside it, is repeated."""
    victim = here / "victim"
    words: dict[str, tuple[object, ...]] = {
        "agent": (
            *("bench", "run", "surge", "--prepared", "p", "--out", "o", "--isolation", "none"),
            *("--agent", f"touch {victim}"),
        ),
        "page": ("horizon", "report", "fit", "--out", victim),
        "rerun": ("rerun", "manifest.json"),
    }
    call("bench", "prepare", "surge", "--simulate", "--out", "p")
    regression(call)
    done = call("rerun", forged_manifest(here, *words[name]))
    assert done.code == 2
    assert "do not trust this one" in done.err
    assert not victim.exists()


@pytest.mark.parametrize(
    "fields",
    [{"arguments": 3}, {"arguments": [1]}, {"inputs": ["a"]}, {"inputs": {"/dev/zero": "0"}}],
)
def test_a_manifest_of_wrong_types_is_refused(
    fields: dict[str, object], call: Call, here: Path
) -> None:
    done = call("rerun", forged_manifest(here, "horizon", "fit", "a", "--out", "b", **fields))
    assert done.code == 2
    assert "Traceback" not in done.err


def test_a_pipe_in_the_place_of_an_input_is_not_waited_for(call: Call, here: Path) -> None:
    os.mkfifo(here / "pipe")
    words = ("horizon", "fit", "pipe", "--out", "b")
    done = call("rerun", forged_manifest(here, *words, inputs={"pipe": "0" * 64}))
    assert done.code == 2
    assert "pipe: is not there" in done.err
