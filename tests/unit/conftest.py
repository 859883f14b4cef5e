"""The command line in this process, and folders that ``horizon fit`` wrote, once a session.

Tests that spoil such a folder copy it first.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from calls import Call, Said
from sharing import shared_folder
from tidegauge.cli.main import main
from tidegauge.horizon import Runs, fit, fit_exact, fit_regression, read_runs
from tidegauge.horizon.model.option_file import make_model
from tidegauge.simulate.records import write_simulation
from tidegauge.simulate.runs import scaled_shape, simulate_runs

QUICK = {"draws": 500, "tune": 400, "chains": 2, "seed": 3}


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Run the command line in this process; an exception that escapes it fails the test."""

    def run(*arguments: object) -> Said:
        with pytest.raises(SystemExit) as exit_:
            main([str(argument) for argument in arguments])
        code = exit_.value.code
        assert isinstance(code, int)
        return Said(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def simulated_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of 8 agents on 60 tasks, with release dates beside them."""

    def make(folder: Path) -> None:
        shape = scaled_shape(agents=8, tasks=60, rows=None)
        write_simulation(simulate_runs(shape, seed=1), folder)

    return shared_folder(tmp_path_factory, "simulated", make)


@pytest.fixture(scope="session")
def few_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of 4 agents on 10 tasks, drawn from the full model, with release dates beside them."""

    def make(folder: Path) -> None:
        shape = scaled_shape(agents=4, tasks=10, rows=200)
        write_simulation(simulate_runs(shape, seed=1, full=True), folder)

    return shared_folder(tmp_path_factory, "few_runs", make)


@pytest.fixture(scope="session")
def dated_runs(simulated_runs: Path) -> Runs:
    """Those runs, read, with their release dates."""
    dates = simulated_runs / "release_dates.yaml"
    return read_runs(simulated_runs / "runs.jsonl", release_dates=dates)


@pytest.fixture(scope="session")
def fit_folder(dated_runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fit of the core model, with release dates."""
    return shared_folder(tmp_path_factory, "fit", lambda to: fit(dated_runs, **QUICK).save(to))


@pytest.fixture(scope="session")
def full_folder(dated_runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short fit of the full model with many of its options on."""

    def make(folder: Path) -> None:
        options = {"human_scale": "source", "pooling": "lab", "trend": "kink", "rounding": True}
        choice = make_model("full", **options)
        fit(dated_runs, choice, draws=60, tune=80, chains=2, seed=3).save(folder)

    return shared_folder(tmp_path_factory, "full", make)


@pytest.fixture(scope="session")
def regression_folder(dated_runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """METR's regression of the same runs, with release dates."""

    def make(folder: Path) -> None:
        fit_regression(dated_runs, replicates=40, seed=3).save(folder)

    return shared_folder(tmp_path_factory, "regression", make)


@pytest.fixture(scope="session")
def exact_folder(simulated_runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each agent's exact posterior, without release dates."""
    runs = read_runs(simulated_runs / "runs.jsonl")
    return shared_folder(tmp_path_factory, "exact", lambda to: fit_exact(runs).save(to))
