"""A fit that has to compile gives the same bytes as the next, which finds all compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from builders import small_rows, write_rows


def test_the_first_fit_and_the_next_agree_to_the_last_bit(tmp_path: Path) -> None:
    runs = write_rows(tmp_path / "runs.jsonl", small_rows())
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    tables = []
    for name in ("cold", "warm"):
        command = [sys.executable, "-m", "tidegauge", "horizon", "fit", str(runs), "--quiet"]
        command += ["--model", "full", "--out", str(tmp_path / name)]
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL)
        tables.append((tmp_path / name / "parameters.csv").read_bytes())
    assert tables[0] == tables[1]
