"""parallel_map keeps order, whatever does the work, and ends as it should when something dies."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from tidegauge.engine.parallel import parallel_map
from tidegauge.errors import MissingExtraError

ITEMS = list(range(20))
EXPECTED = [math.factorial(item) for item in ITEMS]

# One worker has done its work and waits for more, two are at work.
PROGRAM = """
import time
from pathlib import Path
from tidegauge.engine.parallel import parallel_map

def work(name):
    Path(f"{name}.begun").touch()
    wanted, count = ("*.begun", 3) if name == "quick" else ("stop", 1)
    while len(list(Path().glob(wanted))) < count:
        time.sleep(0.02)
    Path(f"{name}.done").touch()

if __name__ == "__main__":
    try:
        parallel_map(work, ["quick", "first", "second"], workers=3)
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_parallel_map_against_the_builtin(workers: int) -> None:
    assert parallel_map(math.factorial, ITEMS, workers=workers) == EXPECTED


def test_parallel_map_of_nothing_is_empty() -> None:
    assert parallel_map(math.factorial, []) == []


def test_an_exception_in_a_worker_reaches_the_caller() -> None:
    with pytest.raises(ValueError, match="factorial"):
        parallel_map(math.factorial, [3, -1], workers=2)


def test_a_worker_that_dies_is_an_error_and_no_endless_wait() -> None:
    with pytest.raises(BrokenProcessPool):
        parallel_map(os._exit, [3, 3], workers=2)


def test_a_thread_may_call_it_and_ctrl_c_stays_the_callers() -> None:
    before = signal.getsignal(signal.SIGINT)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(parallel_map, math.factorial, ITEMS, workers=2).result() == EXPECTED
    assert parallel_map(math.factorial, ITEMS, workers=2) == EXPECTED
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_ends_the_map_without_a_word_from_the_workers(tmp_path: Path) -> None:
    """Sent to the whole process group, as a terminal does."""
    (tmp_path / "program.py").write_text(PROGRAM)
    process = subprocess.Popen(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not (tmp_path / "quick.done").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    time.sleep(0.1)  # for its worker to ask for more; too short a time would hide a fault only
    os.killpg(process.pid, signal.SIGINT)
    (tmp_path / "stop").touch()  # what has begun is finished
    assert process.communicate() == ("interrupted\n", "")


def test_a_dask_scheduler_does_the_work() -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=2,
        processes=False,
        protocol="tcp://",
        scheduler_port=0,
        dashboard_address=None,
    ) as cluster:
        address = cluster.scheduler_address
        assert address.startswith("tcp://")
        assert parallel_map(math.factorial, ITEMS, scheduler=address) == EXPECTED
        with pytest.raises(ValueError, match="factorial"):
            parallel_map(math.factorial, [3, -1], scheduler=address)


def test_a_scheduler_without_dask_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)  # as if it were not installed
    with pytest.raises(MissingExtraError, match=r"tidegauge\[dask\]"):
        parallel_map(math.factorial, ITEMS, scheduler="tcp://127.0.0.1:1")
