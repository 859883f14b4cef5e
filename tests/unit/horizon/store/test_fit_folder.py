"""The files of a fit: exactly the contract's, the same bytes for a seed, whole or not there."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import random
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tidegauge.horizon as th
from builders import TASKS, agent_row, human_row, small_rows, write_rows
from tidegauge.horizon import HorizonFit, HorizonResult
from tidegauge.horizon.model.option_file import make_model
from tidegauge.horizon.model.options import DEFAULT_PRIORS, DEFAULT_SAMPLER

QUICK = {"draws": 60, "tune": 60, "chains": 2, "seed": 3}
TABLES = (
    *("horizons.csv", "horizon_draws.csv", "tasks.csv", "parameters.csv", "pairs.csv"),
    "domains.csv",
)
FILES = {*TABLES, "diagnostics.json", "posterior.nc", "manifest.json"}

METR_COLUMNS = [
    *("agent", "coefficient", "intercept", "bce_loss", "average"),
    *("p50", "p50q0.025", "p50q0.975", "p80", "p80q0.025", "p80q0.975"),
    *("1-4 min", "4-16 min", "16-64 min", "64-256 min", "256-960 min", "960-2880 min"),
    "release_date",
]
OUR_COLUMNS = [
    *("p50_typical", "p50_typicalq0.025", "p50_typicalq0.975"),
    *("p80_typical", "p80_typicalq0.025", "p80_typicalq0.975"),
    *("p50_beyond", "n_runs", "estimand"),
]


def rows_of_every_kind() -> list[dict[str, Any]]:
    estimate = {"human_source": "estimate", "human_minutes": 1500.0}
    both = {"human_source": "qa", "human_minutes": 5.0}
    return [
        *small_rows(),
        human_row("code/fix", minutes=90, score_binarized=0, human_minutes=30.0),
        agent_row("code/long", alias="agent-b", score_binarized=0, **estimate),
        agent_row("code/both", **both),
        human_row("code/both", minutes=3, **both),
        agent_row("code/failed", human_minutes=70.0),
        human_row("code/failed", minutes=60, score_binarized=0, human_minutes=70.0),
    ]


def quick_fit(runs: Path, **options: Any) -> HorizonFit:
    return th.fit(th.read_runs(runs), **{**QUICK, **options})


def other_fit(runs: Path, method: str) -> HorizonResult:
    read = th.read_runs(runs)
    return th.fit_exact(read) if method == "exact" else th.fit_regression(read, replicates=20)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("runs") / "runs.jsonl", rows_of_every_kind())


@pytest.fixture(scope="module")
def fit(runs: Path) -> HorizonFit:
    return quick_fit(runs)


@pytest.fixture(scope="module")
def folder(fit: HorizonFit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fit")
    fit.save(path)
    return path


def test_the_files_are_the_contracts_and_no_others(folder: Path) -> None:
    assert set(os.listdir(folder)) == FILES


def test_horizons_have_metrs_columns_in_their_order_then_ours(folder: Path) -> None:
    table = pd.read_csv(folder / "horizons.csv")
    assert table.columns.tolist() == METR_COLUMNS + OUR_COLUMNS
    assert table["agent"].tolist() == ["agent-a", "agent-b"]
    n_runs = [
        sum(row["alias"] == agent for row in rows_of_every_kind()) for agent in table["agent"]
    ]
    assert table["n_runs"].tolist() == n_runs
    assert (table["coefficient"] < 0).all()
    assert table["p50_beyond"].between(0, 1).all()


@pytest.mark.parametrize("method", ["regression", "exact"])
def test_every_method_writes_the_same_columns(runs: Path, tmp_path: Path, method: str) -> None:
    other_fit(runs, method).save(tmp_path)
    table = pd.read_csv(tmp_path / "horizons.csv")
    assert table.columns.tolist() == METR_COLUMNS + OUR_COLUMNS
    assert set(os.listdir(tmp_path)) == {
        *("horizons.csv", "horizon_draws.csv", "pairs.csv", "diagnostics.json", "manifest.json"),
        "estimate.nc",
    }


def test_medians_in_the_table_are_those_of_the_draws(fit: HorizonFit, folder: Path) -> None:
    table = pd.read_csv(folder / "horizons.csv")
    alpha, beta = fit.point.alpha, fit.point.beta
    np.testing.assert_allclose(table["intercept"], np.median(alpha, axis=(0, 1)), rtol=1e-9)
    np.testing.assert_allclose(table["coefficient"], np.median(beta, axis=(0, 1)), rtol=1e-9)
    log2_p80 = (np.log(4) - alpha) / beta
    for column, quantile in (("p80", 0.5), ("p80q0.025", 0.025), ("p80q0.975", 0.975)):
        expected = 2 ** np.quantile(log2_p80, quantile, axis=(0, 1))
        np.testing.assert_allclose(table[column], expected, rtol=1e-8)
    beyond = np.mean(-alpha / beta > np.log2(1500), axis=(0, 1))
    np.testing.assert_allclose(table["p50_beyond"], beyond)


def test_success_buckets_are_weighted_shares_of_the_runs(folder: Path) -> None:
    table = pd.read_csv(folder / "horizons.csv").set_index("agent")
    won = [row for row in small_rows() if row["alias"] == "agent-b" and row["score_binarized"]]
    two_minutes = sum(row["human_minutes"] == 2.0 for row in won) / 6
    assert table.loc["agent-b", "1-4 min"] == pytest.approx(two_minutes)  # its only task there
    assert table.loc["agent-b", "960-2880 min"] == 0.0
    assert np.isnan(table.loc["agent-a", "960-2880 min"])  # never tried


def test_tasks_have_their_columns_and_their_evidence(folder: Path) -> None:
    table = pd.read_csv(folder / "tasks.csv")
    assert table.columns.tolist() == [
        *("task_id", "task_family", "source_type", "n_human_runs", "human_minutes"),
        *("log2_mean", "log2_sd", "log2_q0.025", "log2_q0.975", "provenance"),
    ]
    evidence = table.set_index("task_id")[["source_type", "n_human_runs"]].T.to_dict("list")
    assert evidence == {
        **{task: ["baseline", 3] for _, task, _ in TASKS},
        "code/long": ["estimate", 0],
        "code/both": ["both", 1],
        "code/failed": ["estimate", 0],
    }
    assert (table["log2_q0.025"] < table["log2_mean"]).all()
    assert (table["log2_mean"] < table["log2_q0.975"]).all()


def test_parameters_have_their_columns_and_every_parameter(folder: Path) -> None:
    table = pd.read_csv(folder / "parameters.csv")
    assert table.columns.tolist() == [
        *("parameter", "mean", "sd", "q0.025", "q0.5", "q0.975", "r_hat", "ess_bulk", "ess_tail")
    ]
    tasks = [*(task for _, task, _ in TASKS), "code/long", "code/both", "code/failed"]
    assert set(table["parameter"]) == {
        *("mu_global", "sigma_global", "sigma_family", "sigma_human", "sigma_estimate"),
        *(f"mu_family[{family}]" for family in ("words", "code", "research")),
        *(f"mu_task[{task}]" for task in tasks),
        *(f"{name}[{agent}]" for name in ("alpha", "beta") for agent in ("agent-a", "agent-b")),
    }


def test_diagnostics_have_their_keys(folder: Path) -> None:
    found = json.loads((folder / "diagnostics.json").read_text())
    assert set(found) == {
        *("converged", "r_hat_max", "ess_bulk_min", "ess_tail_min", "divergences", "draws"),
        *("chains", "attempts", "seconds", "checks"),
    }
    assert (found["draws"], found["chains"], found["attempts"]) == (60, 2, 1)
    assert set(found["seconds"]) == {"load", "compile", "sample", "total"}
    assert found["seconds"]["total"] >= found["seconds"]["sample"] > 0
    assert all(set(check) == {"name", "passed", "detail"} for check in found["checks"])
    assert all(check["passed"] in (True, False, None) for check in found["checks"])
    names = [check["name"] for check in found["checks"]]
    assert names[:4] == ["r_hat", "ess_bulk", "ess_tail", "divergences"]
    worst = pd.read_csv(folder / "parameters.csv")["ess_bulk"].min()
    assert found["ess_bulk_min"] == pytest.approx(worst, rel=1e-9)


def test_the_manifest_is_enough_to_repeat_the_fit(folder: Path, runs: Path) -> None:
    found = json.loads((folder / "manifest.json").read_text())
    assert found["kind"] == "horizon/core"
    assert found["inputs"] == {str(runs): hashlib.sha256(runs.read_bytes()).hexdigest()}
    settings = found["settings"]
    assert settings["sampler"] == dataclasses.asdict(dataclasses.replace(DEFAULT_SAMPLER, **QUICK))
    assert settings["options"]["failures"] == "ignore"
    assert settings["model"] == "core"
    names = ("mu_global", "sigma_global", "sigma_family", "sigma_human", "sigma_estimate", "alpha")
    assert settings["priors"] == {
        "beta": dataclasses.asdict(DEFAULT_PRIORS.beta),
        **{n: {**dataclasses.asdict(getattr(DEFAULT_PRIORS, n)), "upper": "inf"} for n in names},
    }
    assert {"tidegauge", "python", "libraries", "created_at"} <= set(found)
    assert found["notes"] == [
        "1 baseline tasks have no successful human run: their human_minutes counts as one estimate"
    ]


def test_the_posterior_opens_in_arviz_and_its_loo_is_computed(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few draws: Pareto k is high, as it should be
        import arviz as az

        trace = az.from_netcdf(folder / "posterior.nc")
        groups = {"posterior", "sample_stats", "log_likelihood", "observed_data", "constant_data"}
        assert set(trace.groups()) == groups
        assert dict(trace.posterior.sizes) == {
            **{"chain": 2, "draw": 60, "agent": 2, "task": 8, "family": 3}
        }
        assert trace.posterior["task"].values.tolist()[:2] == ["code/both", "code/failed"]
        assert {"diverging", "energy", "lp"} <= set(trace.sample_stats)
        loo = {
            name: az.loo(trace, var_name=name)
            for name in ("successes", "log2_duration", "log2_estimate")
        }
    tried = [
        (row["alias"], row["task_id"]) for row in rows_of_every_kind() if row["alias"] != "human"
    ]
    assert {name: found.n_data_points for name, found in loo.items()} == {
        "successes": len(set(tried)),
        "log2_duration": 16,
        "log2_estimate": 3,
    }
    assert all(np.isfinite(found.elpd_loo) for found in loo.values())
    assert trace.observed_data["attempts"].sum() == len(tried)
    trace.close()


def test_stored_log_likelihoods_are_those_of_the_model_by_hand(fit: HorizonFit) -> None:
    point, design = fit.point, fit.design
    trace = fit.idata
    cell, run = 3, 5
    a = design.agents.index(str(trace.log_likelihood["cell_agent"].values[cell]))
    t = design.tasks.index(str(trace.log_likelihood["cell_task"].values[cell]))
    win = 1 / (1 + np.exp(-(point.alpha[0, 7, a] + point.beta[0, 7, a] * point.mu_task[0, 7, t])))
    from scipy import stats

    binomial = stats.binom.logpmf(design.successes[a, t], design.attempts[a, t], win)
    assert trace.log_likelihood["successes"].values[0, 7, cell] == pytest.approx(binomial, rel=1e-5)
    mean, sd = point.mu_task[1, 9, design.run_task[run]], point.sigma_human[1, 9]
    normal = stats.norm.logpdf(design.run_log2[run], mean, sd)
    assert trace.log_likelihood["log2_duration"].values[1, 9, run] == pytest.approx(
        normal, rel=1e-5
    )


def test_censored_failures_have_a_likelihood_of_their_own(runs: Path) -> None:
    fit = quick_fit(runs, model=make_model("core", failures="censor"))
    assert fit.idata.log_likelihood["log2_failed"].sizes["failed"] == 2


def tables_of(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in TABLES if (folder / name).exists()}


def test_the_same_seed_gives_the_same_bytes_in_any_order_of_rows(
    runs: Path, folder: Path, tmp_path: Path
) -> None:
    rows = rows_of_every_kind()
    shuffled = write_rows(tmp_path / "b.jsonl", random.Random(5).sample(rows, len(rows)))
    for name, source in (("again", runs), ("shuffled", shuffled)):
        quick_fit(source).save(tmp_path / name)
        assert tables_of(tmp_path / name) == tables_of(folder), name
    quick_fit(runs, seed=4).save(tmp_path / "other")
    assert tables_of(tmp_path / "other")["horizons.csv"] != tables_of(folder)["horizons.csv"]


@pytest.mark.parametrize("method", ["regression", "exact"])
def test_the_other_methods_give_the_same_bytes_too(runs: Path, tmp_path: Path, method: str) -> None:
    rows = rows_of_every_kind()
    shuffled = write_rows(tmp_path / "b.jsonl", random.Random(5).sample(rows, len(rows)))
    for name, source in (("one", runs), ("other", shuffled)):
        other_fit(source, method).save(tmp_path / name)
    assert tables_of(tmp_path / "one") == tables_of(tmp_path / "other")


def test_another_method_in_the_same_folder_leaves_nothing_of_the_first(
    fit: HorizonFit, runs: Path, tmp_path: Path
) -> None:
    (tmp_path / "notes.md").write_text("mine")
    fit.save(tmp_path)
    (tmp_path / "plots").mkdir()
    (tmp_path / "plots" / "trace.png").write_bytes(b"chart")
    assert set(os.listdir(tmp_path)) == {*FILES, "plots", "notes.md"}
    other_fit(runs, "exact").save(tmp_path)
    assert set(os.listdir(tmp_path)) == {
        *("horizons.csv", "horizon_draws.csv", "pairs.csv", "diagnostics.json", "manifest.json"),
        *("estimate.nc", "notes.md"),
    }
    assert (tmp_path / "notes.md").read_text() == "mine"
    assert json.loads((tmp_path / "manifest.json").read_text())["kind"] == "horizon/exact"


def test_a_writer_that_fails_half_way_leaves_the_old_files(fit: HorizonFit, tmp_path: Path) -> None:
    fit.save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    with pytest.raises(TypeError, match="not JSON serializable"):
        dataclasses.replace(fit, trend_agents={"x": object()}).save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_kill_during_fit_leaves_the_old_files_whole_or_none(runs: Path, tmp_path: Path) -> None:
    program = Path(__file__).with_name("killed_fits.py")
    done = subprocess.run(
        [sys.executable, program, runs, tmp_path], capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stderr
    left = json.loads(done.stdout.splitlines()[-1])
    assert len(left["fresh"]) == len(left["over"]) == 6
    assert set(left["fresh"]) <= {"nothing", "2"}
    assert set(left["over"]) <= {"1", "2"}
    assert "nothing" in left["fresh"]  # some kills came before the end
    assert "1" in left["over"]
