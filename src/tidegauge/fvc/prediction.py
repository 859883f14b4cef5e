"""A model fitted on a folder, and forecasts by a saved one from every visit patients have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tidegauge.fvc.data.cohort import Cohort
from tidegauge.fvc.data.folder import (
    EVERYTHING,
    FeatureSource,
    add_features,
    read_test,
    read_training,
)
from tidegauge.fvc.followup import FollowUp
from tidegauge.fvc.selection import FittedModel, fit_model
from tidegauge.fvc.store import load_model
from tidegauge.fvc.submit import write_forecast
from tidegauge.progress import SILENT, Progress


def fit(
    folder: Path,
    *,
    source: FeatureSource = EVERYTHING,
    seed: int = 1,
    workers: int | None = None,
    progress: Progress = SILENT,
) -> FittedModel:
    """Choose a forecaster by inner cross-validation on train.csv and fit it on everyone.

    Parameters
    ----------
    folder : Path
        With train.csv, and perhaps scans in ``train/<Patient>``.
    source : FeatureSource
        Scans of the folder, a table of features, or both.

    Raises
    ------
    InputError
        A fault of the tables.

    Examples
    --------
    >>> from tidegauge.fvc import fit
    >>> fit(Path("cohort")).chosen  # doctest: +SKIP
    """
    training = read_training(folder, progress=progress)
    training = add_features(training, folder, "train", source, workers=workers, progress=progress)
    return fit_model(training, seed=seed, workers=workers, progress=progress)


def predict(
    model_folder: Path,
    folder: Path,
    output: Path,
    *,
    source: FeatureSource = EVERYTHING,
    first_only: bool = False,
    workers: int | None = None,
    progress: Progress = SILENT,
) -> int:
    """Write a submission for a test folder and return how many rows it has.

    Of patients with one visit it is what `solve` would have written.

    Parameters
    ----------
    model_folder : Path
        What `fit` wrote.
    folder : Path
        With test.csv and sample_submission.csv.
    first_only : bool
        Leave later visits of test.csv out of the forecast.

    Raises
    ------
    InputError
        The model cannot be read, or a fault of the tables.

    Examples
    --------
    >>> from tidegauge.fvc import predict
    >>> predict(Path("model"), Path("cohort"), Path("submission.csv"))  # doctest: +SKIP
    """
    model = load_model(model_folder)
    test = read_test(folder, first_only=first_only, progress=progress)
    cohort = measure_for(
        model, test.cohort, folder, source=source, workers=workers, progress=progress
    )
    seen = cohort.later_visits(0 if first_only else None)
    write_forecast(FollowUp(model.blend, model.outlook, seen), replace(test, cohort=cohort), output)
    return len(test.asked.keys)


def measure_for(
    model: FittedModel,
    cohort: Cohort,
    folder: Path,
    *,
    part: str = "test",
    source: FeatureSource = EVERYTHING,
    workers: int | None = None,
    progress: Progress = SILENT,
) -> Cohort:
    """Return patients with the features a model was fitted with, missing where there are none."""
    names = model.feature_names
    if not names:
        return cohort
    if not source.is_there(folder, part):
        progress.note(f"{folder / part}: no scans; the features of the model are missing")
    return add_features(
        cohort, folder, part, source, names=names, workers=workers, progress=progress
    )
