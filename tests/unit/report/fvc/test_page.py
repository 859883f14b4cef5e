"""The prognosis report: every patient, numbers that agree with the draws, files as promised."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tidegauge.errors import InputError
from tidegauge.fvc import outlook as module
from tidegauge.fvc.data.cohort import Cohort, Questions
from tidegauge.fvc.data.folder import read_training
from tidegauge.fvc.forecasters import laplace_draws
from tidegauge.fvc.outlook import Outlook, PatientGroup, find_outlook
from tidegauge.fvc.prognosis import LEVELS, faster_share, prognose
from tidegauge.fvc.scans.cache import ScanPicture
from tidegauge.fvc.selection import fit_model
from tidegauge.fvc.store import save_model
from tidegauge.fvc.validation import Crossval, crossval
from tidegauge.report.fvc.page import write_crossval, write_report
from tidegauge.simulate.osic import simulate_cohort, write_input


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("input")
    write_input(simulate_cohort(n_patients=14, seed=6), place, seed=6)
    return place


@pytest.fixture(scope="module")
def cohort(folder: Path) -> Cohort:
    return read_training(folder)


@pytest.fixture(scope="module")
def result(cohort: Cohort) -> Crossval:
    return crossval(cohort, repeats=1, seed=1, names=("carry", "direct"), workers=1)


class Halver:
    """Everyone loses 20 % in a year, give or take 50 ml."""

    def forecast(self, baselines, questions: Questions):
        fvc = baselines.fvc_ml[questions.patient] * (1 - 0.2 * questions.gap_weeks / 52)
        return laplace_draws(fvc, np.full(len(fvc), 50.0))


def test_prognosis_says_what_the_draws_say(cohort: Cohort) -> None:
    for one in prognose(Halver(), cohort):
        low, middle, high = one.year_ml
        assert middle == pytest.approx(0.8 * one.fvc_ml)
        assert low < middle < high
        assert one.change_ml_per_year == pytest.approx(-0.2 * one.fvc_ml)
        assert one.fall_probability == pytest.approx(1.0, abs=0.05)
        assert one.visits_ml[0] == one.fvc_ml
        assert one.quantiles_ml.shape == (len(LEVELS), len(one.gap_weeks))
        assert (np.diff(one.quantiles_ml, axis=0) >= 0).all()


def test_share_with_slower_decline_is_counted_over_the_population(cohort: Cohort) -> None:
    prognoses = prognose(Halver(), cohort)
    share = faster_share(prognoses[:5], prognoses)
    changes = np.array([one.change_ml_per_year for one in prognoses])
    for one, ours in zip(prognoses[:5], share, strict=True):
        assert ours == (changes > one.change_ml_per_year).sum() / len(changes)


def test_crossval_files_are_those_promised(result: Crossval, tmp_path: Path) -> None:
    write_crossval(result, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    charts = {
        f"{c}.{e}" for c in ("scores", "coverage", "pit", "score_by_gap") for e in ("png", "svg")
    }
    tables = {"scores.csv", "per_patient.csv", "calibration.csv", "choices.csv", "summary.json"}
    assert names == charts | tables | {"manifest.json"}
    assert all((tmp_path / name).read_bytes()[:4] == b"\x89PNG" for name in names if "png" in name)
    summary = json.loads((tmp_path / "summary.json").read_text())
    scores = pd.read_csv(tmp_path / "scores.csv").set_index("forecaster")
    assert summary["score"] == pytest.approx(scores["score"]["nested"])
    patients = pd.read_csv(tmp_path / "per_patient.csv")
    assert patients["nested"].mean() == pytest.approx(summary["score"])


def test_report_names_every_patient(
    folder: Path, result: Crossval, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "crossval", lambda *_, **__: result)
    page = write_report(find_outlook(folder, workers=1), tmp_path)
    html = page.read_text()
    for name in ("train.csv", "test.csv"):
        for patient in pd.read_csv(folder / name)["Patient"].unique():
            assert html.count(f'-{patient}"') == 2  # its card, and the link to it
    assert "How far to trust it" in html


def test_saved_model_is_enough_for_a_report_of_test_patients(
    folder: Path, cohort: Cohort, tmp_path: Path
) -> None:
    save_model(fit_model(cohort.take(np.arange(9)), seed=1, workers=1), tmp_path / "model")
    only = tmp_path / "input"
    only.mkdir()
    (only / "test.csv").write_bytes((folder / "test.csv").read_bytes())
    page = write_report(find_outlook(only, model_folder=tmp_path / "model"), tmp_path / "out")
    assert "How far to trust it" not in page.read_text()
    with pytest.raises(InputError, match="give it, or a saved --model"):
        find_outlook(only)


def test_what_is_wrong_with_a_scan_stands_on_the_patients_card(
    folder: Path, cohort: Cohort, tmp_path: Path
) -> None:
    model = fit_model(cohort.take(np.arange(9)), seed=1, workers=1)
    ones = prognose(model.outlook, cohort.take(np.arange(2)))
    picture = ScanPicture(None, ["outside_body: 16.8% of the mask lies outside the body"])
    group = PatientGroup("test", ones, {ones[0].patient: picture})
    html = write_report(Outlook(model, [group], None), tmp_path).read_text()
    assert html.count("outside_body: 16.8% of the mask lies outside the body") == 1
