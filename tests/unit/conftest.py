"""The command line in this process, and folders that ``horizon fit`` wrote, once a session.

Tests that spoil such a folder copy it first.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calls import Call, Said
from sharing import shared_folder
from tidegauge.cli.main import main
from tidegauge.engine.config import SamplerConfig
from tidegauge.horizon.analysis import AnalysisOptions, analyse
from tidegauge.horizon.methods.regression import RegressionOptions
from tidegauge.horizon.store.fit_folder import write_outputs
from tidegauge.simulate.records import write_simulation
from tidegauge.simulate.runs import scaled_shape, simulate_runs

QUICK = SamplerConfig(draws=500, tune=400, chains=2, seed=3)


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


FitTo = Callable[..., Path]


@pytest.fixture(scope="session")
def fitted_folder(simulated_runs: Path, tmp_path_factory: pytest.TempPathFactory) -> FitTo:
    """Return a function that fits the simulated runs once a session and returns the folder."""

    def fit(name: str, **options: Any) -> Path:
        def make(folder: Path) -> None:
            chosen = {"sampler": QUICK, "patient": False, **options}
            analysis = analyse([simulated_runs / "runs.jsonl"], AnalysisOptions(**chosen))
            write_outputs(analysis.outputs, folder)

        return shared_folder(tmp_path_factory, name, make)

    return fit


@pytest.fixture(scope="session")
def fit_folder(simulated_runs: Path, fitted_folder: FitTo) -> Path:
    """A fit of the core model, with release dates."""
    return fitted_folder("fit", release_dates=simulated_runs / "release_dates.yaml")


@pytest.fixture(scope="session")
def regression_folder(simulated_runs: Path, fitted_folder: FitTo) -> Path:
    """METR's regression of the same runs, with release dates."""
    return fitted_folder(
        "regression",
        method="regression",
        release_dates=simulated_runs / "release_dates.yaml",
        regression=RegressionOptions(replicates=40),
    )


@pytest.fixture(scope="session")
def exact_folder(fitted_folder: FitTo) -> Path:
    """Each agent's exact posterior, without release dates."""
    return fitted_folder("exact", method="exact")
