"""horizon and fvc do without what only Unix has; bench says that it needs Linux."""

from __future__ import annotations

import errno
import math
import multiprocessing
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from tidegauge import system
from tidegauge.bench.run.isolation import choose_isolation
from tidegauge.engine.parallel import parallel_map
from tidegauge.errors import InputError
from tidegauge.io import append_line, atomic_folder, finish_commit

SOURCE = Path(__file__).parents[2] / "src" / "tidegauge"
# Python as it is on a system without Unix's modules and calls.
WITHOUT_UNIX = """
import importlib.abc, os, signal, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in {"fcntl", "pwd", "grp", "resource", "termios", "pty", "tty"}:
            raise ImportError(f"No module named {name!r} on this system")

sys.meta_path.insert(0, Absent())
for name in ("fcntl", "pwd", "grp", "resource", "termios", "pty", "tty"):
    sys.modules.pop(name, None)
for name in ("sched_getaffinity", "fork", "forkpty", "geteuid", "killpg", "O_NOFOLLOW"):
    delattr(os, name)
for name in ("setitimer", "SIGALRM"):
    delattr(signal, name)
"""


def without_unix(code: str, folder: Path) -> str:
    program = [sys.executable, "-c", WITHOUT_UNIX + code]
    done = subprocess.run(program, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_every_module_imports_without_unix(tmp_path: Path) -> None:
    modules = [
        ".".join(("tidegauge", *path.relative_to(SOURCE).with_suffix("").parts))
        for path in sorted(SOURCE.rglob("*.py"))
        if path.name not in ("__main__.py", "inspect_tasks.py")  # the program, and an extra
    ]
    without_unix(
        f"import importlib\nfor name in {modules}: importlib.import_module(name)", tmp_path
    )


def test_horizon_and_fvc_run_without_unix(tmp_path: Path) -> None:
    commands = [
        "horizon simulate --out simulated --agents 3 --tasks 20",
        "horizon fit simulated/runs.jsonl --method frequentist --replicates 20 --out fit",
        "fvc simulate --patients 30 --out cohort",
        "fvc solve --input cohort --output submission.csv --time-limit 5s --workers 1",
    ]
    code = "from tidegauge.cli.main import cli\n" + "".join(
        f"assert not cli.main({command.split()}, standalone_mode=False)\n" for command in commands
    )
    without_unix(code, tmp_path)
    assert (tmp_path / "fit" / "horizons.csv").exists()
    assert (tmp_path / "submission.csv").exists()


def test_only_bench_needs_the_process_table() -> None:
    reading = {
        path.relative_to(SOURCE).parts[0]
        for path in SOURCE.rglob("*.py")
        if '"/proc' in path.read_text(encoding="utf-8")
    }
    assert reading == {"bench", "system.py"}  # which does without where there is none


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_running_agents_needs_linux(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(InputError, match=f"needs Linux .* this is {platform}"):
        choose_isolation("none")


def test_workers_are_spawned_where_there_is_no_fork_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    assert parallel_map(math.factorial, [3, 4, 5], workers=2) == [6, 24, 120]


def test_cores_are_counted_by_what_the_system_offers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "process_cpu_count", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3, 5}, raising=False)
    assert system.available_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert system.available_cores() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)  # the system does not know
    assert system.available_cores() == 1
    monkeypatch.setattr(os, "process_cpu_count", lambda: 2, raising=False)
    assert system.available_cores() == 2


class Msvcrt(types.SimpleNamespace):
    """Windows' locks as far as they are used, with one that is first held by another process."""

    LK_LOCK, LK_UNLCK = 1, 0

    def __init__(self) -> None:
        super().__init__(calls=[], busy=True)

    def locking(self, descriptor: int, mode: int, size: int) -> None:
        if mode == self.LK_LOCK and self.busy:
            self.busy = False
            raise OSError(errno.EDEADLK, "Resource deadlock avoided")
        self.calls.append((mode, os.lseek(descriptor, 0, os.SEEK_CUR), size))


def test_windows_locks_are_waited_for_held_beyond_the_data_and_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Msvcrt()
    monkeypatch.setattr(system, "fcntl", None)
    monkeypatch.setattr(system, "msvcrt", fake)
    append_line(tmp_path / "runs.jsonl", "one")
    append_line(tmp_path / "runs.jsonl", "two")
    with atomic_folder(tmp_path / "fit") as staging:
        (staging / "table.csv").write_text("a\n")
    finish_commit(tmp_path / "fit")
    assert (tmp_path / "runs.jsonl").read_text() == "one\ntwo\n"
    assert (tmp_path / "fit" / "table.csv").read_text() == "a\n"
    assert fake.calls == [(1, 2**40, 1), (0, 2**40, 1)] * 3


def test_a_process_is_alive_until_it_was_waited_for() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert system.is_alive(os.getpid())
    assert system.is_alive(child.pid)
    child.communicate(b"\n")
    assert not system.is_alive(child.pid)
    assert not system.is_alive(10**30)
