"""Preparation: the exact split, checksums, scans, archives, kills."""

from __future__ import annotations

import errno
import hashlib
import itertools
import multiprocessing
import os
import shutil
import stat
import zipfile
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from sklearn.model_selection import train_test_split

from tidegauge.bench.competition_folder import Prepared, open_prepared
from tidegauge.bench.competitions.registry import get_competition
from tidegauge.bench.preparation import prepare_competition, simulate_and_prepare
from tidegauge.errors import InputError
from tidegauge.simulate.osic import simulate_cohort, write_raw

OSIC = get_competition("osic")


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """A raw folder with tiny scans; one test patient's are only in test/, one has none."""
    folder = tmp_path / "raw"
    write_raw(simulate_cohort(n_patients=40, seed=8), folder)
    patients = sorted(set(pd.read_csv(folder / "train.csv")["Patient"]))
    for number, patient in enumerate(patients[:-1]):
        scan = folder / ("test" if number == 0 else "train") / patient
        scan.mkdir(parents=True)
        for image in range(2):
            (scan / f"{image + 1}.dcm").write_bytes(f"{patient} {image}".encode())
    return folder


def prepare(raw: Path, out: Path, **options: bool) -> Prepared:
    return prepare_competition(OSIC, raw, out, **{"verify": False, **options})


def test_tables_equal_the_split_written_down_independently(raw: Path, tmp_path: Path) -> None:
    """The definition, line by line, with pandas."""
    prepared = prepare(raw, tmp_path / "out")
    table = pd.read_csv(raw / "train.csv")
    groups = [
        (patient, table[table["Patient"] == patient]) for patient in sorted(set(table["Patient"]))
    ]
    train, test = train_test_split(groups, test_size=0.1, random_state=0)
    train_csv = pd.concat([rows for _, rows in train]).to_csv(index=False)
    assert (prepared.public / "train.csv").read_text() == train_csv
    first = pd.DataFrame(
        [rows.sort_values("Weeks", kind="stable").iloc[0] for _, rows in sorted(test)]
    )
    pd.testing.assert_frame_equal(
        pd.read_csv(prepared.public / "test.csv"), first.reset_index(drop=True), check_dtype=False
    )
    weeks = pd.concat([rows for _, rows in test])["Weeks"]
    keys = [
        f"{patient}_{week}"
        for (patient, _), week in itertools.product(test, range(weeks.min(), weeks.max() + 1))
    ]
    sample = pd.read_csv(prepared.public / "sample_submission.csv")
    assert sample["Patient_Week"].tolist() == keys == prepared.expected_keys
    assert set(sample["FVC"]) == {2000}
    assert set(sample["Confidence"]) == {100}
    answers = pd.read_csv(prepared.private / "test.csv")
    assert list(answers.columns) == [
        "Patient", "Weeks", "FVC", "Percent", "Age", "Sex", "SmokingStatus", "Patient_Week",
        "Confidence",
    ]  # fmt: skip
    assert answers["FVC"].notna().sum() == len(weeks)
    assert set(answers["Patient_Week"]) == set(keys)
    assert prepared.check(prepared.public / "sample_submission.csv").valid


@pytest.mark.realdata
def test_public_half_of_the_real_table_gives_itself_back(realdata: Path, tmp_path: Path) -> None:
    source = realdata / "osic"
    (raw := tmp_path / "raw").mkdir()
    tables = [pd.read_csv(source / name) for name in ("train.csv", "test.csv")]
    pd.concat(tables).to_csv(raw / "train.csv", index=False)
    prepared = prepare(raw, tmp_path / "out")
    for name in ("train.csv", "test.csv"):
        assert (prepared.public / name).read_bytes() == (source / name).read_bytes()
        digest = hashlib.md5((prepared.public / name).read_bytes()).hexdigest()
        assert digest == OSIC.checksums[f"public/{name}"]
    patients = [key.rpartition("_")[0] for key in prepared.expected_keys]
    real = pd.read_csv(source / "sample_submission.csv")["Patient_Week"].str.rpartition("_")[0]
    assert list(dict.fromkeys(patients)) == list(dict.fromkeys(real))  # the split's order


def test_other_data_than_the_original_needs_no_verify(raw: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"public/train\.csv is .* expected dd984a7b.*--no-verify"):
        prepare(raw, tmp_path / "out", verify=True)
    assert list((tmp_path / "out").iterdir()) == []  # nothing half-made is left


def test_scans_go_to_their_patients_half_and_answers_to_their_owner(
    raw: Path, tmp_path: Path
) -> None:
    prepared = prepare(raw, tmp_path / "out")
    for part in ("train", "test"):
        patients = set(pd.read_csv(prepared.public / f"{part}.csv")["Patient"])
        placed = {path.name for path in (prepared.public / part).iterdir()}
        assert placed <= patients
        for patient in placed:
            images = sorted((prepared.public / part / patient).iterdir())
            assert [image.read_bytes() for image in images] == [
                f"{patient} {image}".encode() for image in range(2)
            ]
    missing = set(pd.read_csv(raw / "train.csv")["Patient"]) - {
        path.name for part in ("train", "test") for path in (prepared.public / part).iterdir()
    }
    assert len(missing) == 1  # the one without scans
    assert stat.S_IMODE(prepared.private.stat().st_mode) == 0o700


def test_scans_are_linked_or_copied(raw: Path, tmp_path: Path) -> None:
    for copy, links in ((False, 2), (True, 1)):
        prepared = prepare(raw, tmp_path / f"out{copy}", copy=copy)
        patient = next((prepared.public / "train").iterdir())
        assert (patient / "1.dcm").stat().st_nlink == links


@pytest.mark.parametrize("inner", ["", "osic/"])
def test_zip_gives_what_its_folder_gives(raw: Path, tmp_path: Path, inner: str) -> None:
    with zipfile.ZipFile(tmp_path / "raw.zip", "w") as zipped:
        for path in raw.rglob("*"):
            if path.is_file():
                zipped.write(path, inner + str(path.relative_to(raw)))
    one, two = prepare(raw, tmp_path / "one"), prepare(tmp_path / "raw.zip", tmp_path / "two")
    for path in one.public.rglob("*"):
        if path.is_file():
            assert (two.public / path.relative_to(one.public)).read_bytes() == path.read_bytes()
    assert sorted(os.listdir(tmp_path / "two")) == ["manifest.json", "private", "public"]


@pytest.mark.parametrize(
    "name", ["../evil.txt", "/tmp/evil.txt", "a/../../evil.txt", "..\\evil.txt"]
)
def test_archive_members_cannot_leave_their_folder(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "raw.zip", "w") as zipped:
        zipped.writestr(name, "x")
    with pytest.raises(InputError, match="leads out"):
        prepare(tmp_path / "raw.zip", tmp_path / "out")
    assert not list(tmp_path.rglob("evil.txt"))


def test_archive_links_are_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("train.csv")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "raw.zip", "w") as zipped:
        zipped.writestr(link, "/etc/passwd")
    with pytest.raises(InputError, match="leads out"):
        prepare(tmp_path / "raw.zip", tmp_path / "out")


def test_kill_during_scans_resumes_and_shows_nothing_before(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tidegauge.bench.preparation as module

    made: list[str] = []

    def link(source: str, target: str) -> str:
        made.append(target)
        if len(made) == 21:
            raise KeyboardInterrupt
        return module_link(source, target)

    module_link = module.link_or_copy
    monkeypatch.setattr(module, "link_or_copy", link)
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        prepare(raw, out)
    assert not (out / "public").exists()
    first, made[:] = len(made), []
    made.append("already past the kill")
    monkeypatch.setattr(module, "link_or_copy", lambda s, t: made.append(t) or module_link(s, t))
    prepared = prepare(raw, out)
    assert len(made) - 1 == 78 - (first - 1)  # 39 patients, 2 images; whole folders are kept
    assert sum(1 for _ in prepared.public.rglob("*.dcm")) == 78


def test_kill_between_the_last_renames_is_refused_by_readers_and_completed_by_prepare(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tidegauge.bench.competition_folder as module

    out = tmp_path / "out"
    rename, done = os.replace, []

    def once(source: Path, target: Path) -> None:
        if done:
            raise KeyboardInterrupt
        rename(source, target)
        done.append(target)

    with monkeypatch.context() as patch:
        patch.setattr("tidegauge.bench.preparation._place_scans", lambda *_, **__: None)
        patch.setattr(module.os, "rename", once)
        with pytest.raises(KeyboardInterrupt):
            prepare(raw, out)
    assert not (out / "public").exists()
    before = sorted(out.rglob("*"))
    with pytest.raises(InputError, match="interrupted"):
        open_prepared(OSIC, out)
    assert sorted(out.rglob("*")) == before
    prepare(raw, out)
    assert open_prepared(OSIC, out).expected_keys
    assert sorted(os.listdir(out)) == ["manifest.json", "private", "public"]


def test_leftovers_of_other_raw_data_are_not_mixed_in(raw: Path, tmp_path: Path) -> None:
    stale = tmp_path / "out" / ".preparing" / "public" / "train" / "STRANGER"
    stale.mkdir(parents=True)
    prepared = prepare(raw, tmp_path / "out")
    assert not (prepared.public / "train" / "STRANGER").exists()


def test_week_measured_twice_has_two_answers_and_one_row_to_submit(tmp_path: Path) -> None:
    rows = [
        (f"P{p:02d}", week, 2000 + p, 70.0, 60, "Male", "Ex-smoker")
        for p in range(20)
        for week in (0, 5, 5, 9)
    ]
    columns = ["Patient", "Weeks", "FVC", "Percent", "Age", "Sex", "SmokingStatus"]
    (raw := tmp_path / "raw").mkdir()
    pd.DataFrame(rows, columns=columns).to_csv(raw / "train.csv", index=False)
    prepared = prepare(raw, tmp_path / "out")
    assert prepared.check(prepared.public / "sample_submission.csv").valid
    answers = OSIC.read_answers(prepared.private)
    assert [key.rpartition("_")[2] for key in answers.keys] == ["5", "5", "9"] * 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "No such file"),
        ("a,b\n1,2\n", "lacks the columns"),
        ("", "cannot be read"),
        ("Patient,Weeks,FVC,Percent,Age,Sex,SmokingStatus\nP,1.5,1,1,1,Male,x\n", "whole numbers"),
        ("Patient,Weeks,FVC,Percent,Age,Sex,SmokingStatus\nP,1,1,1,1,Male,x\n", "at least 2"),
        ("Patient,Weeks,FVC,Percent,Age,Sex,SmokingStatus\nP,,1,1,1,Male,x\n", "Weeks is missing"),
    ],
)  # fmt: skip
def test_unusable_tables_are_refused_by_name(text: str | None, reason: str, tmp_path: Path) -> None:
    (raw := tmp_path / "raw").mkdir()
    if text is not None:
        (raw / "train.csv").write_text(text)
    with pytest.raises(InputError, match=reason):
        prepare(raw, tmp_path / "out")


def test_missing_or_strange_raw_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--simulate"):
        prepare(tmp_path / "none", tmp_path / "out")
    (tmp_path / "x.zip").write_text("no archive")
    with pytest.raises(InputError, match="neither"):
        prepare(tmp_path / "x.zip", tmp_path / "out")


def test_unprepared_folder_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="bench prepare osic"):
        open_prepared(OSIC, tmp_path)


def test_surge_leaderboard_orders_known_forecasts(surge: Prepared) -> None:
    board = pd.read_csv(surge.private / "leaderboard.csv")["score"]
    truth = pd.read_csv(surge.private / "test.csv")["surge_cm"]
    assert board.is_monotonic_increasing
    assert board.iloc[0] > 4.0  # nobody beats the noise that was put in: sd 4 within a storm
    assert board.iloc[-1] < 3 * truth.std()


def test_simulated_answers_cannot_be_made_again_without_the_salt(tmp_path: Path) -> None:
    """Agents have the simulator and can guess the seed."""
    surge = get_competition("surge")

    def answers(name: str, **options: str) -> bytes:
        prepared = simulate_and_prepare(surge, tmp_path / name, seed=1, **options)
        return (prepared.private / "test.csv").read_bytes()

    assert answers("a") != answers("b")
    assert answers("c", salt="x") == answers("d", salt="x") != answers("e", salt="y")
    salt = tmp_path / "a" / "private" / "salt.txt"
    assert len(salt.read_text().strip()) == 32
    assert salt.stat().st_mode & 0o777 == 0o600
    described = {name: (tmp_path / name / "public" / "description.md").read_text() for name in "ac"}
    assert described["a"] == surge.description
    assert "can compute the answers" in described["c"]
    assert prepared_again(tmp_path / "a", salt.read_text().strip()) == answers_of(tmp_path / "a")


def answers_of(folder: Path) -> bytes:
    return (folder / "private" / "test.csv").read_bytes()


def prepared_again(folder: Path, salt: str) -> bytes:
    again = folder.parent / "again"
    simulate_and_prepare(get_competition("surge"), again, seed=1, salt=salt)
    return answers_of(again)


def test_two_commands_preparing_one_folder_leave_it_whole(raw: Path, tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    out = tmp_path / "out"
    workers = [fork.Process(target=prepare, args=(raw, out)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert open_prepared(OSIC, out).expected_keys
    assert (out / "private" / "test.csv").exists()
    assert sorted(os.listdir(out)) == ["manifest.json", "private", "public"]


def test_an_unpacked_file_with_other_bytes_is_unpacked_again(raw: Path, tmp_path: Path) -> None:
    """The size alone proves nothing: a killed preparation may have left zeros."""
    archive = tmp_path / "raw.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.write(raw / "train.csv", "train.csv")
    out = tmp_path / "out"
    prepare(archive, out)
    expected = (out / "public" / "train.csv").read_bytes()
    staging = out / ".preparing"
    (staging / "raw").mkdir(parents=True)
    (staging / "source").write_text(f"{archive.resolve()} {archive.stat().st_mtime_ns}")
    size = (raw / "train.csv").stat().st_size
    (staging / "raw" / "train.csv").write_bytes(b"\0" * size)
    prepare(archive, out)
    assert (out / "public" / "train.csv").read_bytes() == expected


def test_an_archive_larger_than_the_disk_is_refused(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "raw.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.write(raw / "train.csv", "train.csv")
    usage = shutil.disk_usage(tmp_path)._replace(free=10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(InputError, match="has room for 10"):
        prepare(archive, tmp_path / "out")


@pytest.mark.parametrize("patient", ["../../etc", "a/b", ".."])
def test_a_patient_id_that_is_a_path_is_refused(raw: Path, tmp_path: Path, patient: str) -> None:
    table = (raw / "train.csv").read_text().splitlines()
    first = table[1].split(",")[0]
    folder = tmp_path / "spoiled"
    folder.mkdir()
    (folder / "train.csv").write_text("\n".join(table).replace(first, patient) + "\n")
    with pytest.raises(InputError, match="is no id"):
        prepare(folder, tmp_path / "out")


def test_a_full_disk_is_the_users_error(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    spoiled = replace(OSIC, prepare=full)
    with pytest.raises(InputError, match="No space left"):
        prepare_competition(spoiled, raw, tmp_path / "out")


def test_weeks_of_no_study_are_refused_before_every_week_becomes_a_row(tmp_path: Path) -> None:
    write_raw(simulate_cohort(n_patients=30, seed=5), tmp_path / "raw")
    table = tmp_path / "raw" / "train.csv"
    header, first, *rest = table.read_text().splitlines()
    cells = first.split(",")
    cells[header.split(",").index("Weeks")] = str(2**50)
    table.write_text("\n".join([header, *rest, ",".join(cells)]))
    with pytest.raises(InputError, match=r"train\.csv:\d+: Weeks=1125899906842624: not weeks"):
        prepare_competition("osic", tmp_path / "raw", tmp_path / "out", verify=False)
