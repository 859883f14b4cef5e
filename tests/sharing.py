"""Folders that are made once a session, whichever xdist worker asks first."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

Make = Callable[[Path], object]


def shared_folder(factory: pytest.TempPathFactory, name: str, make: Make) -> Path:
    """Return the session's folder `name`; the first worker fills it, the others wait for it.

    Tests that would change such a folder copy it first.
    """
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # a worker's own folder lies in that of the session
    folder = root / name
    with open(root / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished = factory.mktemp(name)
            make(unfinished)
            unfinished.rename(folder)
    return folder
