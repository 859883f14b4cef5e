"""Solve: valid at once, better later, the same for the same seed, and equal to fit + predict."""

from __future__ import annotations

import http.server
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest

from tidegauge.errors import InputError
from tidegauge.fvc import solver as module
from tidegauge.fvc.data.folder import cache_folder, read_test, read_training
from tidegauge.fvc.prediction import predict
from tidegauge.fvc.selection import MOST_VISITS, fit_model, fit_one, fit_panel
from tidegauge.fvc.solver import parse_duration, solve
from tidegauge.fvc.store import load_model, save_model
from tidegauge.fvc.submit import ValidationFailed, validate_at, write_forecast
from tidegauge.schema.submission import OSIC_FORM, check_submission, read_keys


def is_valid(submission: Path, folder: Path) -> bool:
    keys = read_keys(folder / "sample_submission.csv", "Patient_Week")
    return check_submission(submission, form=OSIC_FORM, expected_keys=keys).valid


@pytest.fixture(scope="module")
def model_folder(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("model")
    save_model(fit_model(read_training(folder), seed=2, workers=1), place)
    return place


@pytest.fixture(scope="module")
def solved(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What solve leaves; where it stands is another test's business."""
    output = tmp_path_factory.mktemp("solved") / "submission.csv"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LEAST_PATIENTS", 30)  # two times this: no cross-validation around
        solution = solve(folder, output, seed=2, workers=1)
    assert solution.finished
    return output


def test_solve_writes_a_valid_submission(folder: Path, solved: Path) -> None:
    assert is_valid(solved, folder)


def test_fit_and_predict_write_what_solve_writes(
    folder: Path, solved: Path, model_folder: Path, tmp_path: Path
) -> None:
    predict(model_folder, folder, tmp_path / "p.csv", workers=1)
    assert (tmp_path / "p.csv").read_bytes() == solved.read_bytes()


def test_predict_on_some_new_patients_equals_their_rows_of_solve(
    folder: Path, solved: Path, model_folder: Path, tmp_path: Path
) -> None:
    test = pd.read_csv(folder / "test.csv").iloc[[3, 1]]
    sample = pd.read_csv(folder / "sample_submission.csv")
    kept = sample["Patient_Week"].str.rpartition("_")[0].isin(test["Patient"])
    test.to_csv(tmp_path / "test.csv", index=False)
    sample[kept].to_csv(tmp_path / "sample_submission.csv", index=False)
    predict(model_folder, tmp_path, tmp_path / "p.csv", workers=1)
    ours = pd.read_csv(tmp_path / "p.csv")
    theirs = pd.read_csv(solved)[kept.to_numpy()].reset_index(drop=True)
    pd.testing.assert_frame_equal(ours, theirs)


def test_deadline_leaves_the_first_submission(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "s.csv"
    solution = solve(folder, output, seed=2, time_limit_seconds=0.01, workers=1)
    assert not solution.finished
    assert solution.chosen == "direct"
    assert is_valid(output, folder)


def test_few_patients_still_get_a_submission(folder: Path, tmp_path: Path) -> None:
    for name in ("test.csv", "sample_submission.csv"):
        shutil.copy(folder / name, tmp_path / name)
    table = pd.read_csv(folder / "train.csv")
    few = table[table["Patient"].isin(table["Patient"].unique()[:2])]
    few.to_csv(tmp_path / "train.csv", index=False)
    solution = solve(tmp_path, tmp_path / "s.csv", workers=1)
    assert solution.finished
    assert solution.standing is None
    assert is_valid(tmp_path / "s.csv", folder)


def test_killed_run_leaves_a_valid_submission(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "s.csv"
    command = [sys.executable, "-m", "tidegauge", "fvc", "solve", "--workers", "1"]
    process = subprocess.Popen(
        [*command, "--input", str(folder), "--output", str(output)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    with process.stderr as lines:
        for line in lines:
            if "first valid submission" in line:
                break
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert is_valid(output, folder)
    assert [path.name for path in tmp_path.iterdir()] == ["s.csv"]


def test_ctrl_c_exits_130_and_leaves_a_valid_submission(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "s.csv"
    command = [sys.executable, "-m", "tidegauge", "fvc", "solve", "--workers", "2"]
    process = subprocess.Popen(
        [*command, "--input", str(folder), "--output", str(output)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    said = []
    with process.stderr as lines:
        for line in lines:
            said.append(line)
            if "fitting forecasters" in line:
                own = psutil.Process(process.pid)
                while len(own.children(recursive=True)) < 4:  # the pool: two servers, two workers
                    time.sleep(0.02)
                os.killpg(process.pid, signal.SIGINT)
        process.wait()
    assert process.returncode == 130
    assert said[-1].strip() == "interrupted"
    assert not any("Traceback" in line for line in said)
    assert is_valid(output, folder)


def test_far_weeks_and_extreme_patients_stay_within_what_a_lung_holds(tmp_path: Path) -> None:
    header = "Patient,Weeks,FVC,Percent,Age,Sex,SmokingStatus\n"
    rows = "".join(
        f"P{i},{w},{2500 - 90 * w},80,60,Male,Ex-smoker\n" for i in range(4) for w in (0, 9)
    )
    (tmp_path / "train.csv").write_text(header + rows)
    (tmp_path / "test.csv").write_text(header + "T,0,300,20,60,Male,Ex-smoker\n")
    (tmp_path / "sample_submission.csv").write_text("Patient_Week\nT_-500\nT_5000\n")
    test = read_test(tmp_path)
    write_forecast(fit_one(read_training(tmp_path), "linear", seed=1), test, tmp_path / "s.csv")
    assert is_valid(tmp_path / "s.csv", tmp_path)


@pytest.mark.parametrize(
    ("text", "seconds"), [("12h", 43200), ("30m", 1800), ("90s", 90), ("45", 45), ("0.5h", 1800)]
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5m", "0", "5d"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="give a duration such as 12h, 30m or 90s"):
        parse_duration(text)


def test_saved_model_is_restored_whole(cohort, model_folder: Path) -> None:
    model = load_model(model_folder)
    panel = fit_panel(cohort, seed=2, visits=MOST_VISITS)
    questions = cohort.questions(cohort.scored())
    assert model.chosen == panel.chosen
    for ours, theirs in ((model.blend, panel.best), (model.outlook, panel.outlook)):
        np.testing.assert_array_equal(
            ours.forecast(cohort.baselines, questions), theirs.forecast(cohort.baselines, questions)
        )
    assert model.outlook.members[0].by_visits == panel.outlook.members[0].by_visits != ()


def damage_version(place: Path) -> str:
    text = (place / "model.json").read_text().replace('"version": 2', '"version": 99')
    (place / "model.json").write_text(text)
    return "format version 99, this tidegauge reads 2; fit the model again with this version"


def damage_json(place: Path) -> str:
    (place / "model.json").write_text("{")
    return "model.json: damaged"


def damage_arrays(place: Path) -> str:
    data = bytearray((place / "arrays.npz").read_bytes())
    data[len(data) // 2] ^= 0xFF
    (place / "arrays.npz").write_bytes(bytes(data))
    return "arrays.npz: missing or damaged; fit the model again"


def damage_missing(place: Path) -> str:
    (place / "arrays.npz").unlink()
    return "arrays.npz: missing or damaged; fit the model again"


def damage_other(place: Path) -> str:
    (place / "model.json").write_text('{"format": "else"}')
    return "not a tidegauge fvc model; give the folder that `fit` wrote"


def damage_member(place: Path) -> str:
    manifest = json.loads((place / "model.json").read_text())
    manifest["blend"]["members"][0]["name"] = "no such forecaster"
    (place / "model.json").write_text(json.dumps(manifest))
    return "damaged model"


def damage_all(place: Path) -> str:
    shutil.rmtree(place)
    return "no such model folder; make one with `tidegauge fvc fit`"


@pytest.mark.parametrize(
    "damage",
    [
        damage_version,
        damage_json,
        damage_arrays,
        damage_missing,
        damage_other,
        damage_member,
        damage_all,
    ],
)
def test_unusable_model_is_a_clear_error(damage, model_folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "model"
    shutil.copytree(model_folder, place)
    message = damage(place)
    with pytest.raises(InputError) as caught:
        load_model(place)
    assert message in str(caught.value)


class _Validator(http.server.BaseHTTPRequestHandler):
    reply = "Submission is valid."
    received: bytes = b""

    def do_POST(self) -> None:
        type(self).received = self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"result": self.reply}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def validator():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Validator)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/validate"
    server.shutdown()
    thread.join()
    server.server_close()


def test_validation_server_is_sent_the_file_and_believed(
    validator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = tmp_path / "s.csv"
    submission.write_text("Patient_Week,FVC,Confidence\nA_1,2000,100\n")
    assert validate_at(validator, submission) == "Submission is valid."
    assert submission.read_bytes() in _Validator.received
    assert b'name="file"' in _Validator.received
    monkeypatch.setattr(_Validator, "reply", "Submission invalid! 3 keys are missing.")
    with pytest.raises(ValidationFailed, match="3 keys are missing"):
        validate_at(validator, submission)


def test_unreachable_validation_server_is_said(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("x")
    with pytest.raises(ValidationFailed, match="no answer from a validation server"):
        validate_at("http://127.0.0.1:9/validate", tmp_path / "s.csv")


def test_scan_cache_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cache_folder() is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert cache_folder() == tmp_path / "cache" / "tidegauge" / "scans"


def test_without_standing_the_submission_is_the_same(
    folder: Path, solved: Path, tmp_path: Path
) -> None:
    solution = solve(folder, tmp_path / "s.csv", seed=2, workers=1, standing=False)
    assert solution.finished
    assert solution.standing is None
    assert (tmp_path / "s.csv").read_bytes() == solved.read_bytes()


@pytest.mark.parametrize("has_alarm", [True, False])
def test_the_deadline_rings_with_and_without_the_systems_alarm(
    has_alarm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_alarm:
        monkeypatch.delattr(signal, "setitimer")
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(module.DeadlineReached), module._deadline(0.01):
        all(True for _ in itertools.repeat(None))  # for ever
    assert signal.getsignal(signal.SIGALRM) == before
