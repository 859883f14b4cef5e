"""The segmentation on people: masks drawn by others, and one patient seen in several ways."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tidegauge.fvc.scans.dicom import read_scan
from tidegauge.fvc.scans.features import measure_lungs
from tidegauge.fvc.scans.plausibility import Effect, check_lungs
from tidegauge.fvc.scans.segmentation import LEFT, RIGHT, Lungs, segment_lungs
from tidegauge.fvc.scans.series import ScanError, Volume

pytestmark = pytest.mark.realdata
Mask = NDArray[np.bool_]
MASKED = ("id001", "id002")


@pytest.fixture(scope="module")
def ct(realdata: Path) -> Path:
    return realdata / "ct"


def masked(ct: Path, name: str) -> tuple[Volume, Mask]:
    with np.load(ct / "masked" / f"{name}.npz") as kept:
        return Volume(kept["hu"], tuple(map(float, kept["spacing"]))), kept["mask"]


def osic(ct: Path, patient: str) -> Volume:
    (folder,) = ct.glob(f"{patient}*")
    return read_scan(folder)


def dice(one: Mask, other: Mask) -> float:
    return float(2 * (one & other).sum() / (one.sum() + other.sum()))


@pytest.fixture(scope="module")
def kernels(ct: Path) -> list[tuple[Volume, Lungs]]:
    """One scan reconstructed twice."""
    volumes = [read_scan(ct / f"a0001_{kernel}") for kernel in ("soft", "sharp")]
    return [(volume, segment_lungs(volume)) for volume in volumes]


@pytest.mark.parametrize("name", MASKED)
def test_lungs_against_masks_drawn_by_others(ct: Path, name: str) -> None:
    volume, truth = masked(ct, name)
    lungs = segment_lungs(volume)
    assert lungs.blocks == (1, 1, 1)
    assert dice(lungs.mask, truth) >= 0.975


def test_two_kernels_show_the_same_lungs(kernels: list[tuple[Volume, Lungs]]) -> None:
    (_, soft), (_, sharp) = kernels
    assert soft.volume_ml == pytest.approx(sharp.volume_ml, rel=0.01)
    assert dice(soft.mask, sharp.mask) >= 0.985
    one, other = (measure_lungs(volume, lungs).values for volume, lungs in kernels)
    for name in ("low_attenuation_share", "high_attenuation_share", "dense_share"):
        assert one[name] == pytest.approx(other[name], abs=0.02), name


def test_a_framed_image_has_both_lungs_and_no_table_air(ct: Path) -> None:
    lungs = segment_lungs(osic(ct, "ID00419"))
    assert lungs.volume_ml == pytest.approx(1040, rel=0.05)
    for side in (RIGHT, LEFT):
        assert (lungs.side == side).sum() > 0.3 * lungs.mask.sum()


def test_no_slice_of_a_torn_series_is_lost(ct: Path) -> None:
    volume = osic(ct, "ID00007")
    assert len(volume.hu) == 20
    assert volume.missing_mm == pytest.approx(100)
    assert segment_lungs(volume).mask.any(axis=(1, 2)).sum() >= 14


def every_other_slice(volume: Volume) -> Volume:
    z, y, x = volume.spacing_mm
    return Volume(volume.hu[::2], (2 * z, y, x))


def mirrored(volume: Volume) -> Volume:
    return Volume(volume.hu[:, :, ::-1].copy(), volume.spacing_mm)


def prone(volume: Volume) -> Volume:
    return Volume(volume.hu[:, ::-1, ::-1].copy(), volume.spacing_mm)


def shifted(volume: Volume, hu: float) -> Volume:
    return Volume(np.clip(volume.hu + hu, -1024, 3071).astype(np.int16), volume.spacing_mm)


def noisy(volume: Volume) -> Volume:
    noise = np.random.default_rng(0).normal(scale=150, size=volume.hu.shape)
    return Volume(np.clip(volume.hu + noise, -1024, 3071).astype(np.int16), volume.spacing_mm)


@pytest.mark.parametrize("name", MASKED)
@pytest.mark.parametrize(
    ("change", "most"),
    [
        (every_other_slice, 0.02),
        (mirrored, 0.005),
        (prone, 0.005),
        (lambda v: shifted(v, 40), 0.02),
        (lambda v: shifted(v, -40), 0.02),
        (noisy, 0.02),
    ],
    ids=["10 mm", "mirrored", "prone", "+40 HU", "-40 HU", "noise"],
)
def test_volume_does_not_depend_on_how_it_was_scanned(
    ct: Path, name: str, change: Callable[[Volume], Volume], most: float
) -> None:
    volume, _ = masked(ct, name)
    expected = segment_lungs(volume).volume_ml
    changed = change(volume)
    lungs = segment_lungs(changed)
    assert lungs.volume_ml == pytest.approx(expected, rel=most)
    assert check_lungs(changed, lungs) == []  # no right mask is suspected


@pytest.mark.parametrize("name", MASKED)
def test_an_image_that_cuts_the_chest_shows_the_lungs_that_are_in_it(ct: Path, name: str) -> None:
    volume, _ = masked(ct, name)
    lungs = segment_lungs(volume).mask
    columns = np.flatnonzero(lungs.any(axis=(0, 1)))
    inner = np.s_[:, :, columns[0] + 6 : columns[-1] - 5]
    found = segment_lungs(Volume(volume.hu[inner].copy(), volume.spacing_mm))
    assert dice(found.mask, lungs[inner]) >= 0.99


@pytest.mark.parametrize("name", MASKED)
def test_a_circle_of_view_that_cuts_the_chest_is_said(ct: Path, name: str) -> None:
    """Lung that meets the padding around the circle is lung, and its size is not known."""
    volume, _ = masked(ct, name)
    lungs = segment_lungs(volume).mask
    rows, columns = (np.flatnonzero(lungs.any(axis=axes)) for axes in ((0, 2), (0, 1)))
    y, x = np.ogrid[: volume.hu.shape[1], : volume.hu.shape[2]]
    radius = np.hypot(y - (rows[0] + rows[-1]) / 2, x - (columns[0] + columns[-1]) / 2)
    field = radius <= np.ptp(columns) / 2
    part = Volume(np.where(field, volume.hu, -1024).astype(np.int16), volume.spacing_mm)
    found = segment_lungs(part)
    assert dice(found.mask, lungs & field) >= 0.98
    findings = [(one.name, one.effect) for one in check_lungs(part, found)]
    assert findings == [("cut_at_side", Effect.SIZE)]


def test_the_table_under_a_cut_patient_is_not_lung(ct: Path) -> None:
    """Foam of the table is as light as lung, and meets the sides of the image too."""
    volume = osic(ct, "ID00419")
    lungs = segment_lungs(volume).mask
    columns = np.flatnonzero(lungs.any(axis=(0, 1)))
    tenth = int(0.1 * np.ptp(columns))
    inner = np.s_[:, :, columns[0] + tenth : columns[-1] - tenth]
    found = segment_lungs(Volume(volume.hu[inner].copy(), volume.spacing_mm))
    assert dice(found.mask, lungs[inner]) >= 0.99


@pytest.mark.parametrize("name", [*MASKED, "ID00007", "a0001_soft"])
def test_the_abdomen_alone_is_refused(ct: Path, name: str) -> None:
    """With no lung, with the costophrenic recess, and with up to a third of the lungs."""
    volume = masked(ct, name)[0] if name in MASKED else osic(ct, name)
    areas = segment_lungs(volume).mask.sum(axis=(1, 2))
    below = areas[::-1].cumsum()[::-1] / areas.sum()
    for share in (0.0, 0.01, 0.03, 0.07, 0.15, 0.3):
        first = int(np.argmax(below <= share))
        part = Volume(volume.hu[first:], volume.spacing_mm)
        try:
            refused = measure_lungs(part, segment_lungs(part)).is_refused
        except ScanError as error:
            refused = "no lungs found" in str(error)
        assert refused, f"{below[first]:.1%} of the lungs"


@pytest.mark.parametrize("name", MASKED)
def test_lungs_cut_short_at_the_apex_lose_their_size_only(ct: Path, name: str) -> None:
    volume, _ = masked(ct, name)
    areas = segment_lungs(volume).mask.sum(axis=(1, 2))
    first = int(np.argmax(areas.cumsum() > 0.1 * areas.sum()))
    part = Volume(volume.hu[first:], volume.spacing_mm)
    found = check_lungs(part, segment_lungs(part))
    assert [(one.name, one.effect) for one in found] == [("cut_off", Effect.SIZE)]
