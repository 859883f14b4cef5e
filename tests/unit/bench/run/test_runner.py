"""Runs: budgets, the step protocol, whole trees ended, submissions graded, records written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidegauge.bench.competition_folder import Prepared
from tidegauge.bench.run.options import Limits, RunOptions
from tidegauge.bench.run.record import RunState, settle_interrupted
from tidegauge.bench.run.runner import run_agent
from tidegauge.errors import InputError
from tidegauge.schema.runs import read_runs

RunIt = Callable[..., tuple[dict[str, Any], Path]]
KINDS = ["none", "bwrap"]
SUBMIT = "cp input/sample_submission.csv submission/submission.csv"

# Asks for steps for ever; everything it is told goes to heard.jsonl.
ENDLESS = """
import json, sys
heard = open("heard.jsonl", "a")
command = sys.argv[1] if len(sys.argv) > 1 else "true"
while True:
    print(json.dumps({"run": command, "tokens": 10}), flush=True)
    heard.write(sys.stdin.readline()); heard.flush()
"""


def steps_agent(tmp_path: Path, text: str = ENDLESS, *arguments: str) -> str:
    script = tmp_path / "agent.py"
    script.write_text(text)
    return " ".join([f"{sys.executable} {script}", *(f"'{a}'" for a in arguments)])


def heard(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "workspace" / "heard.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def running(marker: str) -> list[int]:
    found = subprocess.run(["pgrep", "-f", marker], capture_output=True, text=True, check=False)
    return [int(pid) for pid in found.stdout.split()]


def run_out_of_time(
    run_it: RunIt, command: str, marker: str, done: Callable[[Path], object], **options: Any
) -> tuple[dict[str, Any], Path]:
    """Run an agent that never ends, with more time until it has `done` what it does first.

    How long that takes is a matter of the machine; that its time ends it, children and all, is not.
    """
    for seconds in (1.5, 6.0, 24.0, 96.0):
        report, folder = run_it(command, seconds=seconds, **options)
        assert report["exit_cause"] == "time"
        assert not running(f"sleep {marker}")
        if done(folder):
            break
    return report, folder


def has_submitted(folder: Path) -> bool:
    return (folder / "submission.csv").exists()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "bwrap":
        request.getfixturevalue("bubblewrap")
    return str(request.param)


def test_step_agent_is_told_what_is_left_and_stopped_at_its_steps(
    kind: str, tmp_path: Path, run_it: RunIt
) -> None:
    command = steps_agent(tmp_path, ENDLESS, SUBMIT)
    report, folder = run_it(command, protocol="steps", steps=4, isolation=kind)
    told = heard(folder)
    assert [message["steps_left"] for message in told[:4]] == [3, 2, 1, 0]
    assert all(0 < message["seconds_left"] <= 600 for message in told[:4])
    assert [message["exit_code"] for message in told[:4]] == [0, 0, 0, 0]
    assert told[4] == {"stopped": "steps"}
    assert report["exit_cause"] == "steps"
    assert report["valid_submission"]
    assert report["tokens_count"] == 10


def test_step_agent_is_stopped_at_its_time_with_all_its_children(
    kind: str, tmp_path: Path, run_it: RunIt
) -> None:
    marker = f"77{os.getpid()}.5"
    # A daemon of its own session, whose parent is gone, and a command that never ends.
    command = f"(setsid nohup sleep {marker} >/dev/null 2>&1 &); {SUBMIT}; sleep {marker}"
    agent = steps_agent(tmp_path, ENDLESS, command)

    def was_told(folder: Path) -> bool:
        return has_submitted(folder) and heard(folder)[-1:] == [{"stopped": "time"}]

    report, folder = run_out_of_time(
        run_it, agent, marker, was_told, protocol="steps", isolation=kind
    )
    assert was_told(folder)
    assert report["valid_submission"]  # what it left is graded


def test_plain_agent_is_stopped_at_its_time_with_all_its_children(kind: str, run_it: RunIt) -> None:
    marker = f"78{os.getpid()}.5"
    daemons = f"for i in 1 2 3; do (setsid sleep {marker} &) ; done"
    command = f"{SUBMIT}; trap '' TERM INT HUP; {daemons}; sleep {marker}"
    report, _ = run_out_of_time(run_it, command, marker, has_submitted, isolation=kind)
    assert report["valid_submission"]


def test_children_do_not_outlive_an_agent_that_exits_or_kills_its_supervisor(
    run_it: RunIt,
) -> None:
    marker = f"79{os.getpid()}.5"
    report, _ = run_it(f"(setsid sleep {marker} &); exit 3")
    assert (report["exit_cause"], report["exit_code"]) == ("exited", 3)
    assert not running(f"sleep {marker}")
    report, _ = run_it(f"(setsid sleep {marker} &); sleep 0.2; kill -9 $PPID; sleep {marker}")
    assert report["exit_cause"] == "killed"
    assert not running(f"sleep {marker}")


def test_agent_that_never_reads_its_answers_still_ends_in_time(
    tmp_path: Path, run_it: RunIt
) -> None:
    text = 'import json\nwhile True: print(json.dumps({"run": "yes | head -c 20000"}), flush=True)'
    report, _ = run_it(steps_agent(tmp_path, text), protocol="steps", seconds=1.5, steps=100_000)
    assert report["exit_cause"] == "time"


def test_step_answers_hold_exit_code_and_clipped_output(tmp_path: Path, run_it: RunIt) -> None:
    text = """
import json, sys
heard = open("heard.jsonl", "w")
for line in ['{"run": "echo hello; exit 7"}', '{"run": "yes 0123456789 | head -c 1000000"}',
             'not json', '[1]', '{"walk": 1}', '{"run": "pwd; cat /dev/stdin"}',
             '{"run": "a\\\\u0000b"}', '{"run": "\\\\ud800"}', '{"finish": true}']:
    print(line, flush=True)
    if "finish" not in line:
        heard.write(sys.stdin.readline()); heard.flush()
import time; time.sleep(60)
"""
    report, folder = run_it(steps_agent(tmp_path, text), protocol="steps", steps=50)
    told = heard(folder)
    assert (told[0]["exit_code"], told[0]["output"], told[0]["clipped"]) == (7, "hello\n", False)
    assert told[1]["clipped"] is True
    assert "984,000 bytes clipped" in told[1]["output"]
    assert len(told[1]["output"]) < 17_000
    assert all(answer["output"].startswith("not a request") for answer in told[2:5])
    assert told[5]["output"].strip() == str(folder / "workspace")
    assert [answer["steps_left"] for answer in told] == [49, 48, 47, 46, 45, 44, 43, 42]
    assert told[6]["exit_code"] == 126  # no such command can be
    assert told[7]["output"].startswith("not a request")
    assert report["exit_cause"] == "finished"
    assert report["submission_exists"] is False


def test_steps_share_files_and_background_processes(
    kind: str, tmp_path: Path, run_it: RunIt
) -> None:
    text = """
import json, sys, time
heard = open("heard.jsonl", "w")
for command in ["echo a > /tmp/shared-$$; ls /tmp/shared-$$ > name",
                "(sleep 0.3; echo late > .late; mv .late late) & cat $(cat name); rm $(cat name)",
                "until [ -e late ]; do sleep 0.05; done; cat late"]:
    print(json.dumps({"run": command}), flush=True)
    heard.write(sys.stdin.readline()); heard.flush()
"""
    report, folder = run_it(steps_agent(tmp_path, text), protocol="steps", isolation=kind)
    assert [answer["output"] for answer in heard(folder)] == ["", "a\n", "late\n"]
    assert report["exit_cause"] == "exited"


def test_environment_tells_deadline_steps_server_and_seed(tmp_path: Path, run_it: RunIt) -> None:
    command = f"env > env.txt; {SUBMIT}; ./validate_submission.sh > reply.txt"
    began = time.time()
    _, folder = run_it(command, seconds=100)
    lines = (folder / "workspace" / "env.txt").read_text().splitlines()
    told = dict(line.split("=", 1) for line in lines if "=" in line)
    assert began + 99 < int(told["TIDEGAUGE_DEADLINE"]) <= time.time() + 100  # whole seconds
    assert told["TIDEGAUGE_STEPS"] == "500"
    assert told["TIDEGAUGE_SEED"] == "1"
    reply = (folder / "workspace" / "reply.txt").read_text()
    assert json.loads(reply) == {"result": "Submission is valid."}


def test_best_and_last_submission_are_both_kept(surge: Prepared, run_it: RunIt) -> None:
    command = (
        "python -m tidegauge.bench.agents.naive; sleep 6; "  # long enough to be seen
        "sed '2,$ s/,.*/,900/' input/sample_submission.csv > submission/submission.csv"
    )
    report, folder = run_it(command)
    assert report["valid_submissions_seen"] == 2
    assert report["score_exact"] > report["best_score"]  # lower is better here
    assert (folder / "best.csv").read_text() != (folder / "submission.csv").read_text()


def test_record_is_what_horizon_reads(surge: Prepared, tmp_path: Path, run_it: RunIt) -> None:
    run_it("python -m tidegauge.bench.agents.naive; echo '{\"tokens\": 1234}' > usage.json")
    run_it("python -m tidegauge.bench.agents.naive", success_at=900.0)
    run_it("exit 1")
    first, second, third = read_runs(tmp_path / "runs.jsonl")
    assert (first.task_family, first.human_source) == ("mlebench", "estimate")
    assert first.task_id == "mlebench/tidegauge-storm-surge"
    assert first.human_minutes == surge.competition.human_minutes
    assert first.completed_at - first.started_at > 0
    assert (first.score_binarized, second.score_binarized) == (0, 1)  # no medal; but below 9 m
    assert first.score_cont == second.score_cont
    assert first.tokens_count == 1234
    assert (third.score_cont, third.score_binarized, third.fatal_error_from) == (None, 0, "agent")


def test_impossible_options_are_refused_before_anything_runs(run_it: RunIt, tmp_path: Path) -> None:
    for options in ({"seconds": 0}, {"seconds": float("nan")}, {"seconds": 1e12}, {"steps": 0}):
        with pytest.raises(InputError):
            run_it("true", **options)
    with pytest.raises(InputError, match="quotes"):
        run_it("echo 'unclosed")
    with pytest.raises(InputError, match="no such file"):
        run_it("true", mounts=(tmp_path / "nowhere",))
    assert not (tmp_path / "runs.jsonl").exists()


def start_runner(tidegauge_arguments: list[object], tmp_path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tidegauge", "bench", *map(str, tidegauge_arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(condition: Callable[[], object], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def test_killed_runner_leaves_an_interrupted_record_at_the_next_command(
    kind: str, surge: Prepared, tmp_path: Path, tidegauge: Callable[..., Any]
) -> None:
    marker, out = f"80{os.getpid()}.5", tmp_path / "out"
    runner = start_runner(
        ["run", "surge", "--prepared", surge.public.parent, "--out", out, "--isolation", kind,
         "--agent", f"(setsid sleep {marker} &); sleep {marker}"],
        tmp_path,
    )  # fmt: skip
    wait_for(lambda: len(running(f"^sleep {marker}")) == 2)
    runner.send_signal(signal.SIGKILL)
    runner.communicate()
    wait_for(lambda: not running(f"^sleep {marker}"))  # its agent went with it
    assert (out / "runs.jsonl").read_text() == ""
    listed = tidegauge("bench", "list")
    assert "recorded as interrupted" in listed.stderr
    (record,) = read_runs(out / "runs.jsonl")
    assert record.fatal_error_from == "interrupted"
    assert record.unknown["exit_cause"] == "interrupted"
    assert record.score_binarized == 0
    assert settle_interrupted() == []  # once only
    assert "interrupted" not in tidegauge("bench", "list").stderr


def test_a_living_run_is_not_called_interrupted(surge: Prepared, tmp_path: Path) -> None:
    out = tmp_path / "out"
    runner = start_runner(
        ["run", "surge", "--prepared", surge.public.parent, "--out", out, "--isolation", "none",
         "--agent", "touch started; sleep 600; true"],
        tmp_path,
    )  # fmt: skip
    wait_for(lambda: list(out.glob("*/workspace/started")))
    assert settle_interrupted() == []
    for _ in range(8):  # and Ctrl-C ends and records it properly, however often
        runner.send_signal(signal.SIGINT)
        time.sleep(0.02)
    runner.communicate(timeout=120)
    assert runner.returncode == 130
    (record,) = read_runs(out / "runs.jsonl")
    assert record.fatal_error_from == "interrupted"
    assert settle_interrupted() == []


def test_kill_between_record_and_cleanup_leaves_one_record(
    surge: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = RunOptions(command="true", alias="a", isolation="none", limits=Limits(0.01, 1))
    monkeypatch.setattr(RunState, "forget", lambda _: None)
    run_agent(surge, tmp_path / "out", tmp_path / "runs.jsonl", options)
    monkeypatch.undo()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (state,) = tmp_path.glob("state/tidegauge/running/*.jsonl")
    assert settle_interrupted() == []
    (record,) = read_runs(tmp_path / "runs.jsonl")
    assert record.unknown["exit_cause"] == "exited"
    assert not state.exists()
