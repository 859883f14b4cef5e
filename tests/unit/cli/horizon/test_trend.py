"""``horizon trend`` and ``horizon fit --trend`` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from tidegauge.cli.main import cli

SIZES = ("--draws", "80", "--tune", "80", "--chains", "2", "--seed", "2", "-q")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["horizon", *map(str, arguments)], standalone_mode=False)


@pytest.fixture(scope="module")
def written(simulated_runs: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    folder = tmp_path_factory.mktemp("trend_command")
    dates = simulated_runs / "release_dates.yaml"
    runs = simulated_runs / "runs.jsonl"
    more = ("--release-dates", dates, "--success", "0.999", *SIZES)
    return folder, run("trend", runs, "--out", folder, *more)


def test_every_file_is_written_and_says_what_did_not_converge(
    written: tuple[Path, Result],
) -> None:
    folder, done = written
    assert done.exception is None, done.exception
    names = {path.name for path in folder.iterdir()}
    assert names == {
        *("trends.csv", "trend_dates.csv", "trend_fan.csv", "shapes.csv", "agents.csv"),
        *("manifest.json", "plots"),
    }
    manifest = json.loads((folder / "manifest.json").read_text())
    # So few draws: some fit will not have converged, which is said and is the exit code.
    assert done.return_value == (0 if manifest["converged"] else 1)
    assert ("not converged: trend" in done.stderr) == (not manifest["converged"])
    assert {path.name for path in (folder / "plots").iterdir()} == {
        f"{name}.{ending}"
        for name in ("trends", "doubling", "surface", "reliability")
        for ending in ("png", "svg")
    }


def test_tables_agree_with_each_other(written: tuple[Path, Result]) -> None:
    folder, done = written
    shapes = pd.read_csv(folder / "shapes.csv")
    trends = pd.read_csv(folder / "trends.csv")
    agents = pd.read_csv(folder / "agents.csv")
    assert list(shapes["shape"]) == ["linear", "quadratic", "kink", "logistic"]
    assert shapes["weight"].sum() == pytest.approx(1)
    assert shapes["pseudo_bma"].sum() == pytest.approx(1)
    assert set(trends["shape"]) == {*shapes["shape"], "stacked", "pseudo-BMA"}
    for shape in shapes.to_dict("records"):
        total = agents[f"log_density_{shape['shape']}"].sum()
        assert total == pytest.approx(shape["elpd"])
        later = agents[f"future_log_density_{shape['shape']}"]
        assert later.sum() == pytest.approx(shape["future_elpd"])
        assert later.notna().sum() == shape["future_agents"] == 4
    assert shapes["elpd_difference"].max() == 0
    for shape in trends["shape"].unique():
        assert shape in done.stdout
    fan = pd.read_csv(folder / "trend_fan.csv")
    quantiles = fan[["q0.025", "q0.25", "q0.5", "q0.75", "q0.975"]].to_numpy()
    assert (np.diff(quantiles, axis=1) >= 0).all()


def test_fit_with_a_trend_writes_it_and_one_without_removes_it(
    simulated_runs: Path, tmp_path: Path
) -> None:
    runs, dates = simulated_runs / "runs.jsonl", simulated_runs / "release_dates.yaml"
    more = ("--out", tmp_path, "--release-dates", dates, *SIZES)
    run("fit", runs, "--model", "full", "--residual", "none", "--trend", "linear", *more)
    table = pd.read_csv(tmp_path / "trend.csv").set_index(["quantity", "success"])["median"]
    for rate in (0.5, 0.8):
        yearly = table["doublings_per_year", rate]
        assert table["doubling_months", rate] == pytest.approx(12 / yearly, rel=0.02)
    assert (tmp_path / "trend_fan.csv").is_file()
    run("fit", runs, "--method", "exact", "--out", tmp_path, "-q")
    assert not (tmp_path / "trend.csv").exists()


def test_a_success_rate_that_was_asked_for_is_in_every_table(
    written: tuple[Path, Result],
) -> None:
    folder, done = written
    rates = {0.5, 0.8, 0.9, 0.95, 0.99, 0.999}
    for name in ("trends", "trend_dates", "trend_fan"):
        assert set(pd.read_csv(folder / f"{name}.csv")["success"]) == rates
    assert "99.9 %" in done.stdout
    settings = json.loads((folder / "manifest.json").read_text())["settings"]
    assert settings["success"] == sorted(rates)


def test_no_table_holds_a_number_that_is_none(written: tuple[Path, Result]) -> None:
    folder, _ = written
    trends = pd.read_csv(folder / "trends.csv")
    assert not trends[trends["quantity"] != "rising_share"].isna().any(axis=None)
    for name in ("trend_dates", "trend_fan", "shapes"):
        assert not pd.read_csv(folder / f"{name}.csv").isna().any(axis=None), name


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "a trend needs --release-dates"),
        (("--since", "2090"), "0 of 8 agents have a release date since 2090-01-01"),
        (("--since", "2025-05"), "1 of 8 agents have a release date since 2025-05-01"),
        (("--success", "1"), "1.0 is not in the range 0<x<1"),
        (("--model", "full", "--trend", "kink"), "every shape is fitted; leave it out"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_fitted(
    more: tuple[str, ...], said: str, simulated_runs: Path, tmp_path: Path
) -> None:
    dates = ("--release-dates", simulated_runs / "release_dates.yaml") if more else ()
    out = tmp_path / "out"
    done = run("trend", simulated_runs / "runs.jsonl", "--out", out, *dates, *more, "-q")
    assert said in str(done.exception)
    assert not out.exists()
