"""Preparing by a checkout's own preparers, and finding out what does not work."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import mlebench_checkout as made
from calls import Call
from tidegauge.bench.mlebench.check import check_competition
from tidegauge.bench.mlebench.checkout import Checkout, open_checkout
from tidegauge.bench.mlebench.competition import checkout_competition, open_checkout_prepared
from tidegauge.bench.mlebench.preparation import differing_checksums, prepare_checkout
from tidegauge.errors import InputError

NAME = "harbour-depths"
CACTUS = "aerial-cactus-identification"


def tree(folder: Path) -> dict[str, str]:
    """Every file below a folder with its hash; archives carry the time they were made."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".zip" and path.name != "source.txt"
    }


@pytest.fixture
def own(root: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(root, tmp_path / "own"))


def folder_of(own: Path, name: str = NAME) -> Path:
    return own / "mlebench" / "competitions" / name


@pytest.mark.parametrize("name", sorted(made.MADE))
def test_prepared_files_are_mlebenchs_and_raw_stays(
    name: str, checkout: Checkout, data: Path, tmp_path: Path
) -> None:
    raw = made.write_raw(tmp_path / "raw", name)
    before = tree(raw), {path.name for path in raw.iterdir()}
    competition = checkout_competition(checkout, name)
    prepared = prepare_checkout(competition, raw, tmp_path / "out")
    assert (tree(raw), {path.name for path in raw.iterdir()}) == before
    for part in ("public", "private"):
        assert tree(tmp_path / "out" / "prepared" / part) == tree(data / name / "prepared" / part)
    assert prepared.source == raw
    assert raw in prepared.hidden
    for path in prepared.private.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0
    assert not (tmp_path / "out" / "prepared" / ".preparing").exists()


def test_copies_of_raw_files_are_links(checkout: Checkout, tmp_path: Path) -> None:
    raw = made.write_raw(tmp_path / "raw", CACTUS)
    archive = made.write_zip(tmp_path / "kaggle.zip", CACTUS)
    competition = checkout_competition(checkout, CACTUS)
    for source in (raw, archive):
        prepared = prepare_checkout(competition, source, tmp_path / f"from-{source.stem}")
        assert (prepared.public / "images" / "0.jpg").read_bytes() == b"not really an image"
    assert (raw / "images.zip").exists()  # the preparer deletes it, in its own farm


def test_data_in_mlebenchs_layout_needs_no_paths(
    own: Path, data: Path, tmp_path: Path, call: Call
) -> None:
    """DATA/<id>/<id>.zip or DATA/<id>/raw; what is done is skipped; one failure is one."""
    place = tmp_path / "place"
    for name in own_split(own):
        (place / name).mkdir(parents=True)
        if name == NAME:
            made.write_zip(place / name / f"{name}.zip", name)
        elif name != CACTUS:
            made.write_raw(place / name / "raw", name)
    options = ("--split", "low", "--mlebench", own, "--data", place)
    said = call("bench", "prepare", *options, "--jobs", 2)
    assert said.code == 1
    assert f"{NAME}: prepared" in said.out
    assert f"{CACTUS}: " in said.out
    assert "neither a .zip nor raw/" in said.out
    made.write_raw(place / CACTUS / "raw", CACTUS)
    first = (place / NAME / "prepared" / "manifest.json").read_bytes()
    assert call("bench", "prepare", *options).code == 0
    assert (place / NAME / "prepared" / "manifest.json").read_bytes() == first
    said = call("bench", "check", *options)
    assert said.code == 0, said.out
    assert said.out.count(": ok") == 5


def own_split(own: Path) -> list[str]:
    return (own / "experiments" / "splits" / "low.txt").read_text().split()


def test_other_data_fails_its_checksums(checkout: Checkout, tmp_path: Path) -> None:
    raw = made.write_raw(tmp_path / "raw", NAME, seed=2)
    competition = checkout_competition(checkout, NAME)
    with pytest.raises(InputError, match=r"private/test\.csv is [0-9a-f]{32}"):
        prepare_checkout(competition, raw, tmp_path / "out")
    assert not (tmp_path / "out" / "prepared" / "public").exists()
    prepared = prepare_checkout(competition, raw, tmp_path / "out", verify=False)
    differ = differing_checksums(competition, prepared.public.parent)
    names = ["public/test.csv", "public/train.csv", "private/test.csv"]  # the sample is the same
    assert [text.split()[0] for text in differ] == names


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("import no_such_package", "pip install no_such_package"),
        ("raise ValueError('no such column')", "ValueError: no such column"),
        ("import os; os._exit(1)", "the worker ended"),
        ("pass", "did not write private/test.csv"),
        ("open(raw / 'train.csv', 'a').write('x')", "wrote into files of the raw data"),
        ("import urllib.request; urllib.request.urlopen('http://192.0.2.1')", "URLError"),
        ("open('/etc/mark', 'w')", "Read-only|Permission"),
    ],
)
def test_a_preparer_that_fails_leaves_nothing_and_says_why(
    own: Path, tmp_path: Path, body: str, message: str, bubblewrap: None
) -> None:
    path = folder_of(own) / "prepare.py"
    path.write_text(f"def prepare(raw, public, private):\n    {body}\n")
    raw = made.write_raw(tmp_path / "raw", NAME)
    competition = checkout_competition(open_checkout(own), NAME)
    with pytest.raises(InputError, match=message):
        prepare_checkout(competition, raw, tmp_path / "out")
    assert not (tmp_path / "out" / "prepared" / "public").exists()
    assert not Path("/etc/mark").exists()


@pytest.mark.parametrize("raw", ["nothing", "text.zip"])
def test_raw_data_that_cannot_be_used_is_refused(
    raw: str, checkout: Checkout, tmp_path: Path
) -> None:
    (tmp_path / "text.zip").write_text("not an archive")
    with pytest.raises(InputError, match="give the raw data"):
        prepare_checkout(checkout_competition(checkout, NAME), tmp_path / raw, tmp_path / "out")


def test_a_killed_preparation_is_done_again(own: Path, data: Path, tmp_path: Path) -> None:
    path = folder_of(own) / "prepare.py"
    original = path.read_text()
    slow = "    import time\n    (public / 'begun').touch()\n    time.sleep(600)\n"
    path.write_text(original.replace("private: Path):\n", f"private: Path):\n{slow}"))
    raw = made.write_raw(tmp_path / "raw", NAME)
    out = tmp_path / "out"
    command = [
        sys.executable, "-m", "tidegauge", "bench", "prepare", f"mlebench/{NAME}",
        "--mlebench", str(own), "--raw", str(raw), "--out", str(out),
    ]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    begun = out / "prepared" / ".preparing" / "public" / "begun"
    while not begun.exists():
        assert process.poll() is None
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    path.write_text(original)
    competition = checkout_competition(open_checkout(own), NAME)
    with pytest.raises(InputError, match="holds no prepared competition"):
        open_checkout_prepared(competition, out)
    prepare_checkout(competition, raw, out)
    assert tree(out / "prepared" / "public") == tree(data / NAME / "prepared" / "public")


def test_two_commands_preparing_one_folder_leave_it_whole(
    checkout: Checkout, data: Path, tmp_path: Path
) -> None:
    raw = made.write_raw(tmp_path / "raw", NAME)
    competition = checkout_competition(checkout, NAME)
    faults: list[Exception] = []

    def prepare() -> None:
        try:
            prepare_checkout(competition, raw, tmp_path / "out")
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=prepare) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    for part in ("public", "private"):
        assert tree(tmp_path / "out" / "prepared" / part) == tree(data / NAME / "prepared" / part)


def test_two_processes_making_profile_and_decoys_agree(
    root: Path, data: Path, tmp_path: Path
) -> None:
    place = Path(shutil.copytree(data / NAME, tmp_path / NAME))
    shutil.rmtree(place / "tidegauge", ignore_errors=True)
    sample = place / "prepared" / "public" / "sample_submission.csv"
    command = [sys.executable, "-m", "tidegauge", "bench", "validate", f"mlebench/{NAME}"]
    command += [str(sample), "--mlebench", str(root), "--prepared", str(place)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate()[0] for process in running]
    assert said == ["Submission is valid.\n"] * 3
    assert len(list((place / "tidegauge").glob("decoys-*"))) == 1
    assert (place / "tidegauge").stat().st_mode & 0o077 == 0


def test_a_folder_that_cannot_be_written_keeps_its_side_files_in_the_cache(
    checkout: Checkout, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Path(shutil.copytree(data / NAME, tmp_path / NAME))
    shutil.rmtree(place / "tidegauge", ignore_errors=True)
    before = tree(place)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    real = os.access
    # Root may write anywhere, so the refusal is made here.
    monkeypatch.setattr(os, "access", lambda path, mode: path != place and real(path, mode))
    prepared = open_checkout_prepared(checkout_competition(checkout, NAME), place)
    assert prepared.check(prepared.sample).valid
    assert prepared.side_folder.is_relative_to(tmp_path / "cache")
    assert tree(place) == before


def test_profile_and_decoys_are_made_anew_when_answers_or_grader_change(
    own: Path, data: Path, tmp_path: Path
) -> None:
    place = Path(shutil.copytree(data / NAME, tmp_path / NAME))
    competition = checkout_competition(open_checkout(own), NAME)
    first = open_checkout_prepared(competition, place).side_files
    assert open_checkout_prepared(competition, place).known_side_files() == first
    path = folder_of(own) / "grade.py"
    path.write_text(path.read_text() + "\n# changed\n")
    again = open_checkout_prepared(competition, place)
    assert again.known_side_files() is None
    assert again.side_files.decoys != first.decoys
    assert not (again.side_folder / (first.decoys or "")).exists()
    answers = again.answers
    answers.write_text(answers.read_text() + "\n")
    assert open_checkout_prepared(competition, place).known_side_files() is None


@pytest.mark.parametrize("name", sorted(made.MADE))
def test_every_made_up_competition_passes_the_check(
    name: str, checkout: Checkout, data: Path
) -> None:
    result = check_competition(checkout, name, data / name)
    assert result.problems == []
    assert any("validated on decoys" in fact for fact in result.facts)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ("import pycocotools_of_old", "pip install pycocotools_of_old"),
        ("raise TypeError('new numpy')", r"rejects its own gold submission \(TypeError: new numpy"),
        ("answers = answers + 'x'", "rejects its own gold submission"),
        ("return 0.5", "are not of the same data"),
        ("import os; os._exit(4)", "rejects its own gold submission .WorkerError"),
    ],
)
def test_a_broken_environment_is_told_from_a_bad_submission(
    own: Path, data: Path, tmp_path: Path, call: Call, spoil: str, message: str
) -> None:
    place = Path(shutil.copytree(data / NAME, tmp_path / "data" / NAME))
    path = folder_of(own) / "grade.py"
    text = path.read_text()
    if spoil.startswith("import py"):
        text = f"{spoil}\n{text}"
    else:
        text = text.replace("answers):\n", f"answers):\n    {spoil}\n")
    path.write_text(text)
    result = check_competition(open_checkout(own), NAME, place)
    assert any(re.search(message, problem) for problem in result.problems), result.problems
    said = call("bench", "check", NAME, "--mlebench", own, "--data", tmp_path / "data", "--json")
    assert said.code == 1
    (found,) = json.loads(said.out)["competitions"]
    assert found["passed"] is False


def test_another_sample_score_than_mlebenchs_is_named(own: Path, data: Path) -> None:
    path = own / "tests" / "constants.py"
    path.write_text(f"sample_submission_scores = {{{NAME!r}: 4.7}}\n")
    result = check_competition(open_checkout(own), NAME, data / NAME)
    assert any("MLE-bench expects 4.7" in problem for problem in result.problems)


def test_data_that_is_missing_or_altered_is_named(
    checkout: Checkout, data: Path, tmp_path: Path
) -> None:
    result = check_competition(checkout, NAME, tmp_path)
    assert any("holds no prepared competition" in problem for problem in result.problems)
    place = Path(shutil.copytree(data / NAME, tmp_path / NAME))
    train = place / "prepared" / "public" / "train.csv"
    train.write_text(train.read_text() + "1,2,3,4\n")
    result = check_competition(checkout, NAME, place)
    assert any("public/train.csv" in problem for problem in result.problems)
    (place / "prepared" / "private" / "test.csv").unlink()
    result = check_competition(checkout, NAME, place)
    assert any("test.csv: is missing" in problem for problem in result.problems)
