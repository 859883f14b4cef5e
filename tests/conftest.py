"""Shared fixtures: where the real data is, and a command line that behaves as a user's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# A suite started in the background is deaf to Ctrl-C, and so would be the commands it interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def realdata() -> Path:
    """The folder of real data; tests that ask for it skip where there is none."""
    folder = os.environ.get("TIDEGAUGE_REALDATA")
    if not folder:
        pytest.skip("TIDEGAUGE_REALDATA is not set")
    return Path(folder)


@pytest.fixture(scope="session")
def tidegauge() -> Run:
    """Run the installed command in a process of its own and capture what it says."""

    def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tidegauge", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)  # type: ignore[call-overload]

    return run
