"""The DVC pipeline runs on simulated runs, and a second time there is nothing to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

dvc = pytest.importorskip("dvc", reason="needs the extra: pip install 'tidegauge[dvc]'")

PIPELINE = Path(__file__).parents[2] / "pipelines" / "horizon"
STAGES = ["simulate", "check", "regression", "exact", "hierarchical", "compare", "plots"]
TINY: dict[str, Any] = {
    "simulate": {"agents": 3, "tasks": 16, "rows": 500, "seed": 2},
    "regression": {"replicates": 20, "seed": 1},
    "exact": {"seed": 1},
    "hierarchical": {"method": "core", "seed": 1},
    "compare": {"method": ["exact"], "by": ["task"], "folds": 2, "workers": 1, "seed": 1},
}


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    """A copy with small sizes, outside of any repository, and the command on its path."""
    folder = tmp_path / "horizon"
    made_here = shutil.ignore_patterns("data", "results", "dvc.lock", "cache", "tmp")
    shutil.copytree(PIPELINE, folder, ignore=made_here)
    params = yaml.safe_load((folder / "params.yaml").read_text(encoding="utf-8"))
    (folder / "params.yaml").write_text(yaml.safe_dump({**params, **TINY}), encoding="utf-8")
    command = tmp_path / "bin" / "tidegauge"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m tidegauge "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    return folder


def repro(pipeline: Path, *arguments: str) -> str:
    """Run ``dvc repro`` and return what it said; it keeps its own files inside the copy."""
    home = pipeline.parent
    places = {name: str(home / name) for name in ("DVC_GLOBAL_CONFIG_DIR", "DVC_SITE_CACHE_DIR")}
    path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "repro", *arguments],
        cwd=pipeline,
        env={**os.environ, **places, "PATH": path},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def files_of(pipeline: Path) -> dict[str, int]:
    made = [pipeline / "dvc.lock", *pipeline.glob("data/**/*"), *pipeline.glob("results/**/*")]
    return {
        path.relative_to(pipeline).as_posix(): path.stat().st_mtime_ns
        for path in made
        if path.is_file()
    }


def test_a_second_repro_does_nothing(pipeline: Path) -> None:
    first = repro(pipeline)
    for stage in STAGES:
        assert f"Running stage '{stage}'" in first
    lock, made = (pipeline / "dvc.lock").read_bytes(), files_of(pipeline)
    methods = ("regression", "exact", "hierarchical")
    for name in (*(f"{method}/horizons.csv" for method in methods), "report.html", "check.txt"):
        assert f"results/{name}" in made
    headers = [pd.read_csv(pipeline / "results" / m / "horizons.csv", nrows=0) for m in methods]
    assert list(headers[0]) == list(headers[1]) == list(headers[2])
    assert {"agent", "release_date", "p50", "p50q0.025", "p80q0.975"} <= set(headers[0])

    second = repro(pipeline)
    assert "Running stage" not in second
    for stage in STAGES:
        assert f"Stage '{stage}' didn't change, skipping" in second
    assert (pipeline / "dvc.lock").read_bytes() == lock
    assert files_of(pipeline) == made

    # One path changes, and what depends on it runs again on what is there.
    own = pipeline.parent / "own.jsonl"
    shutil.copy(pipeline / "data" / "runs.jsonl", own)
    with own.open("a", encoding="utf-8") as handle:
        handle.write((pipeline / "data" / "runs.jsonl").read_text().splitlines()[-1] + "\n")
    params = yaml.safe_load((pipeline / "params.yaml").read_text(encoding="utf-8"))
    changed = {**params, "runs": str(own), "rows": {"exclude": ["task_source=SWAA"]}}
    (pipeline / "params.yaml").write_text(yaml.safe_dump(changed), encoding="utf-8")
    third = repro(pipeline, "exact")
    assert "Stage 'simulate' didn't change, skipping" in third or "simulate" not in third
    assert f"fit {own} --exclude task_source=SWAA" in third
    assert "SWAA" not in (pipeline / "results" / "check.txt").read_text(encoding="utf-8")


def test_it_asks_nobody_and_reports_to_nobody() -> None:
    config = (PIPELINE / ".dvc" / "config").read_text(encoding="utf-8")
    for line in ("analytics = false", "check_update = false", "no_scm = true"):
        assert line in config
