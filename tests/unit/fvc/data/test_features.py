"""Features from a table and from scans join the cohort under their names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tidegauge.errors import InputError, ProblemsError
from tidegauge.fvc.data.cohort import Cohort
from tidegauge.fvc.data.folder import FeatureSource, add_features
from tidegauge.fvc.data.tables import read_feature_table


@pytest.fixture
def table(tmp_path: Path, cohort: Cohort) -> Path:
    path = tmp_path / "scores.csv"
    rows = [f"{p},{k},{k / 10}" for k, p in enumerate(cohort.baselines.patient) if k != 3]
    path.write_text("Patient,goh_score,extent\n" + "\n".join(rows) + "\nnobody,1,\n")
    return path


def test_a_table_joins_by_patient_and_a_missing_patient_is_missing(
    table: Path, cohort: Cohort, folder: Path
) -> None:
    joined = add_features(cohort, folder, "train", FeatureSource(table=table)).baselines
    assert joined.feature_names == ("goh_score", "extent")
    assert np.isnan(joined.features[3]).all()
    np.testing.assert_allclose(joined.features[[0, 1, 2, 4], 0], [0, 1, 2, 4])


def test_a_model_gets_its_features_in_its_order_and_lost_ones_are_missing(
    table: Path, cohort: Cohort, folder: Path
) -> None:
    names = ("extent", "mean_hu")
    joined = add_features(cohort, folder, "train", FeatureSource(table=table), names=names)
    assert joined.baselines.feature_names == names
    assert np.isfinite(joined.baselines.features[0, 0])
    assert np.isnan(joined.baselines.features[:, 1]).all()


def test_without_scans_or_table_the_cohort_stays_as_it_is(cohort: Cohort, folder: Path) -> None:
    assert add_features(cohort, folder, "train") is cohort


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Patient,x\nA,high\n", r":2: x=high: not a number; correct it or leave it empty"),
        ("Patient,x\nA,inf\n", r":2: x=inf: not a number"),
        ("Patient,x\nA,1\nA,2\n", r":3: Patient=A: repeated or empty; keep one row a patient"),
        ("Patient,x\nA\n", r":2: 1 fields where the header has 2"),
    ],
)
def test_faults_have_their_line(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(text)
    with pytest.raises(ProblemsError, match=fault):
        read_feature_table(path)


@pytest.mark.parametrize("text", ["", "Patient\nA\n", "who,x\nA,1\n", "Patient,x,x\nA,1,2\n"])
def test_a_table_without_features_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(text)
    with pytest.raises(InputError):
        read_feature_table(path)


def test_public_names_are_functions_whatever_was_imported_before() -> None:
    import tidegauge.fvc.prediction
    import tidegauge.fvc.solver
    import tidegauge.fvc.validation  # noqa: F401
    from tidegauge import fvc

    for name in fvc.__all__:
        assert callable(getattr(fvc, name)), name
    assert set(fvc.__all__) <= set(dir(fvc))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = fvc.nothing
