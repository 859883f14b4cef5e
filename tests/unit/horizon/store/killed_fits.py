"""Kill fits at random moments and look at what they leave: run as a program of its own.

Everything is imported once and every fit is a process forked from that state, so that a dozen
kills cost seconds. Prints one JSON object: what each kill left, by name of the result.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import arviz
import h5py
import numpy as np
import pyarrow  # noqa: F401 - imported before the forks, though only the fits need it

import tidegauge.horizon.analysis
import tidegauge.horizon.store.fit_folder  # noqa: F401
from tidegauge.cli.main import main
from tidegauge.io import finish_commit

TABLES = (
    *("domains.csv", "horizon_draws.csv", "horizons.csv", "pairs.csv", "parameters.csv"),
    "tasks.csv",
)
FILES = {*TABLES, "diagnostics.json", "manifest.json", "posterior.nc"}
KILLS = 12


def start_fit(runs: Path, folder: Path, seed: int) -> int:
    """Fork a process that is the command, and return its id."""
    pid = os.fork()
    if pid:
        return pid
    sizes = ("--draws", "100", "--tune", "100", "--chains", "2", "--seed", str(seed))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    try:
        main(["horizon", "fit", str(runs), "--out", str(folder), "-q", *sizes])
    finally:
        os._exit(1)  # main has left by SystemExit: files are written, nothing else is ours to do


def result_in(folder: Path) -> tuple[str, str] | None:
    """Return the seed in the manifest and a hash of the tables; None where there is nothing."""
    if not folder.exists():
        return None
    finish_commit(folder)
    visible = {name for name in os.listdir(folder) if not name.startswith(".")}
    if not visible:
        return None
    assert visible == FILES, sorted(visible)
    assert not json.loads((folder / "diagnostics.json").read_text())["converged"]
    with h5py.File(folder / "posterior.nc") as trace:
        assert {"posterior", "sample_stats", "log_likelihood", "observed_data"} <= set(trace)
    manifest = json.loads((folder / "manifest.json").read_text())
    tables = b"".join((folder / name).read_bytes() for name in TABLES)
    return str(manifest["settings"]["sampler"]["seed"]), hashlib.sha256(tables).hexdigest()


def is_writing(folder: Path) -> bool:
    return any(name.startswith(".tidegauge-staging") for name in os.listdir(folder))


def wait_for_writing(folder: Path, pid: int) -> None:
    """Return when the fit has begun to write, or has ended; it stays there to be killed."""
    while not is_writing(folder):
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return
        time.sleep(0.001)


def warm_up(base: Path) -> None:
    """Load and compile in this process what every fit would otherwise load for itself."""
    draws = np.random.default_rng(0).normal(size=(2, 50))
    assert arviz.rhat(draws) > 0
    assert arviz.ess(draws, method="tail") > 0
    arviz.from_dict(posterior={"x": draws}).to_netcdf(str(base / "warm.nc"), engine="h5netcdf")


def run_all(runs: Path, base: Path) -> dict[str, list[str]]:
    warm_up(base)
    rng = random.Random(1)
    expected, seconds = {}, 0.0
    for seed in (1, 2):
        began = time.monotonic()
        os.waitpid(start_fit(runs, base / f"whole-{seed}", seed), 0)
        seconds = time.monotonic() - began
        found = result_in(base / f"whole-{seed}")
        assert found is not None
        expected[found[0]] = found[1]
    left: dict[str, list[str]] = {"fresh": [], "over": []}
    for kill in range(KILLS):
        # Even kills: a folder that never held a result; odd ones: over the result of seed 1.
        kind = ("fresh", "over")[kill % 2]
        folder = base / ("whole-1" if kind == "over" else f"fresh-{kill}")
        folder.mkdir(exist_ok=True)
        pid = start_fit(runs, folder, 2)
        if kill % 4 < 2:
            time.sleep(
                rng.random() * seconds * (kill > 1)
            )  # the first two at once: surely too early
        else:
            wait_for_writing(folder, pid)
            time.sleep(rng.random() * seconds / 3)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        found = result_in(folder)
        assert found is None or expected[found[0]] == found[1], "files of two results are mixed"
        left[kind].append("nothing" if found is None else found[0])
        if found is not None and found[0] == "2" and kind == "over":
            os.waitpid(start_fit(runs, folder, 1), 0)
    return left


if __name__ == "__main__":
    print(json.dumps(run_all(Path(sys.argv[1]), Path(sys.argv[2]))))
