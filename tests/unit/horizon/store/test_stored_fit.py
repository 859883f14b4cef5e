"""A stored fit is read back as it was written, or refused with the file's name and a remedy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import arviz as az
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from tidegauge.errors import InputError
from tidegauge.horizon.data.counts import read_tally
from tidegauge.horizon.data.design import build_design
from tidegauge.horizon.horizons.curves import success_curves
from tidegauge.horizon.store.stored_fit import read_fit

FILES = (
    *("horizons.csv", "tasks.csv", "parameters.csv", "diagnostics.json", "posterior.nc"),
    "manifest.json",
)


@pytest.fixture
def spoilt(fit_folder: Path, tmp_path: Path) -> Path:
    """A copy of the fit that a test may spoil."""
    return Path(shutil.copytree(fit_folder, tmp_path / "fit"))


def edit_json(path: Path, **fields: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def edit_cell(path: Path, column: str, value: str, row: int = 0) -> None:
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    table.loc[row, column] = value
    table.to_csv(path, index=False)


def test_draws_and_counts_are_those_of_the_fit(fit_folder: Path, simulated_runs: Path) -> None:
    fit = read_fit(fit_folder)
    trace = az.from_netcdf(fit_folder / "posterior.nc")
    design = build_design(read_tally([simulated_runs / "runs.jsonl"]))
    assert fit.posterior is not None
    assert fit.tasks is not None
    alpha = np.asarray(trace.posterior["alpha"]).reshape(-1, 8)
    np.testing.assert_array_equal(fit.posterior.alpha, alpha)
    mu_task = np.asarray(trace.posterior["mu_task"]).reshape(-1, 60)
    np.testing.assert_array_equal(fit.posterior.mu_task, mu_task[fit.posterior.chosen])
    np.testing.assert_array_equal(fit.posterior.counts.attempts, design.attempts)
    np.testing.assert_array_equal(fit.posterior.counts.successes, design.successes)
    assert tuple(fit.tasks["task_id"]) == design.tasks
    assert fit.manifest.seed == 3
    assert fit.manifest.options["residual"] == "none"
    assert fit.release_dates[0] is not None


def test_rows_of_a_table_may_come_in_any_order(spoilt: Path) -> None:
    before = read_fit(spoilt)
    for name in ("horizons.csv", "tasks.csv"):
        pd.read_csv(spoilt / name)[::-1].to_csv(spoilt / name, index=False)
    after = read_fit(spoilt)
    assert before.posterior is not None
    assert after.posterior is not None
    np.testing.assert_array_equal(after.posterior.beta, before.posterior.beta[:, ::-1])
    np.testing.assert_array_equal(after.posterior.mu_task, before.posterior.mu_task[:, ::-1])
    counts = before.posterior.counts.attempts[::-1, ::-1]
    np.testing.assert_array_equal(after.posterior.counts.attempts, counts)


def test_other_methods_need_no_posterior(frequentist_folder: Path, grid_folder: Path) -> None:
    for folder in (frequentist_folder, grid_folder):
        fit = read_fit(folder)
        assert fit.posterior is None
        assert fit.tasks is None
        assert len(fit.horizons) == 8
    assert read_fit(frequentist_folder).manifest.seed == 3


@pytest.mark.parametrize("name", ["NA", "null", "007", "1e5", "nan", ""])
def test_agents_keep_the_names_they_have(
    frequentist_folder: Path, tmp_path: Path, name: str
) -> None:
    folder = Path(shutil.copytree(frequentist_folder, tmp_path / "fit"))
    edit_cell(folder / "horizons.csv", "agent", name)
    assert read_fit(folder).horizons["agent"].iloc[0] == name


@pytest.mark.parametrize("name", FILES)
def test_missing_file_is_named(spoilt: Path, name: str) -> None:
    (spoilt / name).unlink()
    with pytest.raises(InputError, match=rf"{name}.*tidegauge horizon fit RUNS --out"):
        read_fit(spoilt)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["empty", "binary"])
def test_damaged_file_is_named(spoilt: Path, name: str, damage: str) -> None:
    noise = np.random.default_rng(1).bytes(4000)
    (spoilt / name).write_bytes({"empty": b"", "binary": noise}[damage])
    with pytest.raises(InputError, match=name):
        read_fit(spoilt)


@pytest.mark.parametrize("name", ["diagnostics.json", "posterior.nc", "manifest.json"])
def test_half_a_file_is_named(spoilt: Path, name: str) -> None:
    whole = (spoilt / name).read_bytes()
    (spoilt / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=name):
        read_fit(spoilt)


@pytest.mark.parametrize("name", ["horizons.csv", "tasks.csv"])
def test_table_that_lost_its_last_rows_no_longer_goes_with_the_posterior(
    spoilt: Path, name: str
) -> None:
    lines = (spoilt / name).read_text().splitlines(keepends=True)
    (spoilt / name).write_text("".join(lines[:-2]))
    with pytest.raises(InputError, match=r"posterior\.nc: its (agents|tasks) are not those"):
        read_fit(spoilt)


SPOIL: dict[str, tuple[Callable[[Path], None], str]] = {
    "another kind": (
        lambda f: edit_json(f / "manifest.json", kind="fvc/model"),
        r"kind=fvc/model: not a horizon fit",
    ),
    "notes of the wrong type": (
        lambda f: edit_json(f / "manifest.json", notes=3),
        r"manifest\.json: .*notes",
    ),
    "checks of the wrong type": (
        lambda f: edit_json(f / "diagnostics.json", checks=[{"name": "r_hat"}]),
        r"diagnostics\.json: .*passed",
    ),
    "a text for a number": (
        lambda f: edit_cell(f / "horizons.csv", "p80", "long", row=2),
        r"horizons\.csv:4: p80=long: not a number",
    ),
    "a bad date": (
        lambda f: edit_cell(f / "horizons.csv", "release_date", "soon", row=1),
        r"horizons\.csv:3: release_date=soon",
    ),
    "an agent twice": (
        lambda f: edit_cell(f / "horizons.csv", "agent", "agent-02"),
        r"agent=agent-02 is there twice",
    ),
    "a task without length": (
        lambda f: edit_cell(f / "tasks.csv", "human_minutes", "0"),
        r"tasks\.csv:2: human_minutes=0",
    ),
    "an agent of another fit": (
        lambda f: edit_cell(f / "horizons.csv", "agent", "stranger"),
        r"posterior\.nc: its agents are not those of the table",
    ),
    "a column lost": (
        lambda f: pd.read_csv(f / "horizons.csv").drop(columns="p50").to_csv(f / "horizons.csv"),
        r"horizons\.csv: no column p50",
    ),
}


@pytest.mark.parametrize("name", SPOIL)
def test_wrong_content_is_told_with_its_place(spoilt: Path, name: str) -> None:
    spoil, message = SPOIL[name]
    spoil(spoilt)
    with pytest.raises(InputError, match=message):
        read_fit(spoilt)


def test_what_is_not_a_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a folder"):
        read_fit(tmp_path / "nowhere")
    with pytest.raises(InputError, match="not a fit's"):
        read_fit(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="not a folder"):
        read_fit(tmp_path / "file")


def test_interrupted_replacement_is_refused_and_left_as_it_is(
    frequentist_folder: Path, grid_folder: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(frequentist_folder, tmp_path / "fit"))
    shutil.copytree(grid_folder, folder / ".tidegauge-commit")
    with pytest.raises(InputError, match="interrupted"):
        read_fit(folder)
    assert (folder / ".tidegauge-commit" / "manifest.json").exists()


def test_rates_seen_add_up_to_the_runs_and_the_curve_to_the_draws(fit_folder: Path) -> None:
    fit = read_fit(fit_folder)
    assert fit.posterior is not None
    for a, curve in enumerate(success_curves(fit)):
        counts = fit.posterior.counts
        assert curve.seen_runs is not None
        assert curve.seen_runs.sum() == counts.attempts[a].sum()
        won = (curve.seen_rate * curve.seen_runs).sum()
        assert won == pytest.approx(counts.successes[a].sum())
        middle = len(curve.minutes) // 2
        log2 = np.log2(curve.minutes[middle])
        draws = expit(fit.posterior.alpha[:, a] + fit.posterior.beta[:, a] * log2)
        assert curve.median[middle] == pytest.approx(np.median(draws), rel=1e-6)
        assert curve.low is not None
        assert curve.high is not None
        assert (curve.low <= curve.median).all()
        assert (curve.median <= curve.high).all()


def test_curve_without_draws_crosses_half_at_the_horizon(frequentist_folder: Path) -> None:
    for curve in success_curves(read_fit(frequentist_folder)):
        log2 = np.interp(-0.5, -curve.median, np.log2(curve.minutes))
        if curve.minutes[0] < curve.p50_minutes < curve.minutes[-1]:
            assert log2 == pytest.approx(np.log2(curve.p50_minutes), abs=0.05)
        assert curve.seen_runs is None
