"""Ways to read the private answers from inside a run; under bubblewrap none may work."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidegauge.bench.competition_folder import Prepared
from tidegauge.bench.competitions import surge as surge_data
from tidegauge.bench.competitions.registry import get_competition
from tidegauge.bench.preparation import prepare_competition, simulate_and_prepare
from tidegauge.bench.run.isolation import (
    Isolation,
    agent_environment,
    choose_isolation,
    namespaces_work,
)
from tidegauge.bench.run.options import Limits, RunOptions
from tidegauge.bench.run.runner import run_agent
from tidegauge.errors import InputError
from tidegauge.progress import SILENT

RunIt = Callable[..., tuple[dict[str, Any], Path]]

# {private} is the answers' folder. Each command prints whatever it can get hold of.
WAYS = {
    "absolute path": "cat {private}/test.csv",
    "symbolic link to the file": "ln -s {private}/test.csv x; cat x",
    "symbolic link to the folder": "ln -s {private} y; cat y/test.csv",
    "hard link": "ln {private}/test.csv z; cat z",
    "copy with another program": "cp -r {private} c; cat c/test.csv; tar cO {private}",
    "proc roots and working folders": (
        "cat /proc/*/root{private}/test.csv /proc/*/cwd/../../../*/private/test.csv"
    ),
    "open descriptors": "cat /proc/*/fd/* < /dev/null & sleep 1; kill %1",
    "environment of all processes": "cat /proc/*/environ | tr '\\0' '\\n'; env",
    "command lines of all processes": "cat /proc/*/cmdline | tr '\\0' '\\n'",
    "parent folders": "cat ../*/test.csv ../../*/test.csv ../../../*/*/test.csv {private}/../*/*",
    "a search of the whole file system": (
        "find / -path /proc -prune -o -path /usr -prune -o -name test.csv "
        "-not -path '*/input/*' -exec cat {{}} + "
    ),
    "the validation server": (
        "for p in /private/test.csv /../private/test.csv {private}/test.csv /static/test.csv; do "
        'curl -s --path-as-is "$SERVER_URL$p"; done; '
        'curl -s -F "file=@input/sample_submission.csv;filename={private}/test.csv" '
        '"$SERVER_URL/validate"; curl -s -F "file={private}/test.csv" "$SERVER_URL/validate"'
    ),
    "new namespaces and mounts": (
        "unshare -rm cat {private}/test.csv; umount {private}; mount --bind {private} submission; "
        "unshare -rmp --fork --mount-proc cat /proc/1/root{private}/test.csv; chroot /proc/1/root "
        "cat {private}/test.csv"
    ),
    "the raw data": "cat {private}/*.txt; cat $(cat {private}/source.txt)/*",
    "memory of other processes": (
        "for p in /proc/[0-9]*; do dd if=$p/mem bs=1 count=1 2> /dev/null && echo read $p; "
        "cat $p/maps 2> /dev/null | grep -a private; done"
    ),
    "ptrace of everything": (
        'python3 -c \'import ctypes,os; l=ctypes.CDLL(None); print([p for p in os.listdir("/proc") '
        "if p.isdigit() and int(p) not in (os.getpid(), os.getppid()) "
        "and l.ptrace(16, int(p), 0, 0) == 0])' > /dev/null; cat /proc/1/root{private}/test.csv"
    ),
    "a device of one's own": "mknod d b 8 0; cat d | head -c 1000; mknod e b 254 0; cat e",
    "the operator's home": "cat ~/../*/.ssh/* /root*/.ssh/* /home/*/.ssh/*; ls -la /root /home",
    "handles of files": (
        "python3 -c 'import ctypes; l=ctypes.CDLL(None); h=bytes(128); "
        "print(l.open_by_handle_at(-100, h, 0))'; cat {private}/test.csv"
    ),
    "the disk itself": "ls /dev; cat /dev/[hsv]d* /dev/nvme* | head -c 100000000 | grep -a s00h",
}


def secrets(prepared: Prepared) -> list[str]:
    """Pieces of the answers, long enough not to occur by chance."""
    rows = (prepared.private / "test.csv").read_text().splitlines()[1:]
    return [row for row in rows[:: len(rows) // 20] if row.count(",,") == 0]


def everything_in(folder: Path) -> str:
    """All that the agent printed, and every file it left outside input/."""
    texts = [path.read_text(errors="replace") for path in folder.glob("agent.*.txt")]
    for path in (folder / "workspace").rglob("*"):
        if path.is_file() and not path.is_symlink() and "input" not in path.parts:
            texts.append(path.read_text(errors="replace"))
    return "\n".join(texts)


@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.parametrize("way", WAYS)
def test_no_way_to_the_answers_works_under_bubblewrap(
    way: str, surge: Prepared, run_it: RunIt
) -> None:
    _, folder = run_it(WAYS[way].format(private=surge.private), isolation="bwrap")
    found = everything_in(folder)
    assert not [secret for secret in secrets(surge) if secret in found]


@pytest.mark.usefixtures("bubblewrap")
def test_a_sandbox_reaches_no_other_run_and_forges_no_record(
    surge: Prepared, run_it: RunIt, tmp_path: Path
) -> None:
    _, first = run_it("echo mine > kept", isolation="bwrap")
    # Files that a command names by their whole path would be shown to it.
    others = f"d={tmp_path}; for f in $d/out/{first.name} $d/runs.jsonl $d/state"
    command = f"{others}; do ls -R $f; cat $f; echo x >> $f; touch $f/x; done; echo end"
    report, folder = run_it(command, isolation="bwrap")
    assert (folder / "agent.stdout.txt").read_text() == "end\n"
    assert sorted(path.name for path in first.iterdir()) == [
        "agent.stderr.txt", "agent.stdout.txt", "report.json", "transcript.jsonl", "workspace"
    ]  # fmt: skip
    assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == 2
    assert report["exit_cause"] == "exited"


@pytest.mark.usefixtures("bubblewrap")
def test_nothing_visible_names_the_private_folder(surge: Prepared, run_it: RunIt) -> None:
    command = (
        "env; cat /proc/*/environ /proc/*/cmdline; cat instructions.txt *.sh; ls -lR /tmp /run"
    )
    _, folder = run_it(command, isolation="bwrap")
    said = (folder / "agent.stdout.txt").read_text()
    assert "SERVER_URL" in said
    assert str(surge.private.parent) not in said


@pytest.mark.parametrize("way", ["absolute path", "symbolic link to the file", "hard link"])
def test_the_same_ways_do_work_without_isolation(way: str, surge: Prepared, run_it: RunIt) -> None:
    """Otherwise the test above could not fail."""
    _, folder = run_it(WAYS[way].format(private=surge.private), isolation="none")
    found = everything_in(folder)
    assert [secret for secret in secrets(surge) if secret in found]


LED_ASTRAY = {
    "submission is a link to the answers": "ln -s {private}/test.csv submission/submission.csv",
    "submission folder is a link to the answers": (
        "rmdir submission; mkdir -p {private}; ln -s {private} submission"
    ),
    "submission is another name of the answers": "ln {private}/test.csv submission/submission.csv",
    "submission is a pipe": "mkfifo submission/submission.csv",
    "submission is a folder": "mkdir submission/submission.csv",
}


@pytest.mark.parametrize("trick", LED_ASTRAY)
def test_the_grader_is_not_led_to_the_answers(trick: str, surge: Prepared, run_it: RunIt) -> None:
    """Without isolation, so that the trick itself succeeds; the grader must still refuse."""
    report, folder = run_it(LED_ASTRAY[trick].format(private=surge.private))
    assert report["exit_code"] == 0
    assert report["submission_exists"] is False
    assert report["score"] is None
    assert not (folder / "submission.csv").exists()


@pytest.mark.usefixtures("bubblewrap")
def test_answers_inside_a_mounted_folder_are_hidden(tmp_path: Path, run_it: RunIt) -> None:
    prepared = simulate_and_prepare(get_competition("surge"), tmp_path / "home" / "data", seed=4)
    (tmp_path / "home" / "tool.txt").write_text("visible tool")
    command = f"cat {tmp_path}/home/tool.txt {prepared.private}/test.csv; ls {prepared.private}"
    _, folder = run_it(command, prepared=prepared, isolation="bwrap", mounts=(tmp_path / "home",))
    found = everything_in(folder)
    assert "visible tool" in found
    assert not [secret for secret in secrets(prepared) if secret in found]


@pytest.mark.usefixtures("bubblewrap")
def test_sandbox_has_no_network_but_the_validator(run_it: RunIt) -> None:
    outside = socket.create_server(("127.0.0.1", 0))
    port = outside.getsockname()[1]
    command = (
        "cp input/sample_submission.csv submission/submission.csv; ./validate_submission.sh; "
        "curl -s http://127.0.0.1:5000/health; "
        f"curl -s -m 3 http://127.0.0.1:{port}/; echo code $?; cat /proc/net/dev"
    )
    report, folder = run_it(command, isolation="bwrap")
    outside.close()
    said = (folder / "agent.stdout.txt").read_text()
    assert '{"result":"Submission is valid."}' in said
    assert '{"status":"running"}' in said
    assert "code 7" in said  # could not connect: the host's loopback is another one
    assert "eth0" not in said
    assert report["valid_submission"]


@pytest.mark.usefixtures("bubblewrap")
def test_system_and_input_are_read_only_in_the_sandbox(run_it: RunIt) -> None:
    command = (
        "for f in /usr/x /x /etc/x input/x input/train.csv; do "
        "echo changed > $f && echo wrote $f; done; echo ok > /tmp/x && echo ok > mine && echo done"
    )
    _, folder = run_it(command, isolation="bwrap")
    said = (folder / "agent.stdout.txt").read_text()
    assert "wrote" not in said
    assert "done" in said


@pytest.mark.usefixtures("bubblewrap")
def test_agents_files_named_in_the_command_are_visible(tmp_path: Path, run_it: RunIt) -> None:
    script = tmp_path / "my agent.py"
    script.write_text("import tidegauge, numpy; print('agent ran', tidegauge.__version__)")
    _, folder = run_it(f"python '{script}'", isolation="bwrap")
    assert "agent ran" in (folder / "agent.stdout.txt").read_text()


def test_private_files_cannot_be_mounted(surge: Prepared, run_it: RunIt) -> None:
    with pytest.raises(InputError, match="private"):
        run_it(f"cat {surge.private}/test.csv", mounts=(surge.private / "test.csv",))


@pytest.mark.parametrize("kind", ["none", "user", "bwrap"])
def test_environment_names_no_private_path(
    kind: str, surge: Prepared, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ANSWERS", str(surge.private / "test.csv"))
    monkeypatch.setenv("API_KEY", "k")
    kept = agent_environment(
        Isolation(kind),
        workspace=tmp_path,
        private=surge.private,
        extra={"A": "1"},
        passed=["API_KEY"],
    )
    assert not [name for name, value in kept.items() if str(surge.private) in value]
    assert kept["API_KEY"] == "k"
    assert kept["A"] == "1"


def test_isolation_that_cannot_be_had_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegauge.bench.run.isolation.bubblewrap_works", lambda: False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for wanted in ("auto", "bwrap", "user"):
        with pytest.raises(InputError):
            choose_isolation(wanted)
    assert choose_isolation("none") == "none"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert choose_isolation("auto") == "user"


def test_private_folder_is_its_owners_alone(osic: Prepared) -> None:
    assert osic.private.stat().st_mode & 0o777 == 0o700
    assert (osic.private / "test.csv").stat().st_mode & 0o777 == 0o600


ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own are closed."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        os.chmod(name, 0o755)
        yield Path(name)


def run_as_user(command: str, prepared: Prepared, place: Path) -> tuple[dict[str, Any], Path]:
    limits = Limits(hours=10 / 3600)
    options = RunOptions(command=command, alias="u", isolation="user", limits=limits)
    try:
        report = run_agent(prepared, place / "out", place / "runs.jsonl", options)
    except InputError as error:
        if "could not be started" in str(error):
            pytest.skip(str(error))  # the source tree itself is closed to other users
        raise
    (folder,) = (place / "out").glob(f"*-{report['run_id'][:8]}")
    return report, folder


@pytest.fixture(params=[True, False], ids=["namespaces", "none"])
def with_namespaces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Root of the machine may make namespaces, root of many containers may not."""
    if request.param and not namespaces_work():
        pytest.skip("this root may make no namespaces")
    if not request.param:
        monkeypatch.setattr("tidegauge.bench.run.isolation.namespaces_work", lambda: False)
    return bool(request.param)


@ROOT_ONLY
def test_separate_user_reads_no_answers_and_ends_with_its_tree(
    open_folder: Path, with_namespaces: bool
) -> None:
    prepared = simulate_and_prepare(get_competition("surge"), open_folder / "data", seed=4)
    marker = f"81{os.getpid()}.5"
    command = (
        f"id -u; cat {prepared.private}/test.csv; ln {prepared.private}/test.csv x; "
        "cp input/sample_submission.csv submission/submission.csv; ./validate_submission.sh; "
        f"(env -i setsid sleep {marker} &); exit 0"
    )
    report, folder = run_as_user(command, prepared, open_folder)
    found = everything_in(folder)
    assert int((folder / "agent.stdout.txt").read_text().split()[0]) > 1000
    assert '{"result":"Submission is valid."}' in found
    assert not [secret for secret in secrets(prepared) if secret in found]
    assert (report["exit_cause"], report["valid_submission"]) == ("exited", True)
    left = subprocess.run(["pgrep", "-f", f"^sleep {marker}"], capture_output=True, check=False)
    assert left.stdout == b""
    assert (report["network"] == "the host's") != with_namespaces


@pytest.fixture(scope="module")
def open_surge() -> Iterator[Prepared]:
    """A competition prepared where every user may enter, raw data beside it."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        os.chmod(name, 0o755)
        surge_data.simulate(Path(name, "raw"), 5, False, SILENT)
        yield prepare_competition("surge", Path(name, "raw"), Path(name, "data"))


@ROOT_ONLY
@pytest.mark.parametrize("way", WAYS)
def test_no_way_to_the_answers_works_as_a_separate_user_with_namespaces(
    way: str, open_surge: Prepared, open_folder: Path
) -> None:
    if not namespaces_work():
        pytest.skip("this root may make no namespaces")
    command = WAYS[way].format(private=open_surge.private)
    _, folder = run_as_user(command, open_surge, open_folder)
    found = everything_in(folder)
    assert not [secret for secret in secrets(open_surge) if secret in found]


@ROOT_ONLY
def test_every_run_has_a_user_of_its_own_and_cannot_touch_another_run(
    open_folder: Path, with_namespaces: bool
) -> None:
    prepared = simulate_and_prepare(get_competition("surge"), open_folder / "data", seed=4)
    _, folder = run_as_user("id -u > id; chmod -R 777 .", prepared, open_folder)
    other = folder / "workspace"
    command = f"id -u > id; echo forged > {other}/submission/submission.csv; cat {other}/id"
    _, second = run_as_user(command, prepared, open_folder)
    assert (other / "id").read_text() != (second / "workspace" / "id").read_text()
    assert not (other / "submission" / "submission.csv").exists()
    assert (other / "id").stat().st_uid == 0  # taken back when the run had ended


@ROOT_ONLY
def test_raw_data_is_covered_or_the_run_refused(open_folder: Path, with_namespaces: bool) -> None:
    raw = open_folder / "raw"
    surge_data.simulate(raw, 5, False, SILENT)
    prepared = prepare_competition(get_competition("surge"), raw, open_folder / "data")
    assert prepared.source == raw
    if with_namespaces:
        _, folder = run_as_user(f"ls {raw}; cat {raw}/storms.csv", prepared, open_folder)
        assert not [secret for secret in secrets(prepared) if secret in everything_in(folder)]
        assert "s00h00" not in everything_in(folder)
    else:
        with pytest.raises(InputError, match="other users may read it"):
            run_as_user("true", prepared, open_folder)
        raw.chmod(0o700)
        run_as_user("true", prepared, open_folder)


@ROOT_ONLY
def test_folder_closed_to_the_separate_user_is_refused_and_leaves_no_run(
    tmp_path: Path, run_it: RunIt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegauge.bench.run.isolation.namespaces_work", lambda: False)
    tmp_path.chmod(0o700)
    with pytest.raises(InputError, match="could not be started"):
        run_it("true", isolation="user")
    assert not list((tmp_path / "out").iterdir())
    assert (tmp_path / "runs.jsonl").read_text() == ""


def test_staging_of_a_preparation_is_its_owners_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    simulated = get_competition("surge")

    def look(raw: Path, public: Path, private: Path) -> None:
        seen.append(public.parent.stat().st_mode & 0o777)
        simulated.prepare(raw, public, private)

    simulate_and_prepare(replace(simulated, prepare=look), tmp_path, seed=1)
    assert seen == [0o700]
