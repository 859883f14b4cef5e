"""A small sweep to be run, killed and continued: three competitions, two agents, three seeds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import mlebench_checkout as made

NAMES = ["harbour-depths", "spaceship-titanic", "AI4Code"]
# One copies the sample, the other spoils one row of it; both need a moment.
AGENTS = """
- alias: plain
  command: sleep 0.5; python -m tidegauge.bench.agents.sample
- alias: shuffler
  command: python -m tidegauge.bench.agents.sample; sleep 1; (head -1 submission/submission.csv;
    tail -n +2 submission/submission.csv | sort -r) > x && mv x submission/submission.csv
"""


def write_world(folder: Path) -> dict[str, str]:
    """Write a checkout, its data and agents.yaml; return the environment that names them."""
    root = made.write_checkout(folder / "checkout")
    data = made.prepare_as_mlebench(root, folder / "data", NAMES)
    (folder / "agents.yaml").write_text(AGENTS)
    return {"TIDEGAUGE_MLEBENCH": str(root), "TIDEGAUGE_MLEBENCH_DATA": str(data)}


def command(folder: Path, out: Path, *more: str) -> list[str]:
    named = [word for name in NAMES for word in ("--competition", f"mlebench/{name}")]
    return [
        sys.executable, "-m", "tidegauge", "bench", "sweep", "--out", str(out),
        "--agents", str(folder / "agents.yaml"), *named, "--seeds", "3", "--jobs", "4",
        "--hours", "0.05", *more,
    ]  # fmt: skip


def run(words: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def run_and_kill(words: list[str], environment: dict[str, str], out: Path, n_records: int) -> None:
    """Start a sweep and kill it by SIGKILL as soon as so many cells are recorded."""
    process = subprocess.Popen(
        words, env={**os.environ, **environment}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while count_records(out) < n_records:
        assert process.poll() is None, "the sweep ended before it was killed"
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def count_records(out: Path) -> int:
    return sum(path.stat().st_size > 0 for path in out.glob("cells/*/runs.jsonl"))


def records(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "runs.jsonl").read_text().splitlines()]


def scores(out: Path) -> dict[tuple[str, str, int], Any]:
    """The score of every cell; each occurs once."""
    found = {(r["task_id"], r["alias"], r["seed"]): r["score_cont"] for r in records(out)}
    assert len(found) == len(records(out))
    return found
