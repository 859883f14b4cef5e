"""How much of the disk an agent uses, watched while it runs."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from tidegauge.bench.run.isolation import walk

_WATCH_SECONDS = 2.0
_FREE_BYTES = 2**28  # of the disk that runs are on: below it no agent may write on


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
