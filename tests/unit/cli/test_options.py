"""What all commands have in common: JSON, completion, and the nearest name to a misspelt one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from calls import Call
from tidegauge.cli.main import cli
from tidegauge.cli.output import print_json, print_tables
from tidegauge.cli.reference import walk_commands
from tidegauge.errors import did_you_mean


def commands() -> dict[str, click.Command]:
    return {
        context.command_path.removeprefix("tidegauge "): command
        for context, command in walk_commands(cli)
        if not isinstance(command, click.Group)
    }


def test_commands_that_print_a_result_print_json_too() -> None:
    prints = {
        name for name, command in commands().items() if re.search(r"\bPrints\b", command.help)
    }
    json_too = {
        name
        for name, command in commands().items()
        if any("--json" in parameter.opts for parameter in command.params)
    }
    assert prints == json_too
    assert prints >= {
        *("horizon check", "horizon fit", "horizon compare", "horizon trend", "horizon multiverse"),
        *("bench list", "bench validate", "bench grade", "bench similar", "fvc crossval"),
        *("fvc solve", "rerun", "doctor"),
    }


def test_json_is_alone_on_stdout(call: Call, simulated_runs: Path, tmp_path: Path) -> None:
    runs, fit = simulated_runs / "runs.jsonl", tmp_path / "fit"
    checked = json.loads(call("horizon", "check", runs, "--json").out)
    assert checked["agents"] == 8
    method = ("--method", "regression", "--replicates", 20)
    fitted = call("horizon", "fit", runs, "--out", fit, *method, "--json")
    assert len(json.loads(fitted.out)["horizons"]) == 8
    assert "bootstrap" in fitted.err
    listed = json.loads(call("bench", "list", "--json").out)["competitions"]
    assert [row["name"] for row in listed] == ["osic", "surge"]


def test_names_that_look_like_numbers_or_nothing_stay_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "horizons.csv").write_text("agent,p50,p80\n4,1.5,\nNA,inf,2\n")
    print_tables(tmp_path, ["horizons", "absent"], converged=True)
    found = json.loads(capsys.readouterr().out)
    assert found["converged"] is True
    assert "absent" not in found
    assert found["horizons"] == [
        {"agent": "4", "p50": 1.5, "p80": None},
        {"agent": "NA", "p50": "inf", "p80": 2.0},
    ]


def test_json_has_null_for_nan_and_text_for_infinity(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": float("nan"), "b": [float("inf"), -float("inf")], "c": 0.5})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": ["inf", "-inf"], "c": 0.5}


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["horizn"], "did you mean horizon?"),
        (["horizon", "fitt"], "Did you mean 'fit'?"),
        (["horizon", "fit", "RUNS", "--out", "o", "--reelase-dates", "d"], "--release-dates"),
        (["horizon", "fit", "RUNS", "--out", "o", "--method", "frequentest"], "frequentist?"),
        (["horizon", "compare", "RUNS", "--out", "o", "--method", "core-weibul"], "core-weibull?"),
        (["bench", "validate", "osci", "s.csv", "--prepared", "p"], "did you mean osic?"),
        (["horizon", "check", "RUNS", "--only", "alias=agent-1"], "did you mean agent-01?"),
        (["horizon", "check", "RUNS", "--only", "aliass=agent-01"], "did you mean alias?"),
    ],
)
def test_a_misspelt_name_is_answered_by_the_nearest(
    arguments: list[str], meant: str, call: Call, simulated_runs: Path
) -> None:
    runs = str(simulated_runs / "runs.jsonl")
    done = call(*(runs if word == "RUNS" else word for word in arguments))
    assert done.code == 2
    assert meant in done.err
    assert done.out == ""


def test_an_agent_that_no_row_has_is_noted_where_rows_remain(
    call: Call, simulated_runs: Path
) -> None:
    runs = simulated_runs / "runs.jsonl"
    done = call("horizon", "check", runs, "--exclude", "alias=agent-2,agent-03")
    assert done.code == 0
    assert "no row has agent-2 (did you mean agent-0" in done.err
    assert "no row has agent-03" not in done.err


def test_a_name_unlike_all_others_gets_no_guess() -> None:
    assert did_you_mean("xyzzy", ["core", "full"]) == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_the_program(shell: str, call: Call) -> None:
    done = call("completion", shell)
    assert done.code == 0
    assert f"_TIDEGAUGE_COMPLETE={shell}_complete" in done.out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("tidegauge ho", {"horizon"}),
        ("tidegauge horizon co", {"compare"}),
        ("tidegauge horizon compare r.jsonl --method co", {"core", "core:failures=censor"}),
        ("tidegauge bench grade o", {"osic"}),
        ("tidegauge horizon fit --see", {"--seed"}),
    ],
)
def test_the_shell_completes_commands_choices_and_competitions(
    words: str, expected: set[str]
) -> None:
    environment = {
        **os.environ,
        "_TIDEGAUGE_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tidegauge"], env=environment, capture_output=True, text=True
    )
    found = {line.partition(",")[2] for line in done.stdout.splitlines()}
    assert found >= expected
    assert all(name.startswith(words.split()[-1]) for name in found)
