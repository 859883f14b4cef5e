"""Forecasts of a test folder by a saved model: what `solve` would have written for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tidegauge.fvc.data.cohort import Cohort
from tidegauge.fvc.data.folder import add_scans, has_scans, read_test, without_scans
from tidegauge.fvc.store import SavedModel, load_model
from tidegauge.fvc.submit import write_forecast
from tidegauge.progress import SILENT, Progress


def predict(
    model_folder: Path,
    folder: Path,
    output: Path,
    *,
    workers: int | None = None,
    progress: Progress = SILENT,
) -> int:
    """Write a submission for a test folder and return how many rows it has.

    Raises
    ------
    InputError
        The model cannot be read, or a fault of the tables.
    """
    model = load_model(model_folder)
    test = read_test(folder, progress=progress)
    cohort = measure_for(model, test.cohort, folder, workers=workers, progress=progress)
    write_forecast(model.blend, replace(test, cohort=cohort), output)
    return len(test.asked.keys)


def measure_for(
    model: SavedModel,
    cohort: Cohort,
    folder: Path,
    *,
    part: str = "test",
    workers: int | None = None,
    progress: Progress = SILENT,
) -> Cohort:
    """Return patients with the scan features a model was fitted with, missing where no scan is."""
    names = model.feature_names
    if not names:
        return cohort
    if not has_scans(folder, part):
        progress.note(f"{folder / part}: no scans; the features of the model are missing")
        return without_scans(cohort, names)
    return add_scans(cohort, folder / part, names=names, workers=workers, progress=progress)
