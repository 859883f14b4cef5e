"""Isolation of the agent: bubblewrap, a separate user, or none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import tidegauge
from tidegauge.errors import InputError
from tidegauge.system import require_linux

PACKAGE_ROOT = Path(tidegauge.__file__).resolve().parents[1]
SANDBOX_SOCKET = "/run/tidegauge/validator"
AGENT_USER = "nobody"

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Only what programs need of /etc: the rest (keys, passwords, other data) is not the agent's.
_ETC = (
    "alternatives", "bash.bashrc", "ca-certificates", "fonts", "group", "hosts", "ld.so.cache",
    "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types", "nsswitch.conf", "os-release",
    "passwd", "pki", "profile", "ssl", "timezone",
)  # fmt: skip
_NOT_AGENTS = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "etc", "proc", "sys", "dev", "run"}
_KEPT_ENVIRONMENT = ("LANG", "LC_ALL", "TZ", "TERM", "OMP_NUM_THREADS")


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
    """

    kind: str
    mounts: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()

    @property
    def has_own_network(self) -> bool:
        """Whether the validator must be reached through a relay."""
        return self.kind == "bwrap"


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
            "bubblewrap does not work here; install it (apt-get install bubblewrap) and allow user "
            "namespaces, or choose --isolation user (as root) or none"
        )
    if wanted == "user" and os.geteuid() != 0:
        raise InputError("--isolation user needs root, to change to another user; use bwrap")
    return wanted


@cache
def bubblewrap_works() -> bool:
    """Whether bwrap is installed and may make namespaces here."""
    program = shutil.which("bwrap")
    if program is None:
        return False
    trial = [program, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0


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
        kept["PATH"] = "/usr/local/bin:/usr/bin:/bin"
    bin_folder = str(Path(sys.executable).parent)
    kept["PATH"] = f"{bin_folder}:{kept.get('PATH', '')}"
    if not PACKAGE_ROOT.is_relative_to(sys.prefix):
        kept["PYTHONPATH"] = str(PACKAGE_ROOT)  # run from a source tree
    kept["PWD"] = str(workspace)
    return kept | dict(extra)


def bubblewrap_arguments(
    isolation: Isolation, *, workspace: Path, validator: Path | None
) -> list[str]:
    """Return the options of bwrap: own namespaces, the system read-only, the workspace writable.

    Later mounts cover earlier ones, so the order is: system, temporary folders, Python and extra
    mounts, what is hidden, and last the workspace.
    """
    options = ["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    for path in _SYSTEM:
        if os.path.islink(path):
            options += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            options += ["--ro-bind", path, path]
    for name in _ETC:
        options += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    options += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run"]
    shown = [*_python_folders(), *(path.resolve() for path in isolation.mounts)]
    for folder in dict.fromkeys(shown):
        if not folder.is_relative_to("/usr"):
            options += ["--ro-bind", str(folder), str(folder)]
    for secret in isolation.hidden:
        secret = secret.resolve()
        if any(secret.is_relative_to(folder) for folder in (*shown, Path("/usr"))):
            options += ["--tmpfs", str(secret)]
    options += ["--bind", str(workspace), str(workspace)]
    options += ["--ro-bind", str(workspace / "input"), str(workspace / "input")]
    if validator is not None:
        options += ["--bind", str(validator), SANDBOX_SOCKET]
    return [*options, "--remount-ro", "/", "--chdir", str(workspace)]


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


def check_reachable(workspace: Path) -> None:
    """Make sure that the separate user can enter the workspace and start Python.

    Raises
    ------
    InputError
        A parent folder is closed to others.
    """
    trial = [sys.executable, "-I", "-c", "import os, sys; os.chdir(sys.argv[1])", str(workspace)]
    user = {"user": AGENT_USER, "group": _agent_group(), "extra_groups": []}
    try:
        done = subprocess.run(trial, capture_output=True, cwd="/", text=True, **user)  # type: ignore[call-overload]
        fault = done.stderr.strip()[-200:] if done.returncode else ""
    except OSError as error:
        fault = str(error)
    if fault:
        raise InputError(
            f"user {AGENT_USER} cannot run Python in {workspace} ({fault}); keep --out and the "
            "Python environment in folders that others may enter, or install bubblewrap"
        )


def give_to_agent(workspace: Path) -> dict[str, object]:
    """Hand the workspace to the separate user; return the options of Popen that become it."""
    group = _agent_group()
    for path in (workspace, workspace / "submission"):
        shutil.chown(path, AGENT_USER, group)
    check_reachable(workspace)
    return {"user": AGENT_USER, "group": group, "extra_groups": []}


def _agent_group() -> int:
    import pwd

    return pwd.getpwnam(AGENT_USER).pw_gid
