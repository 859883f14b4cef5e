"""The example scripts run as they are and stay short; the notebook shows what its code gives."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def test_the_notebook_runs_and_shows_what_it_stores() -> None:
    stored = EXAMPLES / "horizon.ipynb"
    assert stored.stat().st_size < 200 * 1024
    run_notebook = runpy.run_path(str(EXAMPLES / "run_notebook.py"))["run_notebook"]
    ran, kept = run_notebook(stored), json.loads(stored.read_text(encoding="utf-8"))
    assert _shown(ran) == _shown(kept), "python examples/run_notebook.py examples/horizon.ipynb"
    pages = [text for _, text in _outputs(ran) if "<strong>core: converged" in text]
    assert len(pages) == 1  # the HTML representation of the fit


def _shown(notebook: dict[str, Any]) -> list[tuple[str, int]]:
    """Kind and number of lines of every output: numbers may differ in a last digit elsewhere."""
    return [(kind, text.count("\n")) for kind, text in _outputs(notebook) if "svg" not in kind]


def _outputs(notebook: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            for kind, lines in output.get("data", {"stdout": output.get("text", ())}).items():
                yield kind, "".join(lines)
