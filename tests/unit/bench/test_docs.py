"""Every command of the guides runs, in order, as written."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mlebench_checkout as made

DOCS = Path(__file__).parents[3] / "docs"


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / name).read_text(), re.M | re.S)


def records_in(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "runs" / "runs.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def run_script(
    script: str, folder: Path, port: int, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run shell text in which `tidegauge` is this one and its server takes a port of our own."""
    wrapper = folder / "bin" / "tidegauge"
    wrapper.parent.mkdir()
    wrapper.write_text(
        "#!/bin/bash\n"
        f'[ "$2" = serve ] && set -- "$@" --port {port} --also 0\n'
        f'exec "{sys.executable}" -m tidegauge "$@"\n'
    )
    wrapper.chmod(0o755)
    path = f"{wrapper.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = {
        **os.environ, "PATH": path, "SERVER_URL": f"http://127.0.0.1:{port}", **environment,
    }  # fmt: skip
    command = ["bash", "-euo", "pipefail", "-c", script]
    shell = subprocess.Popen(
        command, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    try:
        said = shell.communicate(timeout=1800)
    finally:  # a script that failed leaves its server behind, which would hold the pipes open
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(command, shell.returncode, *said)


@pytest.mark.usefixtures("some_isolation")
def test_every_command_of_the_bench_guide_runs(
    tmp_path: Path, reserved_port: Callable[[], int]
) -> None:
    done = run_script("\n".join(blocks("bench.md", "sh")), tmp_path, reserved_port())
    assert done.returncode == 0, done.stderr
    assert '{"result":"Submission is valid."}' in done.stdout
    assert "too similar" in done.stdout
    assert json.loads((tmp_path / "report.json").read_text())["disqualified"] is True
    records = records_in(tmp_path)
    assert [record["alias"] for record in records] == ["sample", "naive", "naive", "two-steps"]
    assert json.loads((tmp_path / "all.json").read_text())["total_valid_submissions"] == 1


@pytest.mark.usefixtures("some_isolation")
def test_competition_of_the_guide_is_found_through_its_entry_point(
    tmp_path: Path, reserved_port: Callable[[], int]
) -> None:
    (code,) = blocks("adding-a-competition.md", "python")
    assert len(code.splitlines()) <= 65
    (toml,) = blocks("adding-a-competition.md", "toml")
    site = tmp_path / "site"
    (information := site / "doubling-1.dist-info").mkdir(parents=True)
    (site / "doubling.py").write_text(code)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: doubling\nVersion: 1\n")
    entry = toml.replace("[project.entry-points.", "[").replace('"', "")
    (information / "entry_points.txt").write_text(entry)
    path = f"{site}:{os.environ.get('PYTHONPATH', '')}"
    script = "\n".join(blocks("adding-a-competition.md", "sh"))
    done = run_script(script, tmp_path, reserved_port(), PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    assert "my-doubling" in done.stdout
    (record,) = records_in(tmp_path)
    assert record["task_id"] == "mlebench/my-doubling"
    assert record["score_cont"] > 1.2  # the training mean knows nothing of x


@pytest.mark.usefixtures("some_isolation")
def test_every_command_of_the_mlebench_guide_runs(
    tmp_path: Path, reserved_port: Callable[[], int]
) -> None:
    made.write_checkout(tmp_path / "mle-bench")
    (place := tmp_path / "data" / "spaceship-titanic").mkdir(parents=True)
    made.write_zip(place / "spaceship-titanic.zip", "spaceship-titanic")
    sums = tmp_path / "mle-bench/mlebench/competitions/spaceship-titanic/checksums.yaml"
    sums.unlink()  # the guide's data is none that was published
    script = "\n".join(blocks("mlebench.md", "sh"))
    done = run_script(script, tmp_path, reserved_port())
    assert done.returncode == 0, done.stderr
    assert "spaceship-titanic: ok" in done.stdout
    assert json.loads((tmp_path / "report.json").read_text())["se_method"] == "halves"
    records = [record["task_id"] for record in records_in(tmp_path)]
    assert records == ["mlebench/spaceship-titanic"] * 2


def test_every_test_that_security_names_exists() -> None:
    text = (DOCS / "security.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(?:[\w/]+\.py::)?(test_\w+)`", text))
    assert len(named) > 25
    tests = Path(__file__).parents[2]
    defined = set()
    for path in tests.rglob("test_*.py"):
        defined |= set(re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.M))
    assert named - defined == set()
