"""An input folder: train.csv, test.csv, sample_submission.csv, and perhaps scans of both."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tidegauge.errors import InputError
from tidegauge.fvc.data.cohort import Cohort
from tidegauge.fvc.data.tables import Asked, read_cohort, read_questions
from tidegauge.io import make_folder
from tidegauge.progress import SILENT, Progress


@dataclass(frozen=True)
class TestSet:
    """Patients to forecast, and the rows asked for."""

    __test__ = False  # not a test case, whatever pytest makes of its name

    cohort: Cohort
    asked: Asked


def read_training(folder: Path, *, progress: Progress = SILENT) -> Cohort:
    """Read train.csv: patients with their histories.

    Raises
    ------
    InputError
        A fault of the table, or no patient with a visit after the first.
    """
    path = _table(folder, "train.csv")
    cohort = read_cohort(path, note=progress.note)
    if len(cohort.scored()) == 0:
        raise InputError(f"{path}: no patient has a second visit; there is nothing to learn from")
    return cohort


def read_patients(path: Path, *, progress: Progress = SILENT) -> Cohort:
    """Read a table of patients of whom one visit is enough."""
    return read_cohort(path, note=progress.note)


def read_test(folder: Path, *, progress: Progress = SILENT) -> TestSet:
    """Read test.csv and sample_submission.csv; of each patient, the first visit counts."""
    path = _table(folder, "test.csv")
    cohort = read_patients(path, progress=progress)
    if (n := int((~cohort.first).sum())) > 0:
        progress.note(f"{path}: {n} later visits are not used; forecasts start from the first")
    asked = read_questions(_table(folder, "sample_submission.csv"), cohort, path)
    return TestSet(cohort, asked)


def _table(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise InputError(f"{path}: not found; --input is the folder that holds {name}")
    return path


def has_scans(folder: Path, part: str) -> bool:
    """Whether the folder has a scan folder for any patient of ``train`` or ``test``."""
    place = folder / part
    return place.is_dir() and any(entry.is_dir() for entry in os.scandir(place))


def add_scans(
    cohort: Cohort,
    scans: Path,
    *,
    names: tuple[str, ...] | None = None,
    workers: int | None = None,
    progress: Progress = SILENT,
) -> Cohort:
    """Measure the scans of these patients and return the cohort with the features.

    Parameters
    ----------
    scans : Path
        One folder a patient; a missing or unreadable scan is a note and missing features.
    names : tuple of str, optional
        The features a fitted model needs, in its order; all of them by default.
    """
    from tidegauge.fvc.scans.cache import scan_features

    patients = [str(patient) for patient in cohort.baselines.patient]
    measured = scan_features(
        scans, patients, cache=cache_folder(), workers=workers, progress=progress
    )
    for warning in measured.warnings:
        progress.note(warning)
    table = measured.table.reindex(patients)
    table = table.reindex(columns=list(names)) if names is not None else table
    values = table.to_numpy(dtype=float)
    return cohort.with_features(np.asarray(values), tuple(map(str, table.columns)))


def without_scans(cohort: Cohort, names: tuple[str, ...]) -> Cohort:
    """Return the cohort with these features missing, for a model that would have used them."""
    return cohort.with_features(np.full((cohort.n_patients, len(names)), np.nan), names)


def cache_folder() -> Path | None:
    """Return where measured scans are kept between runs, or None where nothing can be kept."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(base) / "tidegauge" / "scans"
    try:
        make_folder(folder)
    except InputError:
        return None
    return folder if os.access(folder, os.W_OK) else None
