"""A simulated cohort, once for all tests of `fvc`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegauge.fvc.data.cohort import Cohort
from tidegauge.fvc.data.folder import read_training
from tidegauge.simulate.osic import simulate_cohort, write_input


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An input folder of 60 patients, a tenth of them to forecast."""
    place = tmp_path_factory.mktemp("input")
    write_input(simulate_cohort(n_patients=60, seed=3), place, seed=3)
    return place


@pytest.fixture(scope="session")
def cohort(folder: Path) -> Cohort:
    """Its training patients."""
    return read_training(folder)
