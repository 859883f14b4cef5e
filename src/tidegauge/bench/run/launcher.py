"""What root does before an agent: a place of its own and a user of its own, then the program.

``python -I launcher.py FD`` reads its configuration from a descriptor. Everything here needs
root; nothing after it has root. Standard library only, because it runs as a lone file.

For bubblewrap it makes what the sandbox shows reachable for the agent's user, whatever folders
they lie in. Without bubblewrap it makes the namespaces itself: processes, network, IPC, and a
mount table in which what is hidden is covered.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import struct
import sys
from typing import Any, NoReturn

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG = 1
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
SHARED = ("/tmp", "/var/tmp", "/dev/shm")  # where every user may leave something for another

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Do what the configuration asks for, then become the program it names."""
    with open(int(sys.argv[1]), encoding="utf-8") as handle:
        config = json.load(handle)
    die_with_parent()
    if config["stage"]:
        new_namespaces(CLONE_NEWNS)
        stage(config["stage"], config["staged"])
    if config["namespaces"]:
        new_namespaces(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET)
        loopback_up()
        # It may lie in what is covered.
        validator = os.open(config["socket"], os.O_PATH) if config["socket"] else None
        cover(config["hidden"], config["kept"])
        show_socket(validator, config["socket_at"])
        enter_process_namespace(config["closed"])
        forbid_user_namespaces()
    become(config["user"])
    os.chdir(config["folder"])
    os.execvp(config["program"][0], config["program"])


def die_with_parent() -> None:
    """End when the process above does."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def new_namespaces(flags: int) -> None:
    """Leave the shared namespaces; what is mounted from now on stays here."""
    check(_libc.unshare(flags), "unshare")
    mount("none", "/", None, MS_REC | MS_PRIVATE)


def stage(place: str, sources: list[str]) -> None:
    """Bind each source to a numbered name in a folder that everyone may enter."""
    mount("tidegauge", place, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=64k")
    for number, source in enumerate(sources):
        target = os.path.join(place, str(number))
        if os.path.isdir(source):
            os.mkdir(target, 0o755)
        else:
            os.close(os.open(target, os.O_CREAT, 0o644))
        mount(source, target, None, MS_BIND | MS_REC)


def cover(hidden: list[str], kept: list[str]) -> None:
    """Put an empty folder over each hidden or shared one, but keep what is the agent's in it."""
    held = {path: os.open(path, os.O_PATH) for path in kept}
    for path in SHARED:
        if os.path.isdir(path) and not os.path.islink(path):
            mount("tidegauge", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")
    for path in hidden:
        if os.path.isdir(path):
            mount("tidegauge", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=64k")
        elif os.path.exists(path):
            mount("/dev/null", path, None, MS_BIND)
    for path, descriptor in held.items():
        if any(os.path.commonpath([path, folder]) == folder for folder in (*SHARED, *hidden)):
            if os.path.isdir(f"/proc/self/fd/{descriptor}"):
                os.makedirs(path, 0o755, exist_ok=True)
            else:
                os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
                os.close(os.open(path, os.O_CREAT, 0o644))
            mount(f"/proc/self/fd/{descriptor}", path, None, MS_BIND | MS_REC)
        os.close(descriptor)


def show_socket(descriptor: int | None, place: str) -> None:
    """Give /run an empty folder of our own, with the validator's socket in it."""
    mount("tidegauge", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=64k")
    if descriptor is not None:
        os.makedirs(os.path.dirname(place), 0o755, exist_ok=True)
        os.close(os.open(place, os.O_CREAT, 0o666))
        mount(f"/proc/self/fd/{descriptor}", place, None, MS_BIND)
        os.close(descriptor)


def loopback_up() -> None:
    """Switch on 127.0.0.1, which a new network namespace has but does not use."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        import fcntl  # Unix only

        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def enter_process_namespace(closed: list[int]) -> None:
    """Go on as the second process of the new namespace; its first reaps, as root.

    When the first ends, the kernel ends all others.
    """
    pass_on_status(closed)  # outside
    die_with_parent()
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    pass_on_status(closed)  # the first process
    die_with_parent()


def pass_on_status(closed: list[int]) -> None:
    """Fork; the parent closes what is the child's alone, reaps, and ends as the child does."""
    if (child := os.fork()) == 0:
        return
    for descriptor in closed:
        os.close(descriptor)
    while True:
        with contextlib.suppress(InterruptedError):
            pid, status = os.wait()
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
                os._exit(code if code >= 0 else 128 - code)


def forbid_user_namespaces() -> None:
    """Change the root to the same one: the kernel lets nobody become root in a chroot."""
    place = os.path.join("/run", "root")
    os.mkdir(place, 0o755)
    mount("/", place, None, MS_BIND | MS_REC)
    os.chroot(place)
    os.chdir("/")


def become(user: int) -> None:
    """Give up root for good."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    die_with_parent()  # changing the user forgot it


def mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    """Mount, or say what could not be."""
    texts: list[Any] = [None if t is None else os.fsencode(t) for t in (source, target, kind)]
    check(_libc.mount(*texts, ctypes.c_ulong(flags), data.encode()), f"mount {target}")


def check(result: int, what: str) -> None:
    """End with the system's reason if a call failed."""
    if result != 0:
        fail(f"{what}: {os.strerror(ctypes.get_errno())}")


def fail(what: str) -> NoReturn:
    """End without starting anything."""
    sys.stderr.write(f"launcher: {what}\n")
    sys.exit(125)


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        fail(str(error))
