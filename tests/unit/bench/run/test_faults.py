"""What an agent, or a bad day, can do to a run: each was once possible.

docs/security.md names the test of each fault; the numbers are those of its table.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidegauge.bench.competition_folder import Prepared
from tidegauge.bench.run.isolation import Isolation, bubblewrap_arguments, make_isolation
from tidegauge.bench.run.options import Limits, Resources, RunOptions
from tidegauge.bench.run.process import AgentGoneError, AgentProcess, open_place
from tidegauge.bench.run.record import RunState, interrupted_record, settle_interrupted
from tidegauge.bench.run.runner import run_agent
from tidegauge.bench.run.workspace import MAX_COPIES, Submissions, make_workspace
from tidegauge.errors import InputError
from tidegauge.schema.runs import read_runs

RunIt = Callable[..., tuple[dict[str, Any], Path]]
SUBMIT = "cp input/sample_submission.csv submission/submission.csv"
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def said(folder: Path) -> str:
    return (folder / "agent.stdout.txt").read_text()


# 1: root's sandbox


@pytest.mark.usefixtures("bubblewrap")
def test_agent_in_a_sandbox_has_no_root_anywhere(run_it: RunIt) -> None:
    # Opening to append writes nothing.
    command = (
        "(: >> /proc/sys/kernel/core_pattern) && echo could write core_pattern; "
        "(: >> /proc/sys/vm/swappiness) && echo could write swappiness; "
        "unshare -Ur true && echo made a user namespace; "
        "cp /bin/true mine; chmod 6755 mine; id -u"
    )
    _, folder = run_it(command, isolation="bwrap")
    assert said(folder) == "65534\n"
    left = (folder / "workspace" / "mine").stat()
    assert left.st_mode & 0o7000 == 0
    assert left.st_uid == os.geteuid()


@ROOT_ONLY
@pytest.mark.usefixtures("bubblewrap")
def test_the_kernel_sees_another_user_than_root(run_it: RunIt, tmp_path: Path) -> None:
    marker = f"82{os.getpid()}.5"
    seen = tmp_path / "seen"
    watcher = subprocess.Popen(
        [
            "sh",
            "-c",
            f"until pid=$(pgrep -f '^sleep {marker}'); do sleep 0.05; done; "
            f"grep ^Uid: /proc/$pid/status > {seen}",
        ]
    )
    run_it(f"sleep {marker} & sleep 2", isolation="bwrap")
    assert watcher.wait(20) == 0
    assert "0" not in seen.read_text().split()[1:]


# 3: no oracle


def test_nothing_reads_the_answers_while_the_agent_runs(surge: Prepared, run_it: RunIt) -> None:
    read_at: list[float] = []

    def read_answers(private: Path) -> Any:
        read_at.append(time.time())
        return surge.competition.read_answers(private)

    watched = replace(surge, competition=replace(surge.competition, read_answers=read_answers))
    command = 'for i in 1 2 3; do sed "2,$ s/,.*/,$i/" input/sample_submission.csv'
    command += " > submission/submission.csv; sleep 0.7; done"
    report, folder = run_it(command, prepared=watched)
    assert report["valid_submissions_seen"] == 3
    events = [json.loads(line) for line in (folder / "transcript.jsonl").read_text().splitlines()]
    (ended,) = [event["at"] for event in events if event["event"] == "end"]
    assert min(read_at) >= ended - 0.001
    assert not (folder / "submissions").exists()
    assert folder.stat().st_mode & 0o777 == 0o700


def test_copies_of_submissions_are_bounded(surge: Prepared, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    (workspace / "submission").mkdir(parents=True)
    copies = Submissions(surge, workspace, tmp_path / "copies")
    for number in range(3 * MAX_COPIES):
        (workspace / "submission" / "submission.csv").write_text("x" * (number + 1))
        copies.look()
    assert len(list((tmp_path / "copies").iterdir())) <= MAX_COPIES
    copies.freeze()
    (workspace / "submission" / "submission.csv").write_text("too late")
    assert copies.freeze() == b"x" * 3 * MAX_COPIES
    copies.forget()
    assert not (tmp_path / "copies").exists()


# 5: the control socket

TAKE_DESCRIPTORS = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
pid = os.getppid()  # the shell; its parent is the supervisor
supervisor = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
pidfd = libc.syscall(434, supervisor, 0)
taken = [n for n in range(3, 30) if libc.syscall(438, pidfd, n, 0) >= 0]
print("pidfd", pidfd >= 0, "taken", taken)
try:
    print("listed", os.listdir(f"/proc/{supervisor}/fd"))
except OSError as error:
    print("not listed", error.errno)
"""


@pytest.mark.usefixtures("bubblewrap")
def test_agent_cannot_take_the_supervisors_descriptors(tmp_path: Path, run_it: RunIt) -> None:
    script = tmp_path / "take.py"
    script.write_text(TAKE_DESCRIPTORS)
    _, folder = run_it(f"python {script} ; true", isolation="bwrap")
    assert "pidfd True taken []" in said(folder)
    assert "not listed" in said(folder)


@pytest.fixture
def pretended() -> Iterator[tuple[AgentProcess, socket.socket]]:
    """A runner's view of an agent that has taken the supervisor's place."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(["sleep", "600"])
    try:
        yield AgentProcess(process, ours, Isolation("none"), "x=y"), theirs
    finally:
        process.kill()
        process.wait()
        ours.close()
        theirs.close()


@pytest.mark.parametrize(
    "data",
    [b"not json\n", b"[" * 100_000 + b"\n", b'{"exited": "no"}\n', b'{"exit_code": true}\n',
     b"\xff\xfe\n", b"x" * 200_000],
    ids=["text", "nested", "wrong type", "boolean", "bytes", "endless"],
)  # fmt: skip
def test_what_is_no_message_of_a_supervisor_ends_the_run_only(
    pretended: tuple[AgentProcess, socket.socket], data: bytes
) -> None:
    agent, theirs = pretended
    theirs.setblocking(False)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**20)
    theirs.send(data)
    with pytest.raises(AgentGoneError):
        agent.receive(5.0)


def test_answers_to_other_requests_are_not_taken_for_this_one(
    pretended: tuple[AgentProcess, socket.socket],
) -> None:
    agent, theirs = pretended
    for number in (7, 0, 2):
        answer = {"id": number, "exit_code": 0, "output": f"of {number}", "clipped": False}
        theirs.sendall(json.dumps(answer).encode() + b"\n")
    assert agent.run("true", 0.2) is None


# 6, 8: every path ends in a record


def test_records_that_cannot_be_written_are_noticed_before_the_agent_runs(
    surge: Prepared, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    options = RunOptions(command="true", alias="a", isolation="none")
    with pytest.raises(InputError, match="cannot write"):
        run_agent(surge, tmp_path / "out", tmp_path / "folder", options)
    assert not (tmp_path / "out").exists()


@ROOT_ONLY
@pytest.mark.parametrize("options", ["nr_inodes=400,size=64m", "size=8m"], ids=["inodes", "bytes"])
def test_a_disk_that_the_agent_filled_costs_no_record(
    options: str, surge: Prepared, tmp_path: Path
) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "x", place], check=False).returncode:
        pytest.skip("may not mount here")
    try:
        command = f"{SUBMIT}; i=0; while head -c 20000 /dev/zero > f$i; do i=$((i+1)); done; true"
        chosen = RunOptions(command=command, alias="a", isolation="none", limits=Limits(0.005))
        report = run_agent(surge, place / "out", place / "runs.jsonl", chosen)
        (record,) = read_runs(place / "runs.jsonl")
        assert report["valid_submission"]
        assert record.score_cont == report["score"]
        assert (Path(report["submission_path"]).parent / "report.json").exists()
    finally:
        subprocess.run(["umount", place], check=True)


SPOILERS = {
    "tokens nested": "python -c \"print('['*9990)\" > usage.json",
    "tokens true": "echo '{\"tokens\": true}' > usage.json",
    "tokens absurd": "echo '{\"tokens\": 1e400}' > usage.json",
    "tokens a link": "ln -s /etc/passwd usage.json",
    "tokens a pipe": "mkfifo usage.json",
    "deep folders": ("python -c \"import os\nfor i in range(3000): os.mkdir('d'); os.chdir('d')\""),
    "submission of half a header": "printf 'row_id' > submission/submission.csv",
    "submission with blank lines": (
        "(echo; cat input/sample_submission.csv) > submission/submission.csv"
    ),
}


@pytest.mark.parametrize("way", SPOILERS)
def test_what_an_agent_leaves_cannot_cost_its_record(
    way: str, run_it: RunIt, tmp_path: Path
) -> None:
    try:
        report, _ = run_it(SPOILERS[way])
    finally:
        subprocess.run(["rm", "-rf", tmp_path / "out"], check=True)  # deeper than pytest removes
    (record,) = read_runs(tmp_path / "runs.jsonl")
    assert (report["exit_cause"], report["error"]) == ("exited", "")
    assert record.tokens_count is None
    assert record.fatal_error_from is None


def test_deeply_nested_step_message_is_no_request(tmp_path: Path, run_it: RunIt) -> None:
    script = tmp_path / "agent.py"
    script.write_text(
        "import sys\n"
        "for n in (980, 100_000):\n"
        "    print('{\"run\": ' * n + '1' + '}' * n, flush=True); sys.stdin.readline()\n"
        "print('{\"finish\": true}', flush=True)\n"
    )
    report, _ = run_it(f"{sys.executable} {script}", protocol="steps")
    assert report["exit_cause"] == "finished"


def test_a_fault_of_the_grader_is_recorded_as_the_runners(
    surge: Prepared, run_it: RunIt, tmp_path: Path
) -> None:
    def score(truth: Any, predicted: Any) -> float:
        raise ZeroDivisionError("ours")

    broken = replace(surge, competition=replace(surge.competition, score=score))
    report, folder = run_it(SUBMIT, prepared=broken)
    assert "ZeroDivisionError: ours" in report["error"]
    (record,) = read_runs(tmp_path / "runs.jsonl")
    assert (record.fatal_error_from, record.score_binarized) == ("runner", 0)
    assert json.loads((folder / "report.json").read_text())["score"] is None
    run_it(SUBMIT)  # the next one is a run as any other
    assert len(list(read_runs(tmp_path / "runs.jsonl"))) == 2


def test_a_fault_while_the_agent_runs_is_recorded_and_ends_its_tree(
    run_it: RunIt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(self: Submissions) -> None:
        raise MemoryError

    monkeypatch.setattr(Submissions, "look", look)
    marker = f"83{os.getpid()}.5"
    report, _ = run_it(f"{SUBMIT}; (setsid sleep {marker} &); sleep {marker}")
    assert (report["exit_cause"], report["valid_submission"]) == ("failed", True)
    (record,) = read_runs(tmp_path / "runs.jsonl")
    assert (record.fatal_error_from, record.score_binarized) == ("runner", 0)
    assert not subprocess.run(["pgrep", "-f", f"sleep {marker}"], capture_output=True).stdout


def test_interrupt_while_grading_comes_after_the_record(
    surge: Prepared, run_it: RunIt, tmp_path: Path
) -> None:
    def read_answers(private: Path) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return surge.competition.read_answers(private)

    watched = replace(surge, competition=replace(surge.competition, read_answers=read_answers))
    with pytest.raises(KeyboardInterrupt):
        run_it(SUBMIT, prepared=watched)
    (record,) = read_runs(tmp_path / "runs.jsonl")
    assert record.unknown["exit_cause"] == "exited"
    assert record.score_cont is not None
    assert settle_interrupted() == []


# 9: processes that leave the tree


def test_a_process_without_environment_session_or_supervisor_is_ended_too(run_it: RunIt) -> None:
    marker = f"84{os.getpid()}.5"
    daemon = f"(env -i setsid sleep {marker} &)"
    report, _ = run_it(f"{daemon}; sleep 0.5; kill -9 $PPID; sleep 5")
    assert report["exit_cause"] == "killed"
    assert not subprocess.run(["pgrep", "-f", f"sleep {marker}"], capture_output=True).stdout


# 12: the time


def test_the_deadline_holds_while_the_runner_is_busy(
    run_it: RunIt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Submissions, "look", lambda self: time.sleep(6))
    command = (
        "while true; do date +%s.%N > beat; cat input/sample_submission.csv beat "
        "> submission/submission.csv; sleep 0.02; done"
    )
    report, folder = run_it(command, seconds=1.0)
    assert report["exit_cause"] == "time"
    began = report["started_at"] / 1000
    beat = (folder / "workspace" / "beat").read_text() or (folder / "submission.csv").read_text()
    assert float(beat.split()[-1]) < began + 3.0  # the runner looked away for six seconds


def test_what_is_written_after_the_last_step_is_not_graded(tmp_path: Path, run_it: RunIt) -> None:
    script = tmp_path / "agent.py"
    script.write_text(
        "import json, sys, shutil\n"
        "print(json.dumps({'run': 'true'}), flush=True)\n"
        "while 'stopped' not in sys.stdin.readline(): pass\n"
        "shutil.copyfile('input/sample_submission.csv', 'submission/submission.csv')\n"
        "import time; time.sleep(60)\n"
    )
    report, folder = run_it(f"{sys.executable} {script}", protocol="steps", steps=1)
    assert report["exit_cause"] == "steps"
    assert (folder / "workspace" / "submission" / "submission.csv").exists()
    assert report["submission_exists"] is False


# 13, 14: only our own state is believed, and recorded once


def test_state_in_run_folders_is_not_believed(surge: Prepared, tmp_path: Path) -> None:
    victim, out = tmp_path / "victim.txt", tmp_path / "out"
    options = RunOptions(command="true", alias="forged")
    record = interrupted_record(surge, options, "0" * 32, 1)
    forged = {"pid": 1, "pid_started": -1, "runs": str(victim),
              "record": {"run_id": record.run_id}}  # fmt: skip
    (out / "a").mkdir(parents=True)
    (out / "a" / "state.json").write_text(json.dumps(forged))
    (out / "b").mkdir()
    os.mkfifo(out / "b" / "state.json")
    running = tmp_path / "state" / "tidegauge" / "running"
    running.mkdir(parents=True)
    os.mkfifo(running / "pipe.jsonl")
    (running / "text.jsonl").write_text("no state\n")
    (running / "link.jsonl").symlink_to(out / "a" / "state.json")
    assert settle_interrupted() == []
    assert not victim.exists()


def test_a_living_run_is_known_by_its_lock_and_recorded_once(
    surge: Prepared, tmp_path: Path
) -> None:
    runs = tmp_path / "runs.jsonl"
    record = interrupted_record(surge, RunOptions(command="true", alias="a"), "1" * 32, 1)
    state = RunState(tmp_path, runs, record)
    assert settle_interrupted() == []  # whatever its process id says in another namespace
    state.close()  # as when the runner is killed
    assert settle_interrupted() == ["1" * 32]
    assert settle_interrupted() == []
    RunState(tmp_path, runs, record).finish(record)  # and a runner that comes back adds nothing
    (found,) = read_runs(runs)
    assert found.fatal_error_from == "interrupted"


def test_a_record_that_could_not_be_appended_is_appended_later(
    surge: Prepared, tmp_path: Path
) -> None:
    runs = tmp_path / "place" / "runs.jsonl"
    record = interrupted_record(surge, RunOptions(command="true", alias="a"), "2" * 32, 1)
    state = RunState(tmp_path, runs, record)
    (tmp_path / "place").write_text("in the way")
    with pytest.raises(InputError):
        state.finish(record)
    state.close()
    assert settle_interrupted() == []  # nor does it stop the command that tries
    (tmp_path / "place").unlink()
    assert settle_interrupted() == []  # it had ended: not interrupted, only late
    assert len(list(read_runs(runs))) == 1


# 17: scans


def test_agent_without_isolation_cannot_reach_the_prepared_scans(
    surge: Prepared, tmp_path: Path
) -> None:
    public = tmp_path / "public"
    (public / "train").mkdir(parents=True)
    scan = public / "train" / "1.dcm"
    scan.write_text("original")
    (public / "sample_submission.csv").write_text("x")
    prepared = replace(surge, public=public)
    workspace = make_workspace(prepared, tmp_path / "copied")
    (workspace / "input" / "train" / "1.dcm").write_text("overwritten")
    assert scan.read_text() == "original"
    linked = make_workspace(prepared, tmp_path / "linked", link=True)
    assert (linked / "input" / "train" / "1.dcm").samefile(scan)


# 19: names


@pytest.mark.parametrize("alias", ["human", "", "a\x1b[2J", "a\ufffe"])
def test_names_that_cannot_be_recorded_are_refused(
    alias: str, surge: Prepared, tmp_path: Path
) -> None:
    options = RunOptions(command="true", alias=alias, isolation="none")
    with pytest.raises(InputError, match="alias"):
        run_agent(surge, tmp_path / "out", tmp_path / "runs.jsonl", options)


# 20: numbered commands


def test_a_command_that_timed_out_does_not_answer_for_the_next(
    surge: Prepared, tmp_path: Path
) -> None:
    workspace = make_workspace(surge, tmp_path / "workspace")
    with open_place(
        isolation=make_isolation("none"), workspace=workspace,
        environment=dict(os.environ), validator=None, logs=tmp_path,
    ) as agent:  # fmt: skip
        slow = agent.run("sleep 0.6; echo slow", 0.2)
        assert slow is None or slow.exit_code == -9  # killed, and told so in time or not
        answer = agent.run("echo quick; cat", 10.0, b"given" * 100_000)
        assert answer is not None
        assert answer.output.startswith("quick\ngiven")
        assert agent.exit_code is None


# 22: resources


@pytest.mark.parametrize("kind", ["none", "bwrap"])
def test_limits_are_in_force_and_recorded(
    kind: str, run_it: RunIt, request: pytest.FixtureRequest
) -> None:
    if kind == "bwrap":
        request.getfixturevalue("bubblewrap")
    chosen = Resources(memory_gib=2, cpus=1, disk_gib=0.5, processes=64)
    command = "ulimit -v; ulimit -f; nproc; ulimit -c; python -c 'bytearray(3 * 2**30)'"
    report, folder = run_it(f"{command}; true", isolation=kind, resources=chosen)
    blocks = 0.5 * 2**30 / 512  # of the shell
    assert said(folder).split() == [str(2 * 2**20), f"{blocks:.0f}", "1", "0"]
    assert "MemoryError" in (folder / "agent.stderr.txt").read_text()
    assert report["resource_limits"] == {
        "memory_gib": 2, "cpus": 1, "disk_gib": 0.5, "processes": 64, "gpus": False
    }  # fmt: skip


@pytest.mark.parametrize("asked", [True, False])
def test_graphics_devices_are_shown_only_when_asked_for(
    asked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegauge.bench.run.isolation._GPU_DEVICES", ("/dev/nul[l]", "/dev/no*ne"))
    options = bubblewrap_arguments(
        Isolation("bwrap"), workspace=tmp_path, validator=None, resources=Resources(gpus=asked)
    )
    assert ("--dev-bind /dev/null /dev/null" in " ".join(options)) == asked


@pytest.mark.usefixtures("bubblewrap")
def test_a_fork_bomb_ends_at_the_limit_of_processes(run_it: RunIt) -> None:
    command = (
        "i=0; while [ $i -lt 300 ]; do sleep 20 & i=$((i+1)); done 2> errors; "
        "ls -d /proc/[0-9]* | wc -l"
    )
    _, folder = run_it(command, isolation="bwrap", resources=Resources(processes=50), seconds=30)
    assert "fork" in (folder / "workspace" / "errors").read_text().lower()


def test_a_workspace_that_outgrows_its_disk_limit_is_stopped(run_it: RunIt) -> None:
    command = f"{SUBMIT}; for i in 1 2 3 4; do head -c 8000000 /dev/urandom > f$i; done; sleep 15"
    report, _ = run_it(command, resources=Resources(disk_gib=0.02))
    assert (report["exit_cause"], report["valid_submission"]) == ("disk", True)
