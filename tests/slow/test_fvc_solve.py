"""Whole runs of `fvc`: bad scans among good ones, and the real table."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from tidegauge.schema.submission import OSIC_FORM, check_submission, read_keys
from tidegauge.simulate.osic import simulate_cohort, write_input

Run = Callable[..., subprocess.CompletedProcess[str]]


def is_valid(submission: Path, folder: Path) -> bool:
    keys = read_keys(folder / "sample_submission.csv", "Patient_Week")
    return check_submission(submission, form=OSIC_FORM, expected_keys=keys).valid


def test_five_bad_scans_among_fifty_give_five_warnings_and_a_full_submission(
    tidegauge: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "input"
    write_input(simulate_cohort(n_patients=50, seed=2), folder, scans=True, seed=2, size=96)
    scans = [p for part in ("train", "test") for p in sorted((folder / part).iterdir())]
    bad = [scans[i] for i in (0, 11, 22, 33, 49)]
    for patient in bad:
        for path in patient.iterdir():
            path.write_bytes(b"not a scan")
    output = tmp_path / "submission.csv"
    done = tidegauge("fvc", "solve", "--input", folder, "--output", output)
    assert done.returncode == 0, done.stderr
    notes = [line for line in done.stderr.splitlines() if line.startswith("note: ID")]
    assert sorted(line.split()[1].rstrip(":") for line in notes) == sorted(p.name for p in bad)
    assert is_valid(output, folder)


@pytest.mark.realdata
def test_real_table_is_solved_repeatably_and_as_fit_and_predict_do(
    tidegauge: Run, realdata: Path, tmp_path: Path
) -> None:
    folder = realdata / "osic"
    done = tidegauge("fvc", "solve", "--input", folder, "--output", tmp_path / "a.csv")
    assert done.returncode == 0, done.stderr
    assert is_valid(tmp_path / "a.csv", folder)
    assert len(pd.read_csv(tmp_path / "a.csv")) == 1908
    assert "cross-validated score -6.9" in done.stdout
    tidegauge("fvc", "fit", "--input", folder, "--model", tmp_path / "m")
    tidegauge("fvc", "predict", "--model", tmp_path / "m", "--input", folder,
              "--output", tmp_path / "b.csv")  # fmt: skip
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


@pytest.mark.realdata
@pytest.mark.parametrize("seconds", [10, 14, 20])
def test_kill_after_ten_seconds_leaves_a_valid_submission(
    realdata: Path, tmp_path: Path, seconds: float
) -> None:
    folder, output = realdata / "osic", tmp_path / "s.csv"
    command = [sys.executable, "-m", "tidegauge", "fvc", "solve", "-q"]
    process = subprocess.Popen(
        [*command, "--input", str(folder), "--output", str(output)], start_new_session=True
    )
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert is_valid(output, folder)
