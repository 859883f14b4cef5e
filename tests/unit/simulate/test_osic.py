"""The simulated cohort and its folders are laid out as the competition's are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tidegauge.errors import InputError
from tidegauge.schema.osic import SEXES, SMOKING_STATUSES, VISIT_COLUMNS, split_patient_week
from tidegauge.simulate.osic import SimulatedCohort, simulate_cohort, write_input, write_raw


@pytest.fixture(scope="module")
def cohort() -> SimulatedCohort:
    return simulate_cohort(n_patients=176, seed=11)


def test_visits_have_the_columns_and_kinds_of_the_real_table(cohort: SimulatedCohort) -> None:
    visits = cohort.visits
    assert tuple(visits.columns) == VISIT_COLUMNS
    assert all(visits[name].dtype.kind == "i" for name in ("Weeks", "FVC", "Age"))
    assert set(visits["Sex"]) <= set(SEXES)
    assert set(visits["SmokingStatus"]) <= set(SMOKING_STATUSES)
    assert visits["Patient"].str.fullmatch(r"ID\d{5}637202\d{12}").all()
    assert visits.notna().all(axis=None)
    assert visits["FVC"].min() >= 500


def test_rows_are_grouped_by_patient_in_order_of_id_then_week(cohort: SimulatedCohort) -> None:
    visits = cohort.visits
    ordered = visits.sort_values(["Patient", "Weeks"], kind="stable")
    assert visits["Patient"].tolist() == ordered["Patient"].tolist()
    assert visits["Weeks"].tolist() == ordered["Weeks"].tolist()
    assert visits["Patient"].nunique() == 176


def test_percent_is_fvc_over_one_constant_a_patient(cohort: SimulatedCohort) -> None:
    constants = cohort.visits["FVC"] / cohort.visits["Percent"] * 100
    expected = cohort.visits["Patient"].map(
        cohort.truth.set_index("Patient")["predicted_ml"].to_dict()
    )
    np.testing.assert_allclose(constants, expected)


def test_some_weeks_repeat_and_some_are_negative(cohort: SimulatedCohort) -> None:
    repeats = cohort.visits.duplicated(["Patient", "Weeks"]).sum()
    assert 1 <= repeats <= 20  # 7 of 158 patients in the real table
    assert cohort.visits["Weeks"].min() < 0


def test_one_seed_gives_one_cohort(cohort: SimulatedCohort) -> None:
    again, other = (simulate_cohort(n_patients=176, seed=seed) for seed in (11, 12))
    pd.testing.assert_frame_equal(again.visits, cohort.visits)
    pd.testing.assert_frame_equal(again.truth, cohort.truth)
    assert not other.visits.equals(cohort.visits)


@pytest.mark.parametrize(("n_patients", "seed"), [(0, 1), (-3, 1), (10**6, 1), (5, -1)])
def test_impossible_arguments_are_named(n_patients: int, seed: int) -> None:
    with pytest.raises(InputError, match=r"n_patients=|seed="):
        simulate_cohort(n_patients=n_patients, seed=seed)


def test_raw_folder_holds_the_table_and_hides_the_truth(
    tmp_path: Path, cohort: SimulatedCohort
) -> None:
    write_raw(cohort, tmp_path)
    written = pd.read_csv(tmp_path / "train.csv")
    pd.testing.assert_frame_equal(written, cohort.visits, check_dtype=False)
    truth = pd.read_csv(tmp_path / "truth" / "truth.csv")
    np.testing.assert_allclose(truth["slope_ml_per_week"], cohort.truth["slope_ml_per_week"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["train.csv", "truth"]


def test_input_folder_splits_patients_and_asks_for_every_week(
    tmp_path: Path, cohort: SimulatedCohort
) -> None:
    write_input(cohort, tmp_path, test_share=0.1, seed=2)
    train, test, sample = (
        pd.read_csv(tmp_path / f"{name}.csv") for name in ("train", "test", "sample_submission")
    )
    answers = pd.read_csv(tmp_path / "truth" / "answers.csv")
    assert len(test) == test["Patient"].nunique() == 18
    assert set(train["Patient"]) | set(test["Patient"]) == set(cohort.truth["Patient"])
    assert not set(train["Patient"]) & set(test["Patient"])
    first = answers.groupby("Patient", sort=False).head(1)[list(VISIT_COLUMNS)]
    pd.testing.assert_frame_equal(test, first.reset_index(drop=True))
    keys = [split_patient_week(key) for key in sample["Patient_Week"]]
    weeks = range(answers["Weeks"].min(), answers["Weeks"].max() + 1)
    assert keys == [(p, w) for p in test["Patient"] for w in weeks]
    assert set(answers["Patient_Week"]) <= set(sample["Patient_Week"])
    assert (sample["FVC"] == 2000).all()
    assert (sample["Confidence"] == 100).all()


def test_scans_are_where_their_patients_are(tmp_path: Path) -> None:
    cohort = simulate_cohort(n_patients=4, seed=3)
    write_input(cohort, tmp_path, test_share=0.25, scans=True, seed=1, slices=4, size=48)
    for part in ("train", "test"):
        patients = set(pd.read_csv(tmp_path / f"{part}.csv")["Patient"])
        folders = {path.name for path in (tmp_path / part).iterdir()}
        assert folders == patients
        assert all((tmp_path / part / p / "1.dcm").is_file() for p in patients)
    truth = pd.read_csv(tmp_path / "truth" / "truth.csv")
    wanted = cohort.truth["lung_volume_ml"]
    np.testing.assert_allclose(truth["lung_volume_ml"], wanted, rtol=0.1)  # coarse voxels


def test_a_folder_in_use_is_never_mixed_with_simulated_data(
    tmp_path: Path, cohort: SimulatedCohort
) -> None:
    (tmp_path / "train.csv").write_text("Patient\n")
    for write in (write_raw, write_input):
        with pytest.raises(InputError, match=r"train\.csv: already there .*; give an empty folder"):
            write(cohort, tmp_path)
    assert (tmp_path / "train.csv").read_text() == "Patient\n"


@pytest.mark.parametrize("share", [0.0, 0.999, 1.0])
def test_a_split_without_one_side_is_refused(
    tmp_path: Path, cohort: SimulatedCohort, share: float
) -> None:
    with pytest.raises(InputError, match=r"test_share=.*both sides need one"):
        write_input(cohort, tmp_path / "new", test_share=share)
    assert not (tmp_path / "new").exists()
