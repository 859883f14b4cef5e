"""Limits are kept by a control group where one can be made, and by single processes elsewhere."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegauge.bench.run import resources as module
from tidegauge.bench.run.isolation import Isolation
from tidegauge.bench.run.options import Resources
from tidegauge.bench.run.resources import (
    ControlGroup,
    control_group,
    limits_in_force,
    process_limits,
)

RunIt = Callable[..., tuple[dict[str, Any], Path]]
ALL = Resources(memory_gib=2, cpus=1, processes=64)


def made_hierarchy(folder: Path, *, offered: str, delegated: str = "") -> Path:
    """A folder with the files that the kernel shows in a group of version 2."""
    group = folder / "user.slice" / "me.scope"
    group.mkdir(parents=True)
    for place in (group, group.parent):
        (place / "cgroup.controllers").write_text(offered)
        (place / "cgroup.subtree_control").write_text(delegated)
    return folder


@pytest.fixture(autouse=True)
def plain_folders_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The kernel removes a group with its files; a folder with files in it stays."""
    remove = module._remove_group

    def unless_made(group: ControlGroup) -> None:
        if group.folder is None or not group.folder.is_relative_to(tmp_path):
            remove(group)

    monkeypatch.setattr(module, "_remove_group", unless_made)


def test_every_limit_is_set_for_the_run_where_all_controllers_are_there(tmp_path: Path) -> None:
    hierarchy = made_hierarchy(tmp_path, offered="cpu memory pids")
    own = hierarchy / "user.slice" / "me.scope"
    with control_group(ALL, hierarchy=hierarchy, own="/user.slice/me.scope") as group:
        assert group.folder is not None
        assert group.folder.parent == own
        assert (own / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
        read = {name: (group.folder / name).read_text() for name in group.limits}
        assert read == {
            "memory.max": str(2 * 2**30),
            "memory.swap.max": "0",
            "cpu.max": "100000 100000",
            "pids.max": "64",
        }
        assert process_limits(ALL, Isolation("bwrap"), group)["RLIMIT_AS"] is None
        assert process_limits(ALL, Isolation("bwrap"), group)["RLIMIT_NPROC"] is None
        (group.folder / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
        assert group.memory_kills() == 2
        said = limits_in_force(ALL, Isolation("none"), group)
    assert (group.folder / "cgroup.procs").read_text() == "0\n"  # tried before the agent
    assert (group.folder / "cgroup.kill").read_text() == "1"
    assert {said[name].split(" of ")[-1] for name in ("memory", "cpus", "processes")} == {
        "the run, by its control group"
    }


def test_what_no_controller_limits_is_limited_for_each_process(tmp_path: Path) -> None:
    hierarchy = made_hierarchy(tmp_path, offered="pids", delegated="pids")
    with control_group(ALL, hierarchy=hierarchy, own="/user.slice/me.scope") as group:
        assert dict(group.limits) == {"pids.max": "64"}
        assert process_limits(ALL, Isolation("user"), group)["RLIMIT_AS"] == 2 * 2**30
        said = limits_in_force(ALL, Isolation("user"), group)
    assert said["memory"] == "2 GiB of each process, by prlimit"
    assert said["processes"] == "64 of the run, by its control group"
    assert group.memory_kills() is None


@pytest.mark.parametrize("offered", ["", "hugetlb"])
def test_without_controllers_there_is_no_group(tmp_path: Path, offered: str) -> None:
    hierarchy = made_hierarchy(tmp_path, offered=offered)
    with control_group(ALL, hierarchy=hierarchy, own="/user.slice/me.scope") as group:
        assert group == ControlGroup()
        assert group.entered_by(["true"]) == ["true"]
    none = limits_in_force(ALL, Isolation("none"), group)
    assert none["processes"] == "not limited"
    assert process_limits(ALL, Isolation("none"), group)["RLIMIT_NPROC"] is None
    assert process_limits(ALL, Isolation("bwrap"), group)["RLIMIT_NPROC"] == 64


def test_a_group_that_cannot_be_entered_is_not_used(tmp_path: Path) -> None:
    hierarchy = made_hierarchy(tmp_path, offered="pids", delegated="pids")
    made = Path.mkdir

    def closed(self: Path, *arguments: Any, **more: Any) -> None:
        made(self, *arguments, **more)
        made(self / "cgroup.procs")  # a folder: nothing can be written to it

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "mkdir", closed)
        with control_group(ALL, hierarchy=hierarchy, own="/user.slice/me.scope") as group:
            assert group == ControlGroup()


@pytest.fixture
def real_group() -> Iterator[ControlGroup]:
    """A group of the kernel's own, even where no controller can be used in it."""
    hierarchy, own = module._mounted_hierarchy(), module._own_group()
    if hierarchy is None or own is None:
        pytest.skip("no control groups of version 2 here")
    folder = hierarchy / own.lstrip("/") / "tidegauge-test"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"may make no control group here: {error}")
    try:
        yield ControlGroup(folder)
    finally:
        folder.rmdir()


def test_a_real_group_ends_with_all_its_processes(real_group: ControlGroup) -> None:
    assert real_group.folder is not None
    script = "(setsid sleep 600 &); (env -i setsid sleep 600 &); echo; exec sleep 600"
    command = real_group.entered_by(["sh", "-c", script])
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert len((real_group.folder / "cgroup.procs").read_text().split()) == 3
        real_group.kill()
        assert process.wait(10) == -9
        while (real_group.folder / "cgroup.procs").read_text():  # the kernel reaps
            pass


def test_the_limit_of_memory_is_the_runs_where_a_group_can_be_made(run_it: RunIt) -> None:
    with control_group(ALL) as group:
        if "memory.max" not in group.limits:
            pytest.skip("no control group with memory can be made here")
    half = "python3 -c 'x = bytes(300 << 20); import time; time.sleep(3)'"
    report, _ = run_it(f"{half} & {half} & wait", resources=Resources(memory_gib=0.5))
    assert report["processes_ended_for_memory"] >= 1


def test_what_is_in_force_is_in_the_report(run_it: RunIt) -> None:
    report, _ = run_it("true", resources=Resources(memory_gib=2, cpus=1))
    assert report["limits_in_force"].keys() == {"cpus", "disk", "memory", "processes"}
    assert report["limits_in_force"]["memory"].startswith("2 GiB of ")
