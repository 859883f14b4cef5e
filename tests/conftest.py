"""A home of the session's own, real data where it is, and a command line in its own process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# A suite started in the background is deaf to Ctrl-C, and so would be the commands it interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Neither the tests nor the processes they start read or write the user's home. Set while this
# file is imported: libraries read these variables when they are imported. Workers inherit them.
if "PYTEST_XDIST_WORKER" not in os.environ:
    _home = tempfile.TemporaryDirectory(prefix="tidegauge-home-")  # goes with the process
    _compiled = ROOT / ".pytest_cache" / "libraries"  # slow to make: kept between sessions
    os.environ |= {
        "HOME": _home.name,
        "XDG_CACHE_HOME": f"{_home.name}/.cache",
        "XDG_CONFIG_HOME": f"{_home.name}/.config",
        "XDG_DATA_HOME": f"{_home.name}/.local/share",
        "XDG_STATE_HOME": f"{_home.name}/.local/state",
        "MPLCONFIGDIR": str(_compiled / "matplotlib"),
        "PYTENSOR_FLAGS": f"base_compiledir={_compiled / 'pytensor'}",
    }

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
        return subprocess.run(command, capture_output=True, text=True, timeout=1800, **options)  # type: ignore[call-overload]

    return run
