"""The example scripts run as they are, and stay short."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_from_a_data_frame_to_a_page_in_25_lines(tmp_path: Path) -> None:
    script = EXAMPLES / "horizon.py"
    assert len(script.read_text().splitlines()) <= 25
    command = [sys.executable, script, tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "3 agents, 4 tasks in 4 families, 48 agent runs, 16 human runs" in done.stdout
    assert "core: converged" in done.stdout
    assert (tmp_path / "out" / "page.html").read_text().startswith("<!DOCTYPE html>")
