"""An input folder: train.csv, test.csv, sample_submission.csv, and perhaps scans of both."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from tidegauge.errors import InputError
from tidegauge.fvc.data.cohort import Cohort
from tidegauge.fvc.data.tables import Asked, read_cohort, read_feature_table, read_questions
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


def read_test(folder: Path, *, first_only: bool = True, progress: Progress = SILENT) -> TestSet:
    """Read test.csv and sample_submission.csv.

    Parameters
    ----------
    first_only : bool
        Whether the forecast will use first visits only, as in the competition; said in a note.
    """
    path = _table(folder, "test.csv")
    cohort = read_patients(path, progress=progress)
    if first_only and (n := int((~cohort.first).sum())) > 0:
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


@dataclass(frozen=True)
class FeatureSource:
    """Where features of patients may come from.

    Attributes
    ----------
    scans : bool
        Scans in the input folder, where it has them.
    table : Path, optional
        A CSV table keyed by Patient.
    """

    scans: bool = True
    table: Path | None = None

    def is_there(self, folder: Path, part: str) -> bool:
        """Whether there is anything for ``train`` or ``test``."""
        return self.table is not None or (self.scans and has_scans(folder, part))


EVERYTHING = FeatureSource()


def add_features(
    cohort: Cohort,
    folder: Path,
    part: str,
    source: FeatureSource = EVERYTHING,
    *,
    names: tuple[str, ...] | None = None,
    workers: int | None = None,
    progress: Progress = SILENT,
) -> Cohort:
    """Return the cohort with features of its scans and of a table; without either, as it is.

    Parameters
    ----------
    part : str
        ``train`` or ``test``: the folder that holds one folder of scans a patient.
    names : tuple of str, optional
        The features a fitted model needs, in its order; all there are by default.

    Raises
    ------
    InputError
        A fault of the table, or a column of it that has the name of a scan feature.
    """
    patients = [str(patient) for patient in cohort.baselines.patient]
    tables = []
    if source.scans and has_scans(folder, part):
        tables.append(_measured(cohort, folder / part, workers, progress))
    if source.table is not None:
        tables.append(_tabled(source.table, patients, progress))
    if not tables:
        return cohort if names is None else _missing(cohort, names)
    table = pd.concat(tables, axis=1)
    if repeated := sorted(table.columns[table.columns.duplicated()]):
        raise InputError(f"{source.table}: {repeated[0]} is a scan feature too; rename the column")
    if names is not None:
        if lost := [name for name in names if name not in table]:
            progress.note(f"{len(lost)} features of the model are missing, {lost[0]} among them")
        table = table.reindex(columns=list(names))
    return cohort.with_features(table.to_numpy(dtype=float), tuple(map(str, table.columns)))


def _measured(cohort: Cohort, scans: Path, workers: int | None, progress: Progress) -> pd.DataFrame:
    """Measure scans; a missing or refused one is a note and missing features."""
    from tidegauge.fvc.scans.cache import scan_features
    from tidegauge.fvc.scans.plausibility import Person

    baselines = cohort.baselines
    persons = [Person(fvc_ml=float(fvc_ml)) for fvc_ml in baselines.fvc_ml]
    found = scan_features(
        scans,
        [str(patient) for patient in baselines.patient],
        persons=persons,
        cache=cache_folder(),
        workers=workers,
        progress=progress,
    )
    for warning in found.warnings:
        progress.note(warning)
    return found.table


def _tabled(path: Path, patients: list[str], progress: Progress) -> pd.DataFrame:
    table = read_feature_table(path)
    if n_missing := sum(patient not in table.rows for patient in patients):
        progress.note(f"{path}: {n_missing} of {len(patients)} patients have no row; missing")
    empty = [np.nan] * len(table.names)
    rows = [table.rows.get(patient, empty) for patient in patients]
    return pd.DataFrame(rows, index=patients, columns=list(table.names))


def _missing(cohort: Cohort, names: tuple[str, ...]) -> Cohort:
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
