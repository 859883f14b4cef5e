"""The folders a competition is made of, from a simulated cohort, with the truth beside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from tidegauge.errors import InputError
from tidegauge.io import atomic_write, make_folder
from tidegauge.manifest import MANIFEST, manifest, write_json
from tidegauge.progress import SILENT, Progress
from tidegauge.schema.osic import patient_week
from tidegauge.simulate.cohort import SimulatedCohort, simulate_cohort

__all__ = ["SimulatedCohort", "simulate_cohort", "write_input", "write_raw"]


def write_raw(
    cohort: SimulatedCohort,
    folder: Path | str,
    *,
    scans: bool = False,
    seed: int = 0,
    slices: int = 24,
    size: int = 160,
    progress: Progress = SILENT,
) -> None:
    """Write the folder Kaggle gives: train.csv, train/<Patient>/<n>.dcm, and truth/ beside.

    Parameters
    ----------
    scans : bool
        Make a DICOM phantom of every patient, of about `slices` images of `size` pixels a side.

    Raises
    ------
    InputError
        The folder already holds such files.
    """
    folder = _fresh_folder(folder)
    truth = cohort.truth
    if scans:
        truth = _write_scans(truth, [folder / "train"] * len(truth), seed, slices, size, progress)
    _write_table(truth, folder / "truth" / "truth.csv")
    _write_table(cohort.visits, folder / "train.csv")


def write_input(
    cohort: SimulatedCohort,
    folder: Path | str,
    *,
    test_share: float = 0.1,
    scans: bool = False,
    seed: int = 0,
    slices: int = 24,
    size: int = 160,
    progress: Progress = SILENT,
) -> None:
    """Write a competition input: histories to learn from, first visits to forecast.

    It holds train.csv, test.csv, sample_submission.csv, with scans train/ and test/, and in truth/
    truth.csv and answers.csv (Patient_Week and every visit of the test patients).

    Raises
    ------
    InputError
        The folder already holds such files, or the split leaves one side empty.
    """
    patients = cohort.truth["Patient"].tolist()
    n_test = round(len(patients) * test_share)
    if not 0 < n_test < len(patients):
        raise InputError(
            f"test_share={test_share}: gives {n_test} test patients of {len(patients)}; "
            "both sides need one, so change the share or simulate more patients"
        )
    folder = _fresh_folder(folder)
    held_out = set(np.random.default_rng(seed).choice(patients, size=n_test, replace=False))
    truth = cohort.truth
    if scans:
        places = [folder / ("test" if patient in held_out else "train") for patient in patients]
        truth = _write_scans(truth, places, seed, slices, size, progress)
    _write_table(truth, folder / "truth" / "truth.csv")
    is_test = cohort.visits["Patient"].isin(held_out)
    _write_parts(folder, cohort.visits[~is_test], cohort.visits[is_test])
    settings = {"patients": len(patients), "test_share": test_share, "scans": scans, "seed": seed}
    write_json(folder / MANIFEST, manifest(kind="fvc/simulate", inputs={}, settings=settings))


def _write_parts(folder: Path, train: pd.DataFrame, answers: pd.DataFrame) -> None:
    keys = [patient_week(p, w) for p, w in zip(answers["Patient"], answers["Weeks"], strict=True)]
    _write_table(answers.assign(Patient_Week=keys), folder / "truth" / "answers.csv")
    _write_table(_sample_submission(answers), folder / "sample_submission.csv")
    _write_table(answers.groupby("Patient").head(1), folder / "test.csv")
    _write_table(train, folder / "train.csv")


def _sample_submission(answers: pd.DataFrame) -> pd.DataFrame:
    weeks = range(int(answers["Weeks"].min()), int(answers["Weeks"].max()) + 1)
    keys = [patient_week(p, week) for p in answers["Patient"].unique() for week in weeks]
    return pd.DataFrame({"Patient_Week": keys, "FVC": 2000, "Confidence": 100})


def _write_scans(
    truth: pd.DataFrame,
    places: Sequence[Path],
    seed: int,
    slices: int,
    size: int,
    progress: Progress,
) -> pd.DataFrame:
    """Write one phantom a patient and return the truth with the volumes as voxels have them."""
    from tidegauge.simulate.phantoms import write_phantom

    # A stream a patient, so that adding patients does not change the scans of the first ones.
    streams = np.random.default_rng([seed, 1]).spawn(len(truth))
    rows = truth.to_dict("records")
    volumes_ml = []
    with progress.step("drawing scans", total=len(rows)) as step:
        for done, (row, place, rng) in enumerate(zip(rows, places, streams, strict=True)):
            step.update(done)
            volumes_ml.append(
                write_phantom(
                    place / str(row["Patient"]),
                    lung_volume_ml=float(row["lung_volume_ml"]),
                    fibrosis_fraction=float(row["fibrosis_fraction"]),
                    rng=rng,
                    slices=slices,
                    size=size,
                )
            )
    return truth.assign(lung_volume_ml=volumes_ml)


def _fresh_folder(folder: Path | str) -> Path:
    folder = make_folder(Path(folder))
    for name in ("train.csv", "test.csv", "sample_submission.csv", "train", "test", "truth"):
        if (folder / name).exists():
            raise InputError(
                f"{folder / name}: already there and would be mixed with simulated data; "
                "give an empty folder"
            )
    return folder


def _write_table(table: pd.DataFrame, path: Path) -> None:
    with atomic_write(path) as handle:
        table.to_csv(handle, index=False, lineterminator="\n")
