"""`fvc scan`: what it writes, prints and exits with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pydicom
import pytest
from click.testing import CliRunner, Result

from dicom_files import write_slices
from tidegauge.cli.fvc import fvc
from tidegauge.fvc.scans.features import FEATURES
from tidegauge.simulate.phantoms import write_phantom


def run(*arguments: object) -> Result:
    return CliRunner().invoke(fvc, ["scan", *map(str, arguments)])


@pytest.fixture(scope="module")
def scan_folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    folder = tmp_path_factory.mktemp("scan")
    rng = np.random.default_rng(4)
    volume_ml = write_phantom(
        folder, lung_volume_ml=3500, fibrosis_fraction=0.1, rng=rng, slices=16, size=128
    )
    return folder, volume_ml


def test_a_scan_is_measured_for_a_person_to_see(
    scan_folder: tuple[Path, float], tmp_path: Path
) -> None:
    folder, volume_ml = scan_folder
    result = run(folder, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "both lungs" in result.output
    found = json.loads((tmp_path / "out" / "features.json").read_text())
    assert found["trusted"] is True
    assert found["lung_volume_ml"] == pytest.approx(volume_ml, rel=0.03)
    sides = found["right_lung_volume_ml"] + found["left_lung_volume_ml"]
    assert sides == pytest.approx(found["lung_volume_ml"], abs=0.2)
    assert list(found["features"]) == list(FEATURES)
    with np.load(tmp_path / "out" / "mask.npz") as kept:
        mask, spacing_mm = kept["mask"], kept["spacing_mm"]
    assert mask.dtype == bool
    assert mask.sum() * spacing_mm.prod() / 1000 == pytest.approx(found["lung_volume_ml"], rel=0.01)
    right, left = mask[:, :, : mask.shape[2] // 2].sum(), mask[:, :, mask.shape[2] // 2 :].sum()
    assert right == pytest.approx(
        found["right_lung_volume_ml"] / spacing_mm.prod() * 1000, rel=0.03
    )
    assert left > 0.5 * right
    assert (tmp_path / "out" / "overlay.png").read_bytes().startswith(b"\x89PNG")


def test_a_volume_that_does_not_fit_the_patient_is_a_warning(
    scan_folder: tuple[Path, float], tmp_path: Path
) -> None:
    result = run(scan_folder[0], "--out", tmp_path / "out", "--fvc", 800)
    assert result.exit_code == 0
    assert "volume_for_the_patient" in result.output
    (warning,) = json.loads((tmp_path / "out" / "features.json").read_text())["warnings"]
    assert warning["name"] == "volume_for_the_patient"


def test_a_scan_that_cannot_be_trusted_has_no_numbers(
    scan_folder: tuple[Path, float], tmp_path: Path
) -> None:
    folder = tmp_path / "abdomen"
    folder.mkdir()
    slices = sorted(scan_folder[0].iterdir(), key=lambda path: slice_height_mm(path))
    for path in slices[: len(slices) // 2]:
        shutil.copy(path, folder)
    result = run(folder, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "cannot be trusted: bases_alone" in result.stderr
    found = json.loads((tmp_path / "out" / "features.json").read_text())
    assert found["trusted"] is False
    assert found["lung_volume_ml"] is found["left_lung_volume_ml"] is None
    assert set(found["features"].values()) == {None}
    assert "both lungs" in result.stdout
    assert " ml" not in result.stdout


def slice_height_mm(path: Path) -> float:
    return float(pydicom.dcmread(path, stop_before_pixels=True).ImagePositionPatient[2])


def test_a_scan_without_lungs_exits_1_with_the_reason(tmp_path: Path, tidegauge: object) -> None:
    write_slices(tmp_path / "scan", np.full((8, 64, 64), 40, dtype=np.int16))
    done = tidegauge("fvc", "scan", tmp_path / "scan", "--out", tmp_path / "out")  # type: ignore[operator]
    assert done.returncode == 1
    assert "no lungs found" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_read_exits_2(tmp_path: Path, tidegauge: object) -> None:
    done = tidegauge("fvc", "scan", tmp_path / "nowhere", "--out", tmp_path / "out")  # type: ignore[operator]
    assert done.returncode == 2
    assert "no such folder" in done.stderr
