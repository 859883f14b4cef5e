"""``tidegauge horizon`` as its users meet it: exit codes, one line per fault, no traceback."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from builders import agent_row, human_row, small_rows, write_rows
from calls import Call, Said
from tidegauge.cli.main import main

Row = dict[str, Any]


def spoil(**fields: Any) -> bytes:
    return jsonl([agent_row(), agent_row(**fields)])


def jsonl(rows: list[Row]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


BAD_INPUTS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", ":1: no run record in this file"),
    "not JSON": (b"task,alias\nx,y\n", ":1: not JSON"),
    "binary": (bytes(range(256)) * 10, ":1: binary data"),
    "truncated last line": (jsonl([agent_row()]) + b'{"task_id": "wor', ":2: truncated"),
    "array": (b'[{"task_id": "x"}]', ":1: a JSON array"),
    "no task_id": (spoil(task_id=None), ":2: task_id is missing"),
    "no alias": (spoil(alias=None), ":2: alias is missing"),
    "minutes zero": (spoil(human_minutes=0), ":2: human_minutes=0: must be a positive"),
    "minutes negative": (spoil(human_minutes=-3), ":2: human_minutes=-3: must be a positive"),
    "minutes infinite": (spoil(human_minutes=float("inf")), ":2: human_minutes=Infinity: must"),
    "minutes text": (spoil(human_minutes="8 min"), ":2: human_minutes=8 min: must be a positive"),
    "score NaN": (spoil(score_binarized=float("nan")), ":2: score_binarized=NaN: must be 0 or 1"),
    "old score NaN": (spoil(score=float("nan")), ":2: score=NaN: must be a finite number"),
    "score half": (spoil(score_binarized=0.5), ":2: score_binarized=0.5: must be 0 or 1"),
    "ends before it begins": (
        spoil(alias="human", started_at=9, completed_at=5),
        ":2: completed_at=5: before started_at=9",
    ),
    "no agent runs": (jsonl([human_row()]), "no agent runs, every alias is 'human'"),
    "huge line": (b'{"task_id": "' + b"x" * 3_000_000 + b'"}\n', ":1: line of more than 1,024 KiB"),
    "disagreement": (spoil(human_minutes=9.0), ":2: human_minutes=9.0: task words/count has 8.0"),
    "damaged gzip": (gzip.compress(spoil() * 999)[:-20], "cannot be read further"),
}


@pytest.mark.parametrize("name", BAD_INPUTS)
@pytest.mark.parametrize("command", ["check", "fit", "graph"])
def test_bad_input_exits_2_with_a_line_and_writes_nothing(
    call: Call, tmp_path: Path, name: str, command: str
) -> None:
    content, message = BAD_INPUTS[name]
    path, out = tmp_path / "runs.jsonl", tmp_path / "out"
    path.write_bytes(content)
    said = call("horizon", command, path, "-q", *(["--out", out] if command == "fit" else []))
    assert said.code == 2
    assert said.out == ""
    assert message in said.err
    assert said.err.startswith(f"error: {path}")
    assert os.listdir(tmp_path) == ["runs.jsonl"]


def test_each_fault_has_a_line_and_the_rest_a_count(call: Call, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "runs.jsonl", [agent_row(score_binarized=0.5)] * 50)
    said = call("horizon", "check", path, "--quiet")
    lines = said.err.splitlines()
    assert said.code == 2
    assert len(lines) == 21
    assert all(f"{path}:{i}: score_binarized" in line for i, line in enumerate(lines[:20], 1))
    assert lines[20] == "... and 30 more (50 in all)"


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_a_missing_file_or_a_folder_exits_2(call: Call, tmp_path: Path, name: str) -> None:
    for command in (["check"], ["fit", "--out", tmp_path / "out"]):
        said = call("horizon", command[0], tmp_path / name, *command[1:], "-q")
        assert said.code == 2
        assert len(said.err.splitlines()) == 1
    assert os.listdir(tmp_path) == []


def test_a_good_file_is_summarised_on_stdout(call: Call, tmp_path: Path) -> None:
    rows = small_rows()
    path = write_rows(tmp_path / "runs.jsonl", rows)
    said = call("horizon", "check", path)
    assert said.code == 0
    assert dict(line.split(maxsplit=1) for line in said.out.splitlines()[:4]) == {
        "rows": str(len(rows)),
        "agents": "2",
        "tasks": "5",
        "families": "3",
    }
    assert said.err.splitlines() == [f"reading {path} ..."]
    assert call("horizon", "check", path, "--quiet") == Said(0, said.out, "")


def test_the_same_file_twice_is_said(call: Call, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "runs.jsonl", small_rows())
    once, twice = call("horizon", "check", path), call("horizon", "check", path, path)
    assert twice.code == 0
    assert twice.out == once.out
    assert f"note: {path} is given twice: read once" in twice.err


AGENT_ROWS = [row for row in small_rows() if row["alias"] != "human"]


def replaced(**fields: Any) -> list[Row]:
    return [{**row, **fields} for row in small_rows()]


def scored(score: float) -> list[Row]:
    changed = {"score_binarized": score, "score_cont": score}
    return [{**row, **changed} if row["alias"] == "agent-a" else row for row in small_rows()]


def renamed(row: Row) -> Row:
    names = {"agent-a": "агент α 🤖", "agent-b": "代理"}
    alias = names.get(row["alias"], row["alias"])
    return {**row, "alias": alias, "task_id": f"{row['task_id']} é", "task_family": "家族"}


UNTRIED = [human_row(f"more/{i}", minutes=4 + i, human_minutes=4.0 + i) for i in range(3)]
ODD_INPUTS: dict[str, tuple[list[Row], str]] = {
    "no human run": (AGENT_ROWS, "no successful timed human run: task lengths rest on estimates"),
    "one agent": (small_rows(agents=("solo",)), ""),
    "one task": ([row for row in small_rows() if row["task_id"] == "code/fix"], ""),
    "one family": (replaced(task_family="all"), ""),
    "never succeeds": (scored(0.0), "agent-a never succeeds"),
    "always succeeds": (scored(1.0), "agent-a always succeeds"),
    "untried tasks": ([*small_rows(), *UNTRIED], "3 tasks were tried by no agent"),
    "unicode": ([renamed(row) for row in small_rows()], ""),
    "no task_source": (replaced(task_source=None), ""),
    "one run in all": ([agent_row()], "1 baseline tasks have no human row in the file"),
}


@pytest.mark.parametrize("name", ODD_INPUTS)
def test_odd_but_valid_input_converges_and_says_what_was_done(
    call: Call, tmp_path: Path, name: str
) -> None:
    rows, note = ODD_INPUTS[name]
    path, out = write_rows(tmp_path / "runs.jsonl", rows), tmp_path / "out"
    said = call("horizon", "fit", path, "--out", out)
    assert said.code == 0, said.err
    assert f"note: {note}" in said.err or not note
    diagnostics = json.loads((out / "diagnostics.json").read_text())
    assert diagnostics["converged"] is True
    assert diagnostics["r_hat_max"] < 1.01
    assert min(diagnostics["ess_bulk_min"], diagnostics["ess_tail_min"]) > 400
    assert diagnostics["divergences"] == 0
    agents = sorted({row["alias"] for row in rows} - {"human"})
    table = pd.read_csv(out / "horizons.csv")
    assert table["agent"].tolist() == agents
    assert (table["p50q0.025"] <= table["p50"]).all()
    assert (table["p50"] <= table["p50q0.975"]).all()
    assert [line.split("  ")[0] for line in said.out.splitlines()[1:]] == agents


@pytest.mark.parametrize("method", ["regression", "exact"])
@pytest.mark.parametrize("name", ODD_INPUTS)
def test_odd_but_valid_input_works_by_the_other_methods(
    call: Call, tmp_path: Path, name: str, method: str
) -> None:
    rows, _ = ODD_INPUTS[name]
    path, out = write_rows(tmp_path / "runs.jsonl", rows), tmp_path / "out"
    said = call(
        *("horizon", "fit", path, "--out", out, "--method", method, "--replicates", 50, "-q")
    )
    assert said.code == 0, said.err
    agents = sorted({row["alias"] for row in rows} - {"human"})
    assert pd.read_csv(out / "horizons.csv")["agent"].tolist() == agents


def scaled(factor: float) -> list[Row]:
    return [
        {
            **row,
            "human_minutes": row["human_minutes"] * factor,
            "completed_at": row.get("completed_at", 0) * factor,
        }
        for row in small_rows()
    ]


@pytest.mark.parametrize(
    ("rows", "missing"),
    [
        (scaled(1e-3), {"predictive_success"}),  # all shorter than the first bucket
        (scaled(1e4), {"predictive_success"}),  # all longer than the last one
        ([agent_row("a[b]", task_family="[f]]", alias="x]")], {"predictive_human"}),
    ],
)
def test_plots_of_odd_files_are_drawn(
    call: Call, tmp_path: Path, rows: list[Row], missing: set[str]
) -> None:
    path, out = write_rows(tmp_path / "runs.jsonl", rows), tmp_path / "out"
    sizes = ("--draws", 50, "--tune", 50, "--chains", 2)
    said = call("horizon", "fit", path, "--out", out, "--plots", "-q", *sizes)
    assert said.code == 1  # so few draws never converge
    charts = {"horizons", "success_curves", "trace", "rank", "sampling", "difficulty"}
    charts |= {"predictive_success", "predictive_human"} - missing
    assert set(os.listdir(out / "plots")) == {
        f"{c}.{kind}" for c in charts for kind in ("png", "svg")
    }


def test_a_chart_that_fails_does_not_lose_the_fit(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no chart today")

    monkeypatch.setattr("tidegauge.report.charts.save_chart", fail)
    path, out = write_rows(tmp_path / "runs.jsonl", small_rows()), tmp_path / "out"
    with pytest.raises(RuntimeError, match="no chart today"):
        main(["horizon", "fit", str(path), "--out", str(out), "--method", "exact", "--plots", "-q"])
    assert {"horizons.csv", "manifest.json"} <= set(os.listdir(out))
    assert os.listdir(out / "plots") == []


def test_a_fit_that_did_not_converge_writes_its_files_and_exits_1(
    call: Call, tmp_path: Path
) -> None:
    path, out = write_rows(tmp_path / "runs.jsonl", small_rows()), tmp_path / "out"
    said = call("horizon", "fit", path, "--out", out, "--draws", 20, "--tune", 50, "--chains", 2)
    assert said.code == 1
    assert "check failed: ess_bulk: smallest" in said.err
    assert "not converged: the files are written, but do not rely on them. Try" in said.err
    diagnostics = json.loads((out / "diagnostics.json").read_text())
    assert diagnostics["converged"] is False
    assert (diagnostics["draws"], diagnostics["chains"]) == (20, 2)  # exactly what was asked for
    assert (out / "horizons.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "{runs}"], "Missing option '--out'"),
        (["fit", "--out", "{out}"], "Missing argument 'RUNS...'"),
        (["fit", "{runs}", "--out", "{out}", "--draws", "0"], "'--draws'"),
        (["fit", "{runs}", "--out", "{out}", "--draws", "many"], "'--draws'"),
        (["fit", "{runs}", "--out", "{out}", "--chains", "0"], "'--chains'"),
        (["fit", "{runs}", "--out", "{out}", "--tune", "-1"], "'--tune'"),
        (["fit", "{runs}", "--out", "{out}", "--seed", "-1"], "'--seed'"),
        (["fit", "{runs}", "--out", "{out}", "--seed", str(2**70)], "'--seed'"),
        (
            ["fit", "{runs}", "--out", "{out}", "--method", "guess"],
            "method=guess: must be one of regression",
        ),
        (["fit", "{runs}", "--out", "{out}", "--failures", "drop"], "'drop' is not one of"),
        (["fit", "{runs}", "--out", "{out}", "--regularisation", "0"], "'--regularisation'"),
        (["fit", "{runs}", "--out", "{out}", "--replicates", "0"], "'--replicates'"),
        (["fit", "{runs}", "--out", "{out}", "--colour"], "No such option"),
        (["check"], "Missing argument 'RUNS...'"),
        (["chek", "{runs}"], "No such command 'chek'"),
        (["simulate", "--out", "{out}", "--agents", "0"], "'--agents'"),
        (["simulate", "--out", "{out}", "--rows", "10"], "rows=10: fewer than the human runs"),
    ],
)
def test_bad_usage_exits_2_and_writes_nothing(
    call: Call, tmp_path: Path, arguments: list[str], message: str
) -> None:
    runs = write_rows(tmp_path / "runs.jsonl", small_rows())
    filled = [argument.format(runs=runs, out=tmp_path / "out") for argument in arguments]
    said = call("horizon", *filled)
    assert said.code == 2
    assert message in said.err
    assert os.listdir(tmp_path) == ["runs.jsonl"]


@pytest.mark.parametrize("place", ["runs.jsonl", "runs.jsonl/below"])
def test_an_output_place_that_is_a_file_is_refused_before_sampling(
    call: Call, tmp_path: Path, place: str
) -> None:
    runs = write_rows(tmp_path / "runs.jsonl", small_rows())
    said = call("horizon", "fit", runs, "--out", tmp_path / place)
    assert said.code == 2
    assert "is not a folder; choose another place" in said.err
    assert "reading" not in said.err
    said = call("horizon", "simulate", "--out", tmp_path / place, "--tasks", 10, "--agents", 2)
    assert said.code == 2
    assert os.listdir(tmp_path) == ["runs.jsonl"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("date: [1, 2]", "must map agents to dates"),
        ("just text", "must map agents to dates"),
        ("", "must map agents to dates"),
        ("date:\n  agent-a: soon", "agent-a=soon: not a date; write it as 2024-05-13"),
        ("agent-a: 2024-05-13 and later", "not a date; write it as 2024-05-13"),
        ("agent-a:", "agent-a=None: not a date"),
        ("agent-a: 2024-13-45", "not readable as YAML (month must be in 1..12)"),
        ("a: b: c", "not readable as YAML"),
        ("a: '\udcff", "not readable as YAML"),
        ("[" * 1200, "not readable as YAML"),
    ],
)
def test_bad_release_dates_exit_2_in_one_line(
    call: Call, tmp_path: Path, content: str, message: str
) -> None:
    runs = write_rows(tmp_path / "runs.jsonl", small_rows())
    dates = tmp_path / "dates.yaml"
    dates.write_bytes(content.encode(errors="surrogateescape"))
    arguments = ("--release-dates", dates, "--out", tmp_path / "out", "--method", "exact")
    said = call("horizon", "fit", runs, *arguments, "-q")
    assert said.code == 2
    assert message in said.err
    assert said.err.startswith(f"error: {dates}: ")
    assert len(said.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()
    assert call("horizon", "fit", runs, "--release-dates", "none", *arguments[2:]).code == 2


@pytest.mark.parametrize(
    "content",
    [
        "date:\n  agent-a: 2024-05-13\n",
        "agent-a: '2024-05-13'\nother: 2020-01-01\n",
        "agent-a: 2024-05-13 10:30:00\n",
    ],
)
def test_release_dates_reach_the_table_and_the_undated_are_said(
    call: Call, tmp_path: Path, content: str
) -> None:
    runs, out = write_rows(tmp_path / "runs.jsonl", small_rows()), tmp_path / "out"
    (tmp_path / "dates.yaml").write_text(content)
    said = call(
        *("horizon", "fit", runs, "--out", out, "--method", "exact"),
        *("--release-dates", tmp_path / "dates.yaml"),
    )
    assert said.code == 0
    assert "note: no release date for agent-b" in said.err
    table = pd.read_csv(out / "horizons.csv", keep_default_na=False)
    assert table["release_date"].tolist() == ["2024-05-13", ""]


def test_every_command_explains_itself_with_an_example(call: Call) -> None:
    said = call("horizon", "--help")
    assert said.code == 0
    for command in ("check", "simulate", "graph", "fit"):
        assert command in said.out
        explained = call("horizon", command, "--help")
        assert explained.code == 0
        assert f"Example: tidegauge horizon {command} " in " ".join(explained.out.split())
    assert call("--help").code == call("--version").code == call("horizon", "fit", "-h").code == 0


def test_graph_is_mermaid_and_samples_nothing(call: Call, tmp_path: Path) -> None:
    runs = write_rows(tmp_path / "runs.jsonl", small_rows())
    said = call("horizon", "graph", runs, "-q")
    assert said.code == 0
    for name in ("mu_global", "mu_family", "mu_task", "alpha", "beta"):
        assert name in said.out
    assert os.listdir(tmp_path) == ["runs.jsonl"]


def test_what_simulate_writes_is_what_check_reads(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "sim"
    said = call("horizon", "simulate", "--out", out, "--agents", 3, "--tasks", 20, "--rows", 700)
    assert said.code == 0
    assert f"{out / 'runs.jsonl'}: 700 rows" in said.out
    files = ["manifest.json", "release_dates.yaml", "runs.jsonl", "truth.json"]
    assert sorted(os.listdir(out)) == files
    checked = call("horizon", "check", out / "runs.jsonl", "-q")
    assert [line.split()[1] for line in checked.out.splitlines()[:3]] == ["700", "3", "20"]


def test_real_processes_read_stdin_and_refuse_without_a_traceback(
    tidegauge: Any, tmp_path: Path
) -> None:
    text = jsonl(small_rows()).decode()
    good = tidegauge("horizon", "check", "-", input=text)
    assert good.returncode == 0
    assert good.stdout.startswith("rows ")
    assert good.stderr == "reading <stdin> ...\n"
    bad = tidegauge("horizon", "check", "-", input=text + "{oops\n", cwd=tmp_path)
    assert bad.returncode == 2
    assert bad.stdout == ""
    n_rows = len(small_rows())
    assert f"error: <stdin>:{n_rows + 1}: not JSON" in bad.stderr
    assert "Traceback" not in bad.stderr
    none = tidegauge("horizon", "check", "-", stdin=subprocess.DEVNULL)
    assert none.returncode == 2
    assert "<stdin>:1: no run record" in none.stderr


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "runs.jsonl", small_rows())
    command = [sys.executable, "-m", "tidegauge", "horizon", "check", str(path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()  # as head does once it has what it wants
        said = process.stderr.read()
    assert said == f"reading {path} ...\n"
    assert process.returncode == 0


def test_an_interrupt_exits_130_and_writes_nothing(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "runs.jsonl", small_rows())
    out = tmp_path / "out"
    command = [sys.executable, "-m", "tidegauge", "horizon", "fit", path, "--out", out]
    with subprocess.Popen(
        [*map(str, command), "--draws", "3000000"], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        heard = []
        for line in process.stderr:
            heard.append(line)
            if line.startswith("sampling"):
                process.send_signal(signal.SIGINT)
                break
        rest = process.stderr.read()
    assert process.returncode == 130, "".join(heard) + rest
    assert "interrupted" in rest
    assert "Traceback" not in rest
    assert not out.exists()


@pytest.mark.realdata
def test_the_public_metr_file_is_counted_as_published(call: Call, realdata: Path) -> None:
    (runs,) = (realdata / "metr").glob("*.jsonl")
    said = call("horizon", "check", runs, "-q")
    assert said.code == 0
    found = dict(line.strip().rsplit("  ", 1) for line in said.out.splitlines())
    counted = {name.strip(): value for name, value in found.items()}
    names = ("rows", "agents", "tasks", "families", "human runs")
    assert [counted[name] for name in names] == ["7,059", "10", "83", "36", "211"]


@pytest.mark.realdata
def test_the_public_metr_file_converges(call: Call, realdata: Path, tmp_path: Path) -> None:
    (runs,) = (realdata / "metr").glob("*.jsonl")
    said = call("horizon", "fit", runs, "--out", tmp_path, "-q")
    assert said.code == 0, said.err
    diagnostics = json.loads((tmp_path / "diagnostics.json").read_text())
    assert diagnostics["r_hat_max"] < 1.01
    assert min(diagnostics["ess_bulk_min"], diagnostics["ess_tail_min"]) > 400
    assert diagnostics["divergences"] == 0
