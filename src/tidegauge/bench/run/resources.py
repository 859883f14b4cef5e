"""What an agent may use of the machine: limits put in force, and the disk watched.

A control group (version 2) holds for the run as a whole, where this user may make one. Elsewhere
the system's limits of single processes must do, which the supervisor sets for itself and for all
that it starts.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidegauge.bench.run.isolation import Isolation, walk
from tidegauge.bench.run.options import Resources

_WATCH_SECONDS = 2.0
_FREE_BYTES = 2**28  # of the disk that runs are on: below it no agent may write on
_CPU_PERIOD_MICROSECONDS = 100_000


@dataclass(frozen=True)
class ControlGroup:
    """A control group of one run; without a folder there is none.

    Attributes
    ----------
    limits : mapping
        What is limited, by the group's file, such as ``memory.max``.
    """

    folder: Path | None = None
    limits: Mapping[str, str] = field(default_factory=dict)

    def entered_by(self, command: list[str]) -> list[str]:
        """Return a command that joins the group and then becomes `command`."""
        if self.folder is None:
            return command
        return [
            "/bin/sh",
            "-c",
            'echo 0 > "$0" && exec "$@"',
            f"{self.folder}/cgroup.procs",
            *command,
        ]

    def kill(self) -> None:
        """End all processes of the group at once, however often they fork."""
        if self.folder is not None:
            with contextlib.suppress(OSError):
                (self.folder / "cgroup.kill").write_text("1")

    def memory_kills(self) -> int | None:
        """Return how many processes were ended for want of memory; None if nobody counts."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            lines = Path(self.folder or "", "memory.events").read_text().splitlines()
            return int(dict(line.split() for line in lines)["oom_kill"])
        return None


@contextlib.contextmanager
def control_group(
    resources: Resources, *, hierarchy: Path | None = None, own: str | None = None
) -> Iterator[ControlGroup]:
    """Make a control group with as many of the limits as this user may set; remove it at the end.

    Parameters
    ----------
    hierarchy, own : optional
        Where version 2 is mounted, and the group of this process in it; from the system.
    """
    hierarchy = hierarchy or _mounted_hierarchy()
    own = own or _own_group()
    group = ControlGroup()
    if hierarchy is not None and own is not None:
        here = hierarchy / own.lstrip("/")
        # A group that has processes can have no limited ones below it, but beside it.
        places = dict.fromkeys([here, here.parent] if here != hierarchy else [here])
        found = (_make_group(place, resources) for place in places)
        group = next((made for made in found if made.limits), group)
    try:
        yield group
    finally:
        group.kill()
        _remove_group(group)


def _mounted_hierarchy() -> Path | None:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            mounted, _, system = line.partition(" - ")
            if system.split()[:1] == ["cgroup2"]:
                return Path(mounted.split()[4])
    return None


def _own_group() -> str | None:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::"):
                return line.removeprefix("0::")
    return None


def _make_group(place: Path, resources: Resources) -> ControlGroup:
    """Make a group below `place`, with the limits whose controllers may be used there."""
    wanted = {"pids.max": str(resources.processes)}
    if resources.memory_bytes is not None:
        wanted |= {"memory.max": str(resources.memory_bytes), "memory.swap.max": "0"}
    if resources.cpus is not None:
        quota = resources.cpus * _CPU_PERIOD_MICROSECONDS
        wanted["cpu.max"] = f"{quota} {_CPU_PERIOD_MICROSECONDS}"
    try:
        offered = set((place / "cgroup.controllers").read_text().split())
        controllers = sorted({name.partition(".")[0] for name in wanted} & offered)
        if not controllers:
            return ControlGroup()
        missing = set(controllers) - set((place / "cgroup.subtree_control").read_text().split())
        if missing:
            with contextlib.suppress(OSError):
                text = " ".join(f"+{name}" for name in sorted(missing))
                (place / "cgroup.subtree_control").write_text(text)
        folder = place / f"tidegauge-{secrets.token_hex(8)}"
        folder.mkdir()
    except OSError:
        return ControlGroup()
    set_here = {}
    for name, value in wanted.items():
        with contextlib.suppress(OSError):
            if name.partition(".")[0] in controllers:
                (folder / name).write_text(value)
                set_here[name] = value
    group = ControlGroup(folder, set_here)
    # Who may make a group may not be allowed to move processes into it.
    if set_here and subprocess.run(group.entered_by(["true"]), capture_output=True).returncode == 0:
        return group
    _remove_group(group)
    return ControlGroup()


def _remove_group(group: ControlGroup) -> None:
    """Remove the group once its last process has gone."""
    if group.folder is None:
        return
    waited = threading.Event()
    for _ in range(100):
        with contextlib.suppress(OSError):
            group.folder.rmdir()
        if not group.folder.exists():
            return
        waited.wait(0.005)


def process_limits(
    resources: Resources, isolation: Isolation, group: ControlGroup
) -> dict[str, int | None]:
    """Return what the supervisor limits for each process, by the system's names.

    Not what the group holds for all of them together. ``RLIMIT_NPROC`` counts the processes of a
    user, so that the operator's own would count without isolation.
    """
    has_group_memory, has_group_pids = (f"{n}.max" in group.limits for n in ("memory", "pids"))
    counts_others = isolation.kind == "none"
    return {
        "cpus": resources.cpus,
        "RLIMIT_AS": None if has_group_memory else resources.memory_bytes,
        "RLIMIT_FSIZE": resources.disk_bytes,
        "RLIMIT_NPROC": None if has_group_pids or counts_others else resources.processes,
        "RLIMIT_CORE": 0,
    }


def limits_in_force(
    resources: Resources, isolation: Isolation, group: ControlGroup
) -> dict[str, str]:
    """Say of each limit how it is kept, for the operator and the report."""
    of_run = "of the run, by its control group"
    found = {"disk": f"{resources.disk_gib:g} GiB in the workspace, watched; in a file, prlimit"}
    if resources.memory_gib is not None:
        how = of_run if "memory.max" in group.limits else "of each process, by prlimit"
        found["memory"] = f"{resources.memory_gib:g} GiB {how}"
    if resources.cpus is not None:
        how = of_run if "cpu.max" in group.limits else "by affinity, which an agent may change"
        found["cpus"] = f"{resources.cpus} {how}"
    if "pids.max" in group.limits:
        found["processes"] = f"{resources.processes} {of_run}"
    elif isolation.kind != "none":
        found["processes"] = f"{resources.processes} of the agent's user, by prlimit"
    else:
        found["processes"] = "not limited"
    return dict(sorted(found.items()))


@contextlib.contextmanager
def disk_watched(folder: Path, *, limit_bytes: int, end: Callable[[], None]) -> Iterator[None]:
    """Call `end` when the folder outgrows its limit or the disk is nearly full."""
    before = _free_bytes(folder)
    stopped = threading.Event()

    def watch() -> None:
        while not stopped.wait(_WATCH_SECONDS):
            free = _free_bytes(folder)
            # Counting many files takes long: only where so much can have been written.
            large = before - free > limit_bytes // 2 and size_of(folder) > limit_bytes
            if large or free < min(_FREE_BYTES, before // 2):
                end()
                return

    thread = threading.Thread(target=watch, name="disk", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def size_of(folder: Path) -> int:
    """Return the bytes that a folder takes on the disk."""
    total = 0
    for path in walk(folder):
        with contextlib.suppress(OSError):
            total += os.lstat(path).st_blocks * 512
    return total


def _free_bytes(folder: Path) -> int:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize
