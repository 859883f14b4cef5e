"""The commands as a user types them: outputs, exit codes, no traceback, nothing heavy imported."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegauge.bench.competition_folder import Prepared

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_validate_imports_neither_pymc_nor_numba_nor_pandas(osic: Prepared) -> None:
    code = (
        "import sys\nfrom tidegauge.cli.main import main\n"
        f"arguments = ['bench', 'validate', 'osic', {str(osic.public / 'sample_submission.csv')!r},"
        f" '--prepared', {str(osic.public.parent)!r}]\n"
        "try:\n    main(arguments)\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "heavy = {'pymc', 'pytensor', 'numba', 'nutpie', 'arviz', 'pandas', 'sklearn', 'scipy',"
        " 'altair', 'pydicom', 'starlette', 'uvicorn'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "Submission is valid.\n[]\n"


def test_no_bench_module_imports_the_engine(tmp_path: Path) -> None:
    """Every module of bench but the Inspect one, imported for real."""
    code = (
        "import pkgutil, importlib, sys, tidegauge.bench as b\n"
        "for m in pkgutil.walk_packages(b.__path__, 'tidegauge.bench.'):\n"
        "    if not m.name.endswith(('.inspect', '.sample')): importlib.import_module(m.name)\n"
        "import tidegauge.cli.bench, tidegauge.cli.bench.run, tidegauge.cli.bench.similar\n"
        "heavy = {'pymc', 'pytensor', 'numba', 'nutpie', 'tidegauge.engine'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_exit_codes_and_outputs(osic: Prepared, tmp_path: Path, tidegauge: Run) -> None:
    prepared = osic.public.parent
    sample = osic.public / "sample_submission.csv"
    good = tidegauge("bench", "validate", "osic", sample, "--prepared", prepared)
    assert (good.returncode, good.stdout) == (0, "Submission is valid.\n")
    bad = tidegauge("bench", "validate", "osic", osic.public / "test.csv", "--prepared", prepared)
    assert bad.returncode == 1
    assert bad.stdout.startswith("Submission invalid!\n- missing columns")
    report = tmp_path / "deep" / "report.json"
    graded = tidegauge("bench", "grade", "osic", sample, "--prepared", prepared, "--report", report)
    assert graded.returncode == 0
    assert json.loads(graded.stdout) == json.loads(report.read_text())
    invalid = tidegauge("bench", "grade", "osic", osic.public / "test.csv", "--prepared", prepared)
    assert invalid.returncode == 1
    assert json.loads(invalid.stdout)["valid_submission"] is False


@pytest.mark.parametrize(
    "arguments",
    [
        ["validate", "osic", "none.csv", "--prepared", "PREPARED"],
        ["validate", "nope", "none.csv", "--prepared", "PREPARED"],
        ["validate", "osic", "none.csv", "--prepared", "nowhere"],
        ["validate", "osic"],
        ["prepare", "osic", "--out", "x"],
        ["prepare", "osic", "--out", "x", "--raw", "y", "--simulate"],
        ["prepare", "osic", "--out", "x", "--raw", "nowhere"],
        ["grade", "osic", "none.csv", "--prepared", "PREPARED", "--leaderboard", "nowhere.csv"],
        ["workspace", "osic", "--prepared", "PREPARED", "--out", "PREPARED"],
        ["workspace", "osic", "--prepared", "PREPARED", "--out", "w", "--hours", "-1"],
        ["serve", "osic", "--prepared", "PREPARED", "--host", "999.1.1.1"],
        ["run", "osic", "--prepared", "PREPARED", "--out", "o", "--agent", "true", "--steps", "0"],
        ["run", "osic", "--prepared", "PREPARED", "--out", "o", "--agent", "'"],
        ["run", "surge", "--prepared", "PREPARED", "--out", "o", "--agent", "true"],
        ["similar", "nowhere", "--against", "nowhere"],
    ],
    ids=lambda arguments: " ".join(arguments[:1] + arguments[2:3] + arguments[-2:]),
)
def test_bad_input_exits_2_without_a_traceback(
    arguments: list[str], osic: Prepared, tmp_path: Path, tidegauge: Run
) -> None:
    named = [str(osic.public.parent) if word == "PREPARED" else word for word in arguments]
    done = tidegauge("bench", *named, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.strip()
    assert done.stdout == ""


def test_list_names_both_competitions(tidegauge: Run) -> None:
    rows = json.loads(tidegauge("bench", "list", "--json").stdout)["competitions"]
    assert {row["name"]: row["is_lower_better"] for row in rows} == {"osic": False, "surge": True}


def test_workspace_holds_exactly_what_the_agent_may_see(
    osic: Prepared, tmp_path: Path, tidegauge: Run
) -> None:
    out = tmp_path / "w"
    made = tidegauge(
        "bench", "workspace", "osic", "--prepared", osic.public.parent, "--out", out, "--hours", 2
    )
    assert made.stdout.strip() == str(out)
    assert sorted(path.name for path in out.iterdir()) == [
        "input", "instructions.txt", "submission", "validate_submission.sh",
    ]  # fmt: skip
    assert sorted(path.name for path in (out / "input").iterdir()) == [
        "description.md", "sample_submission.csv", "test.csv", "train.csv",
    ]  # fmt: skip
    instructions = (out / "instructions.txt").read_text()
    for part in (
        "submission/submission.csv",
        "5001",
        "2 hours",
        "500 steps",
        "rules win",
        "by hand",
        "solutions",
    ):
        assert part in instructions
    assert (out / "validate_submission.sh").stat().st_mode & 0o111
    again = tidegauge("bench", "workspace", "osic", "--prepared", osic.public.parent, "--out", out)
    assert again.returncode == 2
    assert "not empty" in again.stderr


def test_shipped_agents_run_by_name_and_seeds_repeat(
    osic: Prepared, tmp_path: Path, tidegauge: Run
) -> None:
    common = ["--prepared", osic.public.parent, "--out", tmp_path / "o", "--hours", 0.02, "-q",
              "--isolation", "none"]  # fmt: skip
    naive = tidegauge("bench", "run", "osic", "--agent", "naive", "--seeds", 2, *common)
    assert naive.returncode == 0
    result = json.loads(naive.stdout)
    assert result["total_valid_submissions"] == 2
    assert [report["seed"] for report in result["competition_reports"]] == [1, 2]
    sample = json.loads(tidegauge("bench", "run", "osic", "--agent", "sample", *common).stdout)
    assert sample["alias"] == "sample"
    assert sample["score"] < result["competition_reports"][0]["score"]
    nothing = tidegauge("bench", "run", "osic", "--agent", "true", *common)
    assert nothing.returncode == 1  # it ran, and left no submission
    assert len((tmp_path / "o" / "runs.jsonl").read_text().splitlines()) == 4
    checked = tidegauge("horizon", "check", tmp_path / "o" / "runs.jsonl")
    assert checked.returncode == 0, checked.stderr
