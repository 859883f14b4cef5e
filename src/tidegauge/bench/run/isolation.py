"""Isolation of the agent: bubblewrap, a separate user, or none.

A runner with root starts every agent under a user id that nobody else has; `launcher` makes the
place for it. A runner without root can offer bubblewrap, or nothing.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import tidegauge
from tidegauge.bench.run import launcher
from tidegauge.bench.run.options import Resources
from tidegauge.errors import InputError
from tidegauge.system import require_linux

PACKAGE_ROOT = Path(tidegauge.__file__).resolve().parents[1]
SANDBOX_SOCKET = "/run/tidegauge/validator"

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Only what programs need of /etc: the rest (keys, passwords, other data) is not the agent's.
_ETC = (
    "alternatives", "bash.bashrc", "ca-certificates", "fonts", "group", "hosts", "ld.so.cache",
    "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types", "nsswitch.conf", "os-release",
    "passwd", "pki", "profile", "ssl", "timezone",
)  # fmt: skip
_NOT_AGENTS = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "etc", "proc", "sys", "dev", "run"}
_KEPT_ENVIRONMENT = ("LANG", "LC_ALL", "TZ", "TERM", "OMP_NUM_THREADS")
# No agent has root, in its own namespace or outside, nor can it make a namespace to have it in.
_NAMESPACES = [
    "--unshare-all", "--unshare-user", "--disable-userns", "--uid", "65534", "--gid", "65534",
    "--cap-drop", "ALL", "--die-with-parent", "--new-session",
]  # fmt: skip
_GPU_DEVICES = ("/dev/nvidia*", "/dev/dri", "/dev/kfd")
_PROC = ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]
# User ids of agents: a range that no distribution gives away, or a small one where a container
# maps no more.
_USER_RANGES = ((1_879_048_192, 2_147_483_646), (60_000, 64_999))


@dataclass(frozen=True)
class Isolation:
    """How an agent is kept from what is not its own.

    Attributes
    ----------
    kind : str
        ``bwrap``, ``user`` or ``none``.
    mounts : tuple of Path
        What a bubblewrap sandbox shows read-only beside the system and this Python.
    hidden : tuple of Path
        Folders that stay empty even if a mount holds them.
    user : int, optional
        The user id of this agent alone, where the runner is root.
    namespaces : bool
        With ``user``: processes, network, IPC and mounts are its own too.
    places : mapping of str to str
        Names in the workspace, and where else a bubblewrap sandbox shows them.
    """

    kind: str
    mounts: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    user: int | None = None
    namespaces: bool = False
    places: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_own_network(self) -> bool:
        """Whether the validator must be reached through a relay."""
        return self.kind == "bwrap" or self.namespaces

    @property
    def has_own_processes(self) -> bool:
        """Whether the kernel ends all of the agent's processes with the first."""
        return self.kind == "bwrap" or self.namespaces

    def sentence(self) -> str:
        """State what is in force."""
        if self.kind == "bwrap":
            return "isolated by bubblewrap: own files, processes and network"
        if self.kind == "none":
            return "WARNING: not isolated, the agent has your rights and can read the answers"
        if self.namespaces:
            return f"isolated as user {self.user}: own processes and network, answers covered"
        return (
            f"isolated as user {self.user}: it may not read the answers; network and the list of "
            "processes are shared"
        )


def make_isolation(
    wanted: str, *, mounts: Sequence[Path] = (), hidden: Sequence[Path] = ()
) -> Isolation:
    """Return the isolation of one run; ``auto`` takes the strongest there is.

    Raises
    ------
    InputError
        What was asked for does not work here.
    """
    kind = choose_isolation(wanted)
    is_root = os.geteuid() == 0 and kind != "none"
    return Isolation(
        kind,
        tuple(mounts),
        tuple(path.resolve() for path in hidden),
        user=new_agent_user() if is_root else None,
        namespaces=kind == "user" and namespaces_work(),
    )


def choose_isolation(wanted: str) -> str:
    """Return the kind of isolation to use; ``auto`` takes the strongest there is.

    Raises
    ------
    InputError
        What was asked for does not work here.
    """
    require_linux("running agents")
    if wanted == "auto":
        if bubblewrap_works():
            return "bwrap"
        if os.geteuid() == 0:
            return "user"
        raise InputError(
            "no isolation is available: install bubblewrap (apt-get install bubblewrap), or pass "
            "--isolation none to run the agent with your own rights: it can then read the answers"
        )
    if wanted == "bwrap" and not bubblewrap_works():
        raise InputError(
            "bubblewrap does not work here; install version 0.8 or later (apt-get install "
            "bubblewrap) and allow user namespaces, or choose --isolation user (as root) or none"
        )
    if wanted == "user" and os.geteuid() != 0:
        raise InputError("--isolation user needs root, to change to another user; use bwrap")
    return wanted


@cache
def bubblewrap_works() -> bool:
    """Whether bwrap is installed and may make namespaces here, for an ordinary user if by root."""
    if shutil.which("bwrap") is None:
        return False
    trial = ["bwrap", *_NAMESPACES, "--ro-bind", "/", "/", *_PROC, "true"]
    user = new_agent_user() if os.geteuid() == 0 else None
    return _succeeds(trial, Isolation("bwrap", user=user))


@cache
def namespaces_work() -> bool:
    """Whether this root may make namespaces; in many containers it may not."""
    return _succeeds(["true"], Isolation("user", user=new_agent_user(), namespaces=True))


def _succeeds(program: list[str], isolation: Isolation) -> bool:
    with launch_command(program, isolation, folder=Path("/")) as (command, descriptors):
        done = subprocess.run(command, pass_fds=descriptors, capture_output=True, check=False)
        return done.returncode == 0


def new_agent_user() -> int:
    """Return a user id that nobody has, for one agent."""
    for low, high in _USER_RANGES:
        for _ in range(100):
            user = low + secrets.randbelow(high - low + 1)
            if _is_mapped(user, "uid") and _is_mapped(user, "gid") and not _is_known(user):
                return user
    raise InputError("no free user id to run an agent under; choose --isolation none")


def _is_mapped(number: int, kind: str) -> bool:
    lines = Path(f"/proc/self/{kind}_map").read_text().splitlines()
    ranges = [(int(first), int(count)) for first, _, count in map(str.split, lines)]
    return any(first <= number < first + count for first, count in ranges)


def _is_known(user: int) -> bool:
    with contextlib.suppress(KeyError):
        import pwd  # Unix only

        pwd.getpwuid(user)
        return True
    return False


def agent_may(isolation: Isolation, what: str, path: Path | str) -> bool:
    """Try as the agent's user whether it may read (``-r``) or execute (``-x``) something."""
    become: dict[str, Any] = {"user": isolation.user, "group": isolation.user, "extra_groups": []}
    trial = subprocess.run(["test", what, str(path)], cwd="/", check=False, **become)
    return bool(trial.returncode == 0)


def supervisor_python(isolation: Isolation) -> str:
    """Return a Python that the agent's user may run; the supervisor needs no package."""
    if isolation.kind != "user" or agent_may(isolation, "-x", sys.executable):
        return sys.executable
    return shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") or sys.executable


def agent_environment(
    isolation: Isolation,
    *,
    workspace: Path,
    private: Path,
    extra: Mapping[str, str],
    passed: Sequence[str] = (),
) -> dict[str, str]:
    """Return the agent's environment: little, and nothing that names the private folder."""
    if isolation.kind == "none":
        secret = str(private)
        kept = {name: value for name, value in os.environ.items() if secret not in value}
        kept.pop("OLDPWD", None)
    else:
        kept = {n: os.environ[n] for n in (*_KEPT_ENVIRONMENT, *passed) if n in os.environ}
        kept["HOME"] = "/tmp" if isolation.kind == "bwrap" else str(workspace)
        kept["TMPDIR"] = "/tmp"
        kept["USER"] = "agent"  # its user id has no name
        kept["PATH"] = "/usr/local/bin:/usr/bin:/bin"
    bin_folder = str(Path(sys.executable).parent)
    kept["PATH"] = f"{bin_folder}:{kept.get('PATH', '')}"
    if not PACKAGE_ROOT.is_relative_to(sys.prefix):
        kept["PYTHONPATH"] = str(PACKAGE_ROOT)  # run from a source tree
    kept["PWD"] = str(workspace)
    return kept | dict(extra)


@contextlib.contextmanager
def launch_command(
    program: list[str],
    isolation: Isolation,
    *,
    folder: Path,
    validator: Path | None = None,
    staged: Mapping[Path, str] | None = None,
    stage: str | None = None,
    closed: Sequence[int] = (),
) -> Iterator[tuple[list[str], list[int]]]:
    """Yield the command that runs `program` under its user, and the descriptors it needs.

    Parameters
    ----------
    closed : sequence of int
        Descriptors of the program that processes above it must not hold open.
    """
    if isolation.user is None:
        yield program, []
        return
    config = {
        "program": program,
        "user": isolation.user,
        "folder": str(folder) if isolation.kind == "user" else "/",
        "stage": stage,
        "staged": [str(path) for path in staged or {}],
        "namespaces": isolation.namespaces,
        "hidden": [str(path) for path in isolation.hidden],
        "kept": [str(path) for path in _kept(folder, isolation)] if validator else [],
        "socket": None if validator is None else str(validator),
        "socket_at": SANDBOX_SOCKET,
        "closed": list(closed),
    }
    descriptor = in_memory(json.dumps(config).encode())
    try:
        yield [sys.executable, "-I", launcher.__file__, str(descriptor)], [descriptor]
    finally:
        os.close(descriptor)


def _kept(folder: Path, isolation: Isolation) -> list[Path]:
    """Return what an agent without bubblewrap sees of the folders that are covered for it."""
    python = [path for path in _python_folders() if path.is_dir()]
    return list(dict.fromkeys([folder, *isolation.mounts, *python]))


def in_memory(data: bytes) -> int:
    """Return a descriptor that reads `data`: no file, and nothing on a command line."""
    descriptor = os.memfd_create("arguments")
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


@contextlib.contextmanager
def bubblewrap_command(
    program: list[str],
    isolation: Isolation,
    *,
    workspace: Path,
    validator: Path | None,
    resources: Resources | None = None,
) -> Iterator[tuple[list[str], list[int]]]:
    """Yield the command that runs `program` in a sandbox, and the descriptors it needs."""
    staged: dict[Path, str] = {}
    with contextlib.ExitStack() as stack:
        stage = None
        if isolation.user is not None:
            # The agent's user may not enter the folders above what it is shown.
            stage = stack.enter_context(tempfile.TemporaryDirectory("-stage", "tidegauge-", "/tmp"))
            os.chmod(stage, 0o755)

        def source_of(path: Path) -> str:
            if stage is None:
                return str(path)
            return staged.setdefault(path, f"{stage}/{len(staged)}")

        options = bubblewrap_arguments(
            isolation,
            workspace=workspace,
            validator=validator,
            resources=resources,
            source_of=source_of,
        )
        # Through a descriptor: /proc/1/cmdline inside would show them.
        arguments = in_memory("\0".join(options).encode())
        stack.callback(os.close, arguments)
        wrapped = ["bwrap", "--args", str(arguments), "--", *program]
        command, descriptors = stack.enter_context(
            launch_command(wrapped, isolation, folder=workspace, staged=staged, stage=stage)
        )
        yield command, [arguments, *descriptors]


def bubblewrap_arguments(
    isolation: Isolation,
    *,
    workspace: Path,
    validator: Path | None,
    resources: Resources | None = None,
    source_of: Callable[[Path], str] = str,
) -> list[str]:
    """Return the options of bwrap: own namespaces, the system read-only, the workspace writable.

    Later mounts cover earlier ones, so the order is: system, temporary folders, Python and extra
    mounts, what is hidden, what of the agent's lies inside that, and last the workspace.
    """
    resources = resources or Resources()
    options = list(_NAMESPACES)
    for path in _SYSTEM:
        if os.path.islink(path):
            options += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            options += ["--ro-bind", path, path]
    for name in _ETC:
        options += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    size = ["--size", str(resources.memory_bytes)] if resources.memory_bytes else []
    options += [*_PROC, "--dev", "/dev", *size, "--tmpfs", "/tmp", "--tmpfs", "/run"]
    if resources.gpus:
        for path in graphics_devices():
            options += ["--dev-bind", path, path]
    mounts = [path.resolve() for path in isolation.mounts]
    shown = list(dict.fromkeys([*_python_folders(), *mounts]))
    for folder in shown:
        if not folder.is_relative_to("/usr"):
            options += ["--ro-bind", source_of(folder), str(folder)]
    hidden = [
        path
        for path in isolation.hidden
        if any(path.is_relative_to(folder) for folder in (*shown, Path("/usr")))
    ]
    for secret in hidden:
        options += ["--tmpfs", str(secret)] if secret.is_dir() else _nothing_at(secret)
    for mount in mounts:
        if any(mount != secret and mount.is_relative_to(secret) for secret in hidden):
            options += ["--ro-bind", source_of(mount), str(mount)]
    options += ["--bind", source_of(workspace), str(workspace)]
    options += ["--ro-bind", source_of(workspace / "input"), str(workspace / "input")]
    for name, place in isolation.places.items():
        bind = "--ro-bind" if name == "input" else "--bind"
        options += [bind, source_of(workspace / name), place]
    if validator is not None:
        options += ["--bind", source_of(validator), SANDBOX_SOCKET]
    return [*options, "--remount-ro", "/", "--chdir", str(workspace)]


def graphics_devices() -> list[str]:
    """Return the device files of NVIDIA, AMD and the kernel's own graphics drivers."""
    return sorted(found for name in _GPU_DEVICES for found in glob.glob(name))


def _nothing_at(path: Path) -> list[str]:
    return ["--ro-bind", "/dev/null", str(path)]


def _python_folders() -> list[Path]:
    """Return the folders this interpreter, its packages and tidegauge live in."""
    executable = Path(sys.executable)
    folders = [Path(sys.prefix), Path(sys.base_prefix), PACKAGE_ROOT]
    if not any(executable.resolve().is_relative_to(folder) for folder in folders):
        folders.append(executable.resolve().parent)
    return [folder for folder in folders if folder != Path("/")]


def files_named_in(command: Sequence[str]) -> tuple[Path, ...]:
    """Return the files outside the system that a command names by absolute path.

    An agent given as ``python /home/me/agent.py`` must see that file.
    """
    paths = [Path(word) for word in command if word.startswith("/") and os.path.isfile(word)]
    return tuple(path for path in paths if path.resolve().parts[1] not in _NOT_AGENTS)


def give_workspace(workspace: Path, isolation: Isolation) -> None:
    """Make the workspace the agent's: its user owns it, others may not enter."""
    if isolation.user is not None:
        for path in (workspace, *(workspace / name for name in ("submission", "code", "logs"))):
            if path.is_dir():
                os.chown(path, isolation.user, isolation.user)


def take_back(workspace: Path) -> None:
    """Make what the agent left harmless: ours, for others to read at most, no device files.

    For when its processes have ended. Input is not the agent's: files there may be links.
    """
    owner, group = os.geteuid(), os.getegid()
    for path in walk(workspace, but=workspace / "input"):
        with contextlib.suppress(OSError):
            mode = os.lstat(path).st_mode
            if stat.S_ISBLK(mode) or stat.S_ISCHR(mode):
                os.unlink(path)
                continue
            os.chown(path, owner, group, follow_symlinks=False)
            if not stat.S_ISLNK(mode):
                os.chmod(path, stat.S_IMODE(mode) & 0o755)  # no set-user-id either


def walk(folder: Path, *, but: Path | None = None) -> Iterator[str]:
    """Yield a folder and everything below it, following no link, however deep it goes."""
    waiting = [str(folder)]
    while waiting:
        path = waiting.pop()
        yield path
        with contextlib.suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if but is None or entry.path != str(but):
                        waiting.append(entry.path)
                else:
                    yield entry.path
