"""Small sweeps of two agents to be run, killed and continued."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START = [sys.executable, "-m", "tidegauge", "bench"]
NAMES = ("harbour-depths", "spaceship-titanic", "AI4Code")
# One copies the sample, the other spoils one row of it; both need a moment.
AGENTS = """
- alias: plain
  command: sleep 0.5; python -m tidegauge.bench.agents.sample
- alias: shuffler
  command: python -m tidegauge.bench.agents.sample; sleep 1; (head -1 submission/submission.csv;
    tail -n +2 submission/submission.csv | sort -r) > x && mv x submission/submission.csv
"""


@dataclass(frozen=True)
class World:
    """A made-up checkout with its data, two agents, and what is swept.

    Attributes
    ----------
    folder : Path
        Holds checkout/ and data/.
    agents : Path
        The file of agents, which is written.
    """

    folder: Path
    agents: Path
    names: Sequence[str] = NAMES
    seeds: int = 3

    def __post_init__(self) -> None:
        self.agents.write_text(AGENTS)

    @property
    def environment(self) -> dict[str, str]:
        """What names the checkout and its data."""
        return {
            "TIDEGAUGE_MLEBENCH": str(self.folder / "checkout"),
            "TIDEGAUGE_MLEBENCH_DATA": str(self.folder / "data"),
        }

    @property
    def n_cells(self) -> int:
        """Competitions x agents x seeds."""
        return len(self.names) * 2 * self.seeds

    def command(self, out: Path, *more: str) -> list[str]:
        """The words that start the sweep, or continue it."""
        named = [word for name in self.names for word in ("--competition", f"mlebench/{name}")]
        return [
            *START, "sweep", "--out", str(out), "--agents", str(self.agents), *named,
            "--seeds", str(self.seeds), "--jobs", "4", "--hours", "0.05", *more,
        ]  # fmt: skip


def check_killed_sweep(world: World, folder: Path, *, kills: Sequence[int]) -> None:
    """Killed once for each of these numbers of records, a sweep ends as an unbroken one."""
    whole, broken = folder / "whole", folder / "broken"
    done = run(world.command(whole), world.environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{world.n_cells} done, 0 running, 0 left")
    expected = scores(whole)
    assert len(expected) == world.n_cells
    assert all(score is not None for score in expected.values())
    words = world.command(broken)
    for n_records in kills:
        run_and_kill(words, world.environment, broken, n_records)
    done = run(words, world.environment)
    assert done.returncode == 0, done.stderr
    assert scores(broken) == expected
    seeds = [seed for seed in range(1, world.seeds + 1) for _ in range(len(world.names) * 2)]
    assert [r["seed"] for r in records(broken)] == seeds
    attempts = sum(len(path.read_text().splitlines()) for path in broken.glob("cells/*/runs.jsonl"))
    assert attempts > world.n_cells  # the kills did meet running cells
    check_export(world, whole, folder / "groups")
    # Nothing is left to do, with or without the options.
    before = (broken / "runs.jsonl").read_bytes()
    again = run([*START, "sweep", "--out", str(broken)], world.environment)
    assert again.returncode == 0, again.stderr
    assert (broken / "runs.jsonl").read_bytes() == before


def check_export(world: World, sweep: Path, out: Path) -> None:
    """Exported, graded again by line, and tabulated, a sweep gives the same."""
    done = run([*START, "export", str(sweep), "--to", "mlebench", "--out", str(out)], {})
    assert done.returncode == 0, done.stderr
    groups = [folder for folder in out.iterdir() if folder.is_dir()]
    assert len(groups) == 2 * world.seeds
    names = [(folder.name.split("_run-group_")) for folder in groups]
    assert sorted({agent for _, agent in names}) == ["plain", "shuffler"]
    for group in groups:
        metadata = json.loads((group / "metadata.json").read_text())
        assert metadata["run_group"] == group.name
        for name in metadata["runs"]:
            competition, _, number = name.partition("_")
            assert competition in world.names
            assert len(number) == 36
            assert (group / name / "submission" / "submission.csv").is_file()
    lines = str(groups[0] / "submission.jsonl")
    again = run([*START, "grade", lines, "--se-seconds", "0"], world.environment)
    (report,) = groups[0].glob("*_grading_report.json")
    graded = {
        r["competition_id"]: r["score"] for r in json.loads(again.stdout)["competition_reports"]
    }
    document = json.loads(report.read_text())
    assert {r["competition_id"]: r["score"] for r in document["competition_reports"]} == graded
    assert len(document["competition_reports"][0]) == 16
    reports = [str(path) for path in sorted(out.glob("*/*_grading_report.json"))]
    own = json.loads(run([*START, "table", str(sweep), "--mlebench-json"], {}).stdout)
    theirs = json.loads(run([*START, "table", *reports, "--mlebench-json"], {}).stdout)
    assert own == theirs
    assert own["plain"]["num_seeds_averaged"] == world.seeds


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
