"""Scans, archives and the package's own forecaster, from raw data to a recorded run."""

from __future__ import annotations

import json
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

from tidegauge.simulate.osic import simulate_cohort, write_raw

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_zip_with_scans_is_prepared_posed_and_solved_by_the_fvc_agent(
    tmp_path: Path, tidegauge: Run
) -> None:
    raw = tmp_path / "raw"
    write_raw(simulate_cohort(n_patients=60, seed=2), raw, scans=True, slices=8, size=64)
    with zipfile.ZipFile(tmp_path / "raw.zip", "w") as archive:
        for path in raw.rglob("*"):
            if path.is_file() and "truth" not in path.parts:
                archive.write(path, path.relative_to(raw))
    prepared = tmp_path / "prepared"
    made = tidegauge(
        "bench", "prepare", "osic", "--raw", tmp_path / "raw.zip", "--out", prepared, "--no-verify"
    )
    assert made.returncode == 0, made.stderr
    assert len(list((prepared / "public" / "test").iterdir())) == 6
    assert len(list((prepared / "public" / "train").iterdir())) == 54
    done = tidegauge(
        "bench", "run", "osic", "--prepared", prepared, "--out", tmp_path / "runs",
        "--agent", "fvc", "--hours", 0.05,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["exit_cause"], report["exit_code"]) == ("exited", 0)
    naive = tidegauge(
        "bench", "run", "osic", "--prepared", prepared, "--out", tmp_path / "runs",
        "--agent", "sample", "--hours", 0.05,
    )  # fmt: skip
    assert report["score"] > json.loads(naive.stdout)["score"]
