"""Processes that read hostile files may die; the scans of others are still measured."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from dicom_mutations import MUTATIONS, claim_frames, deflate_bomb
from tidegauge.fvc.scans import workers
from tidegauge.fvc.scans.cache import scan_features
from tidegauge.fvc.scans.series import ScanError
from tidegauge.fvc.scans.workers import call_in_worker, map_in_workers
from tidegauge.simulate.phantoms import write_phantom


def act(what: str) -> str:
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "crash":
        os.abort()
    if what == "eat":
        return str(len(bytearray(workers.MEMORY_BYTES + (1 << 28))))
    if what == "spin":
        signal.setitimer(signal.ITIMER_PROF, 0.2)
        while True:
            pass
    if what == "surprise":
        raise ZeroDivisionError("something nobody thought of")
    return what


def test_a_process_that_dies_is_one_scan_and_the_others_go_on() -> None:
    items = ["a", "die", "b", "surprise", "crash", "c", "eat", "spin", "d"]
    found = dict(map_in_workers(act, items, workers=2))
    assert {items[k]: v for k, v in found.items() if isinstance(v, str)} == {
        name: name for name in "abcd"
    }
    errors = {items[k]: str(v) for k, v in found.items() if isinstance(v, ScanError)}
    assert "ZeroDivisionError: something nobody thought of" in errors["surprise"]
    assert "needs more than 1024 MiB of memory" in errors["eat"]
    for name in ("die", "crash", "spin"):
        assert "the process that read it died" in errors[name]


def test_a_single_call_raises_what_went_wrong() -> None:
    assert call_in_worker(act, "fine") == "fine"
    with pytest.raises(ScanError, match="died"):
        call_in_worker(act, "die")


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("series") / "scan"
    rng = np.random.default_rng(3)
    write_phantom(folder, lung_volume_ml=3000, fibrosis_fraction=0.2, rng=rng, slices=6, size=64)
    return folder


def test_mutated_series_are_measured_or_refused_with_a_reason(series: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(17)
    for number in range(3 * len(MUTATIONS)):
        mutation = MUTATIONS[number % len(MUTATIONS)]
        place = tmp_path / f"{number:02d}"
        place.mkdir()
        files = sorted(series.iterdir())
        n_spoilt = (1, 3, len(files))[number // len(MUTATIONS)]
        for index, path in enumerate(files):
            (place / path.name).write_bytes(path.read_bytes())
            if index < n_spoilt:
                mutation(place / path.name, rng)
    names = sorted(path.name for path in tmp_path.iterdir())
    found = scan_features(tmp_path, names, workers=2)
    told = {text.partition(":")[0] for text in found.warnings}
    for name in names:
        assert found.table.loc[name].notna().any() or name in told


@pytest.mark.parametrize(
    ("mutation", "reason"),
    [(claim_frames, r"NumberOfFrames=|cannot be in"), (deflate_bomb, r"holds more than|not DICOM")],
)
def test_what_a_file_cannot_hold_is_refused_by_its_header(
    series: Path, tmp_path: Path, mutation: object, reason: str
) -> None:
    from tidegauge.fvc.scans.dicom import read_scan

    class Last:
        """A generator whose choice is the worst."""

        def choice(self, values: list[int]) -> int:
            return values[-1]

    path = tmp_path / "1.dcm"
    path.write_bytes(sorted(series.iterdir())[0].read_bytes())
    mutation(path, Last())  # type: ignore[operator]
    with pytest.raises(ScanError, match=reason):
        read_scan(tmp_path)
