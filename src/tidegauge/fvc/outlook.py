"""Everything a prognosis page shows, computed: models fitted, patients forecast, scans drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tidegauge.errors import InputError
from tidegauge.fvc.data.cohort import Cohort
from tidegauge.fvc.data.folder import (
    EVERYTHING,
    FeatureSource,
    add_features,
    read_patients,
    read_training,
)
from tidegauge.fvc.followup import FollowUp
from tidegauge.fvc.prediction import measure_for
from tidegauge.fvc.prognosis import Prognosis, prognose
from tidegauge.fvc.scans.cache import ScanPicture, scan_pictures
from tidegauge.fvc.selection import FittedModel, fit_model
from tidegauge.fvc.store import load_model
from tidegauge.fvc.validation import Crossval, crossval
from tidegauge.progress import SILENT, Progress


@dataclass(frozen=True)
class PatientGroup:
    """Patients of one table.

    Attributes
    ----------
    part : str
        ``test`` or ``train``.
    prognoses : list of Prognosis
    pictures : dict
        By patient: a slice of the scan and what was found wrong with it.
    """

    part: str
    prognoses: list[Prognosis]
    pictures: dict[str, ScanPicture] = field(default_factory=dict)


@dataclass(frozen=True)
class Outlook:
    """What is known of a folder's patients.

    Attributes
    ----------
    model : FittedModel
    groups : list of PatientGroup
        Patients of test.csv by every visit they have; those of train.csv by their first visit and
        by models that did not see them.
    validation : Crossval or None
        None without train.csv.
    """

    model: FittedModel
    groups: list[PatientGroup]
    validation: Crossval | None


def find_outlook(
    folder: Path,
    *,
    model_folder: Path | None = None,
    source: FeatureSource = EVERYTHING,
    workers: int | None = None,
    seed: int = 1,
    progress: Progress = SILENT,
) -> Outlook:
    """Fit what is needed and forecast every patient of a folder.

    Either table may be missing, but without train.csv a saved model is needed.

    Raises
    ------
    InputError
        A fault of the input, or neither table is there.
    """
    model = load_model(model_folder) if model_folder else None
    found: list[tuple[str, list[Prognosis]]] = []
    validation = None
    if (folder / "train.csv").is_file():
        training = read_training(folder, progress=progress)
        training = add_features(
            training, folder, "train", source, workers=workers, progress=progress
        )
        validation = crossval(training, repeats=1, seed=seed, workers=workers, progress=progress)
        model = model or fit_model(training, seed=seed, workers=workers, progress=progress)
        found.append(("train", _unseen_prognoses(training, validation)))
    if model is None:
        raise InputError(f"{folder / 'train.csv'}: not found; give it, or a saved --model")
    if (folder / "test.csv").is_file():
        cohort = read_patients(folder / "test.csv", progress=progress)
        cohort = measure_for(
            model, cohort, folder, source=source, workers=workers, progress=progress
        )
        forecaster = FollowUp(model.outlook, model.outlook, cohort.later_visits())
        found.insert(0, ("test", prognose(forecaster, cohort)))
    if not found:
        raise InputError(f"{folder}: neither train.csv nor test.csv; there is nobody to report on")
    groups = []
    for part, prognoses in found:
        patients = [one.patient for one in prognoses] if source.scans else []
        pictures = scan_pictures(folder / part, patients, workers=workers, progress=progress)
        groups.append(PatientGroup(part, prognoses, pictures))
    return Outlook(model, groups, validation)


def _unseen_prognoses(training: Cohort, result: Crossval) -> list[Prognosis]:
    """Return outlooks of training patients, each by the fold that did not learn from them."""
    found: dict[int, Prognosis] = {}
    for fold, outlook in enumerate(result.outlooks[: result.folds]):
        held = result.held_out(0, fold)
        found |= dict(zip(held.tolist(), prognose(outlook, training.take(held)), strict=True))
    return [found[i] for i in range(training.n_patients)]
