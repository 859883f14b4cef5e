"""What differs between operating systems: file locks, living processes, usable cores."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidegauge.errors import InputError

fcntl: Any = None
msvcrt: Any = None
with contextlib.suppress(ImportError):
    fcntl = importlib.import_module("fcntl")  # Unix
with contextlib.suppress(ImportError):
    msvcrt = importlib.import_module("msvcrt")  # Windows

_LOCK_FILE = ".tidegauge-lock"
# Windows keeps other processes from reading locked bytes, so the locked one is where no data is.
_LOCKED_BYTE = 2**40


@contextlib.contextmanager
def file_lock(descriptor: int) -> Iterator[None]:
    """Hold the exclusive lock of an open file; it ends with the process, however that ends.

    Where the system has neither kind of lock (WebAssembly) there is one process only.
    """
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    elif msvcrt is not None:
        _windows_lock(descriptor, "LK_LOCK")
        try:
            yield
        finally:
            _windows_lock(descriptor, "LK_UNLCK")
    else:
        yield


def _windows_lock(descriptor: int, mode: str) -> None:
    position = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
    try:
        while True:
            try:
                msvcrt.locking(descriptor, getattr(msvcrt, mode), 1)
                return
            except OSError as error:
                if error.errno != errno.EDEADLK:  # ten seconds without the lock; flock waits on
                    raise
    finally:
        os.lseek(descriptor, position, os.SEEK_SET)


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the exclusive lock of a folder: on the folder itself, or on a file where it must be."""
    if fcntl is not None:
        descriptor = os.open(folder, os.O_RDONLY)
    else:
        descriptor = os.open(folder / _LOCK_FILE, os.O_RDWR | os.O_CREAT)
    try:
        with file_lock(descriptor):
            yield
    finally:
        os.close(descriptor)


def is_alive(pid: int) -> bool:
    """Whether a process of this number exists."""
    if sys.platform == "win32":  # os.kill(pid, 0) would interrupt it
        import ctypes

        query_limited_information = 0x1000
        handle = ctypes.windll.kernel32.OpenProcess(query_limited_information, False, pid)
        if handle:
            ctypes.windll.kernel32.CloseHandle(handle)
        return bool(handle)
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's
        return True
    return True


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "process_cpu_count"):  # Python 3.13
        return os.process_cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def limit_memory(more_bytes: int) -> None:
    """Keep this process from taking more memory than it has and so many bytes; Linux only."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        return
    limit = pages * resource.getpagesize() + more_bytes
    with contextlib.suppress(OSError, ValueError):  # a lower one is in force
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def require_linux(feature: str) -> None:
    """Refuse what only Linux can do.

    Raises
    ------
    InputError
        This is another system.
    """
    if sys.platform != "linux":
        raise InputError(
            f"{feature} needs Linux (its process table and namespaces), and this is "
            f"{sys.platform}; use a Linux container or virtual machine for it"
        )
