"""OSIC pulmonary fibrosis progression: the exact split, answers and score of MLE-bench."""

from __future__ import annotations

import csv
import itertools
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.bench.competitions.base import Answers, Columns, Competition, Thresholds
from tidegauge.errors import InputError
from tidegauge.progress import Progress
from tidegauge.schema.osic import MEDAL_THRESHOLDS, SCORED_VISITS, VISIT_COLUMNS
from tidegauge.schema.submission import OSIC_FORM
from tidegauge.scores import laplace_log_likelihood

if TYPE_CHECKING:
    import pandas as pd

_MAX_WEEKS = 10_000
_TEST_SHARE = 0.1
_SAMPLE_FVC_ML = 2000
_SAMPLE_CONFIDENCE_ML = 100


def prepare(raw: Path, public: Path, private: Path) -> None:
    """Split Kaggle's train.csv by patient and write the four tables.

    Raises
    ------
    InputError
        train.csv is missing, lacks a column, or holds too few patients to split.
    """
    import pandas as pd
    from sklearn.model_selection import train_test_split

    visits = _read_visits(raw / "train.csv")
    groups = list(visits.groupby("Patient"))
    if len(groups) < 2:
        raise InputError(f"{raw / 'train.csv'}: {len(groups)} patient; at least 2 are needed")
    train, test = train_test_split(groups, test_size=_TEST_SHARE, random_state=0)
    train_visits = pd.concat([rows for _, rows in train])
    test_visits = pd.concat([rows for _, rows in test])
    answers = _every_week(test_visits, [patient for patient, _ in test])
    first = test_visits.sort_values("Weeks", kind="stable").groupby("Patient").head(1)
    # A week measured twice has two answers but one row to submit.
    sample = answers[["Patient_Week"]].drop_duplicates()
    sample = sample.assign(FVC=_SAMPLE_FVC_ML, Confidence=_SAMPLE_CONFIDENCE_ML)
    train_visits.to_csv(public / "train.csv", index=False)
    first.sort_values("Patient").to_csv(public / "test.csv", index=False)
    sample.to_csv(public / "sample_submission.csv", index=False)
    answers.to_csv(private / "test.csv", index=False)


def _read_visits(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        visits = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}); give Kaggle's train.csv") from error
    missing = [name for name in VISIT_COLUMNS if name not in visits.columns]
    if missing:
        raise InputError(f"{path}: lacks the columns {', '.join(missing)}; give Kaggle's train.csv")
    for name in ("Patient", "Weeks", "FVC"):
        if (empty := visits[name].isna()).any():
            line = int(np.flatnonzero(empty)[0]) + 2
            raise InputError(f"{path}:{line}: {name} is missing; fill it in or drop the row")
    if not pd.api.types.is_integer_dtype(visits["Weeks"]):
        raise InputError(f"{path}: Weeks must be whole numbers; round them")
    if (far := visits["Weeks"].abs() > _MAX_WEEKS).any():  # every week between becomes a row
        line = int(np.flatnonzero(far)[0]) + 2
        raise InputError(f"{path}:{line}: Weeks={visits['Weeks'][line - 2]}: not weeks of a study")
    visits["Patient"] = visits["Patient"].astype(str)
    for patient in visits["Patient"].unique():
        if patient in (".", "..") or Path(patient).name != patient:  # it names a folder of scans
            raise InputError(f"{path}: Patient={patient!r} is no id; use letters and digits")
    return visits


def _every_week(visits: pd.DataFrame, patients: list[str]) -> pd.DataFrame:
    import pandas as pd

    weeks = range(int(visits["Weeks"].min()), int(visits["Weeks"].max()) + 1)
    grid = pd.DataFrame(itertools.product(patients, weeks), columns=["Patient", "Weeks"])
    answers = grid.merge(visits, on=["Patient", "Weeks"], how="left")
    answers["Patient_Week"] = answers["Patient"] + "_" + answers["Weeks"].astype(str)
    answers["Confidence"] = _SAMPLE_CONFIDENCE_ML
    return answers


def scans(raw: Path, public: Path) -> list[tuple[Path, Path]]:
    """List the patients' scan folders, as (where it is, where it goes); missing ones are left out.

    Kaggle keeps the test patients' scans in train/ too, since its test set was drawn from there.
    """
    moves = []
    for part in ("train", "test"):
        for patient in _patients(public / f"{part}.csv"):
            for source in (raw / "train" / patient, raw / "test" / patient):
                if source.is_dir():
                    moves.append((source, public / part / patient))
                    break
    return moves


def _patients(path: Path) -> list[str]:
    with open(path, encoding="utf-8", newline="") as handle:
        return list(dict.fromkeys(row["Patient"] for row in csv.DictReader(handle)))


def read_answers(private: Path) -> Answers:
    """Return each test patient's last three visits.

    Raises
    ------
    InputError
        The private table is missing or is not one that `prepare` wrote.
    """
    path = private / "test.csv"
    visits: dict[str, list[tuple[int, str, float]]] = {}
    try:
        with open(path, encoding="utf-8", newline="") as handle:
            for row in csv.DictReader(handle):
                if row["FVC"]:
                    visit = (int(row["Weeks"]), row["Patient_Week"], float(row["FVC"]))
                    visits.setdefault(row["Patient"], []).append(visit)
    except (OSError, KeyError, ValueError) as error:
        raise InputError(
            f"{path}: cannot be read as answers ({error}); run `tidegauge bench prepare` again"
        ) from error
    scored = [
        (patient, key, fvc_ml)
        for patient, seen in visits.items()
        # Sorted by week alone: two readings of one week keep the order of the file.
        for _, key, fvc_ml in sorted(seen, key=lambda visit: visit[0])[-SCORED_VISITS:]
    ]
    if not scored:
        raise InputError(f"{path}: holds no visit; run `tidegauge bench prepare` again")
    truth = np.array([fvc_ml for _, _, fvc_ml in scored])
    return Answers([key for _, key, _ in scored], [p for p, _, _ in scored], {"FVC": truth})


def score(truth: Columns, predicted: Columns) -> float:
    """Average the modified Laplace log likelihood over the scored visits; higher is better."""
    rows = laplace_log_likelihood(truth["FVC"], predicted["FVC"], predicted["Confidence"])
    return float(rows.mean())


def simulate(raw: Path, seed: int, with_scans: bool, progress: Progress) -> None:
    """Write a raw folder with a simulated cohort of 176 patients."""
    from tidegauge.simulate.osic import simulate_cohort, write_raw

    cohort = simulate_cohort(seed=seed)
    write_raw(cohort, raw, scans=with_scans, seed=seed, progress=progress)


OSIC = Competition(
    name="osic",
    competition_id="osic-pulmonary-fibrosis-progression",
    title="OSIC Pulmonary Fibrosis Progression",
    description=resources.files("tidegauge.bench.competitions")
    .joinpath("osic.md")
    .read_text(encoding="utf-8"),
    form=OSIC_FORM,
    lower_is_better=False,
    human_minutes=24 * 60.0,  # three working days of a skilled modeller
    prepare=prepare,
    read_answers=read_answers,
    score=score,
    simulate=simulate,
    thresholds=Thresholds(**MEDAL_THRESHOLDS),
    checksums={
        "public/train.csv": "dd984a7b700fcd6f167c89ebbbe8619e",
        "public/test.csv": "4d8bf1fd3b55feae1a1e3b5088a2f268",
        "public/sample_submission.csv": "6204ba4dd60cbf2629cd43c60144b9a7",
        "private/test.csv": "0487bd97c387b5e6c28d5060026462d9",
    },
    scans=scans,
)
