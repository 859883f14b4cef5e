"""Lung features against phantoms and formulas; bad scans cost a warning each and nothing else."""

from __future__ import annotations

import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage, stats

from dicom_files import write_slices
from tidegauge.fvc.scans import cache as cache_module
from tidegauge.fvc.scans.cache import scan_features
from tidegauge.fvc.scans.features import FEATURES, measure_lungs
from tidegauge.fvc.scans.grid import Spacing
from tidegauge.fvc.scans.scan import overlay_png, slice_png
from tidegauge.fvc.scans.segmentation import LEFT, RIGHT, Lungs, segment_lungs
from tidegauge.fvc.scans.series import ScanError, Volume
from tidegauge.simulate.phantoms import write_phantom
from tidegauge.simulate.thorax import Phantom, draw_phantom


def phantom(seed: int = 1, *, volume_ml: float = 3500, fibrosis: float = 0.25) -> Phantom:
    return draw_phantom(
        lung_volume_ml=volume_ml,
        fibrosis_fraction=fibrosis,
        rng=np.random.default_rng(seed),
        slices=16,
        size=128,
    )


def volume_of(drawn: Phantom) -> Volume:
    return Volume(np.maximum(drawn.hu, -1024), drawn.spacing_mm)


@pytest.fixture(scope="module")
def drawn() -> Phantom:
    return phantom()


@pytest.fixture(scope="module")
def fifty_scans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fifty folders, of which five are bad in five ways."""
    folder = tmp_path_factory.mktemp("scans")
    write_phantom(
        folder / "P00",
        lung_volume_ml=3000,
        fibrosis_fraction=0.2,
        rng=np.random.default_rng(3),
        slices=8,
        size=64,
    )
    for index in range(1, 50):
        shutil.copytree(folder / "P00", folder / f"P{index:02d}")
    for path in (folder / "P05").iterdir():
        path.unlink()
    for path in (folder / "P11").iterdir():
        path.write_bytes(b"not an image")
    for path in (folder / "P23").iterdir():
        path.write_bytes(path.read_bytes()[:900])
    shutil.rmtree(folder / "P31")
    write_slices(folder / "P31", np.full((8, 64, 64), 40, dtype=np.int16))  # no air, no lungs
    for path in (folder / "P49").iterdir():
        if path.name != "5.dcm":
            path.unlink()  # a single slice
    return folder


def test_volume_of_a_fibrotic_phantom_against_its_truth(drawn: Phantom) -> None:
    lungs = segment_lungs(volume_of(drawn))
    assert lungs.volume_ml == pytest.approx(drawn.lung_volume_ml, rel=0.03)


def test_consolidated_lung_stays_inside_the_mask() -> None:
    heavy = phantom(5, fibrosis=0.6)
    volume = volume_of(heavy)
    lungs = segment_lungs(volume)
    assert lungs.blocks == (1, 1, 1)  # so that truth and mask share a grid
    # A pixel from the pleura, so that the blurred edge of the lung is not taken for it.
    deep = ndimage.binary_erosion(heavy.lungs, np.ones((1, 3, 3)))
    consolidated = deep & (heavy.hu > -200)
    assert consolidated.sum() > 0.015 * heavy.lungs.sum()
    assert lungs.mask[consolidated].mean() > 0.5  # a threshold alone would keep none of it
    assert lungs.volume_ml == pytest.approx(heavy.lung_volume_ml, rel=0.05)


def test_trachea_stomach_gas_and_table_are_not_lung(drawn: Phantom) -> None:
    lungs = segment_lungs(volume_of(drawn))
    assert (lungs.mask & ~drawn.lungs).sum() < 0.02 * drawn.lungs.sum()
    top = np.flatnonzero(drawn.lungs.any(axis=(1, 2)))[0]
    assert not lungs.mask[:top].any()  # above the apex there is only the trachea


def test_lungs_that_touch_the_edge_of_the_image_are_found(drawn: Phantom) -> None:
    columns = np.flatnonzero(drawn.lungs.any(axis=(0, 1)))
    rows = np.flatnonzero(drawn.lungs.any(axis=(0, 2)))
    box = np.s_[:, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    cropped = Volume(np.maximum(drawn.hu[box], -1024), drawn.spacing_mm)
    assert segment_lungs(cropped).volume_ml == pytest.approx(drawn.lung_volume_ml, rel=0.05)


@pytest.mark.parametrize("level_hu", [-1000, 40])
def test_a_volume_without_lungs_says_so(level_hu: int) -> None:
    empty = Volume(np.full((10, 40, 40), level_hu, dtype=np.int16), (5.0, 5.0, 5.0))
    with pytest.raises(ScanError, match="no lungs found; check that this is a chest CT"):
        segment_lungs(empty)


def whole(mask: NDArray[np.bool_], hu: NDArray[np.int16], spacing_mm: Spacing) -> Lungs:
    """Lungs that are just this mask, the right half of the columns right."""
    side = np.where(np.arange(mask.shape[2]) < mask.shape[2] // 2, RIGHT, LEFT) * mask
    body = np.ones_like(mask)
    return Lungs(side.astype(np.uint8), body, hu.astype(np.float32), (1, 1, 1), spacing_mm)


def test_density_features_against_scipy() -> None:
    rng = np.random.default_rng(4)
    hu = np.rint(rng.gamma(3, 60, size=(9, 30, 30)) - 950).astype(np.int16)
    mask = np.zeros(hu.shape, dtype=bool)
    mask[1:-1, 2:-2, 2:-2] = True
    hu[~mask] = 40
    # Pixels so large that their own spread is that of the smoothed grid: nothing is smoothed.
    lungs = whole(mask, hu, (20.0, 6.0, 6.0))
    values = measure_lungs(Volume(hu, lungs.spacing_mm), lungs).values
    inside = hu[mask].astype(float)
    assert values["mean_hu"] == pytest.approx(inside.mean())
    assert values["sd_hu"] == pytest.approx(inside.std())
    assert values["skewness"] == pytest.approx(stats.skew(inside))
    assert values["kurtosis"] == pytest.approx(stats.kurtosis(inside))
    assert values["p90_hu"] == pytest.approx(np.quantile(inside, 0.9))
    share = ((inside >= -600) & (inside < -250)).mean()
    assert values["high_attenuation_share"] == pytest.approx(share)
    volume_ml = mask.sum() * 0.72
    assert values["lung_volume_ml"] == pytest.approx(volume_ml)
    assert values["lung_height_mm"] == pytest.approx(7 * 20)
    assert values["lung_mass_g"] == pytest.approx(volume_ml * (inside.mean() + 1000) / 1000)


def test_thirds_are_counted_from_the_head() -> None:
    hu = np.repeat(np.array([0, -900, -700, -500, 0]), [1, 3, 3, 3, 1]).astype(np.int16)
    hu = np.broadcast_to(hu[:, None, None], (11, 40, 40)).copy()
    mask = np.zeros(hu.shape, dtype=bool)
    mask[1:-1, 2:-2, 2:-2] = True
    hu[~mask] = 40
    lungs = whole(mask, hu, (20.0, 5.0, 5.0))
    values = measure_lungs(Volume(hu, lungs.spacing_mm), lungs).values
    thirds = [values[f"{third}_mean_hu"] for third in ("upper", "middle", "lower")]
    assert thirds == pytest.approx([-900, -700, -500], rel=1e-5)
    assert values["lower_high_attenuation_share"] == 1
    assert values["upper_volume_share"] == pytest.approx(1 / 3)
    assert values["contrast"] == pytest.approx(0, abs=1e-9)
    assert values["homogeneity_share"] == pytest.approx(1)


def test_density_does_not_follow_the_kernel(drawn: Phantom) -> None:
    """Twice: as a soft kernel and as a sharp one with its noise would show one patient."""
    rng = np.random.default_rng(8)
    soft, sharp = (
        Volume(np.clip(image, -1024, 3071).astype(np.int16), drawn.spacing_mm)
        for image in (
            ndimage.gaussian_filter(drawn.hu.astype(float), (0, 0.5, 0.5)),
            drawn.hu + rng.normal(scale=60, size=drawn.hu.shape),
        )
    )
    one, other = (measure_lungs(v, segment_lungs(v)).values for v in (soft, sharp))
    for name in ("low_attenuation_share", "high_attenuation_share", "dense_share"):
        assert one[name] == pytest.approx(other[name], abs=0.02), name
    assert one["lung_volume_ml"] == pytest.approx(other["lung_volume_ml"], rel=0.01)


def test_fibrosis_raises_density_at_the_rim_and_below() -> None:
    healthy, fibrotic = (
        measure_lungs(volume, segment_lungs(volume)).values
        for volume in (volume_of(phantom(6, fibrosis=f)) for f in (0.02, 0.5))
    )
    for name in ("mean_hu", "p90_hu", "high_attenuation_share", "rim_mean_hu", "dense_share"):
        assert fibrotic[name] > healthy[name], name
    assert fibrotic["kurtosis"] < healthy["kurtosis"]
    assert fibrotic["lower_high_attenuation_share"] > fibrotic["upper_high_attenuation_share"]


def test_every_feature_of_a_phantom_is_known_and_in_range(drawn: Phantom) -> None:
    volume = volume_of(drawn)
    measured = measure_lungs(volume, segment_lungs(volume))
    assert measured.warnings == []
    assert list(measured.values) == list(FEATURES)
    for name, value in measured.values.items():
        assert FEATURES[name].lowest <= value <= FEATURES[name].highest, name


def test_lungs_of_an_impossible_size_are_refused(drawn: Phantom) -> None:
    # Wrong pixel spacing in a header: densities are right, sizes are not.
    huge = replace(volume_of(drawn), spacing_mm=(30.0, 6.0, 6.0))
    measured = measure_lungs(huge, segment_lungs(huge))
    assert np.isnan(measured.values["lung_volume_ml"])
    assert "volume" in [finding.name for finding in measured.findings]
    assert measured.is_refused
    assert all(np.isnan(value) for value in measured.values.values())


def test_lungs_cut_off_by_the_scan_have_no_volume(drawn: Phantom) -> None:
    half = Volume(np.maximum(drawn.hu[: len(drawn.hu) // 2], -1024), drawn.spacing_mm)
    measured = measure_lungs(half, segment_lungs(half))
    assert [finding.name for finding in measured.findings] == ["cut_off"]
    assert np.isnan(measured.values["lung_volume_ml"])
    assert np.isnan(measured.values["lower_mean_hu"])
    assert np.isfinite(measured.values["mean_hu"])


def test_five_bad_scans_among_fifty_are_five_warnings(fifty_scans: Path) -> None:
    patients = [f"P{index:02d}" for index in range(50)]
    found = scan_features(fifty_scans, patients, workers=2)
    assert list(found.table.index) == patients
    assert list(found.table.columns) == list(FEATURES)
    bad = ["P05", "P11", "P23", "P31", "P49"]
    assert [text.partition(":")[0] for text in found.warnings] == bad
    reasons = ("no files", "none of", "none of", "no lungs found", "a single slice")
    for text, reason in zip(found.warnings, reasons, strict=True):
        assert reason in text
    assert found.table.drop(index=bad).notna().all(axis=None)
    assert found.table.loc[bad[:4]].isna().all(axis=None)
    assert found.table.loc["P49", "lung_volume_ml":"lung_mass_g"].isna().all()
    assert np.isfinite(found.table.loc["P49", "mean_hu"])
    alone = scan_features(fifty_scans, ["P00", "P23"], workers=1)
    assert alone.table.equals(found.table.loc[["P00", "P23"]])
    assert alone.warnings == found.warnings[2:3]


def test_a_patient_without_a_folder_is_missing_without_a_warning(fifty_scans: Path) -> None:
    found = scan_features(fifty_scans, ["nobody", "P00"], workers=1)
    assert found.table.loc["nobody"].isna().all()
    assert found.table.loc["P00"].notna().all()
    assert found.warnings == []


def test_no_scans_at_all_is_an_empty_table(tmp_path: Path) -> None:
    found = scan_features(tmp_path / "nowhere", ["P00"])
    assert found.table.shape == (0, len(FEATURES))
    assert found.table.index.name == "Patient"
    assert found.warnings == []


def test_cached_values_are_used_until_the_scan_or_the_version_changes(
    tmp_path: Path, fifty_scans: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans, cache = tmp_path / "scans", tmp_path / "cache"
    shutil.copytree(fifty_scans / "P00", scans / "A")
    first = scan_features(scans, ["A"], cache=cache, workers=1).table
    (kept,) = cache.iterdir()
    marked = json.loads(kept.read_text())
    marked["values"]["lung_volume_ml"] = 1234.0
    kept.write_text(json.dumps(marked))

    def volume_ml() -> float:
        found = scan_features(scans, ["A"], cache=cache, workers=1)
        return float(found.table["lung_volume_ml"]["A"])

    assert volume_ml() == 1234
    monkeypatch.setattr(cache_module, "FEATURE_VERSION", 999)
    assert volume_ml() == first["lung_volume_ml"]["A"]
    monkeypatch.undo()
    slice_file = sorted((scans / "A").iterdir())[0]
    slice_file.write_bytes(slice_file.read_bytes()[:-2] + b"\x01\x00")
    assert volume_ml() != 1234
    assert len(list(cache.iterdir())) == 3


def test_a_damaged_cache_file_is_measured_again(tmp_path: Path, fifty_scans: Path) -> None:
    cache = tmp_path / "cache"
    first = scan_features(fifty_scans, ["P00"], cache=cache, workers=1)
    (kept,) = cache.iterdir()
    kept.write_text('{"values": {"lung_volume_ml": ')
    assert scan_features(fifty_scans, ["P00"], cache=cache, workers=1).table.equals(first.table)


def test_a_cache_that_cannot_be_written_costs_no_measurement(
    tmp_path: Path, fifty_scans: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    found = scan_features(fifty_scans, ["P00"], cache=tmp_path / "file" / "cache", workers=1)
    assert found.table.loc["P00"].notna().all()
    assert found.warnings == []


@pytest.mark.parametrize("patient", ["", ".", "..", "P00/../P01"])
def test_an_id_that_names_another_folder_has_no_scan(fifty_scans: Path, patient: str) -> None:
    assert scan_features(fifty_scans, [patient], workers=1).table.iloc[0].isna().all()


def test_a_frame_is_not_drawn(drawn: Phantom) -> None:
    volume = volume_of(drawn)
    wide = np.pad(volume.hu, ((0, 0), (60, 60), (80, 80)), constant_values=-1024)
    framed = Volume(wide, volume.spacing_mm)
    sizes = [
        Image.open(io.BytesIO(slice_png(one, segment_lungs(one)))).size for one in (volume, framed)
    ]
    # A pixel of the working grid at each side counts as half frame.
    assert sizes[1] == pytest.approx(sizes[0], abs=8)


def test_slices_show_grey_and_the_outlines_of_both_lungs(drawn: Phantom) -> None:
    volume = volume_of(drawn)
    lungs = segment_lungs(volume)
    one, twelve = (
        np.asarray(Image.open(io.BytesIO(png))).astype(int)
        for png in (slice_png(volume, lungs), overlay_png(volume, lungs))
    )
    assert twelve.shape[:2] == (3 * one.shape[0], 4 * one.shape[1])
    is_orange = one[:, :, 0] - one[:, :, 2] > 60
    is_blue = one[:, :, 2] - one[:, :, 0] > 60
    index = int(np.argmax(lungs.mask.sum(axis=(1, 2))))
    scale = one.shape[1] / drawn.hu.shape[2]
    for outline, side in ((is_orange, RIGHT), (is_blue, LEFT)):
        columns = np.flatnonzero(outline.any(axis=0))
        expected = np.flatnonzero((lungs.side[index] == side).any(axis=0)) * scale
        assert columns[0] == pytest.approx(expected[0], abs=2 * scale)
        assert columns[-1] == pytest.approx(expected[-1], abs=2 * scale)
    grey = one[~is_orange & ~is_blue]
    assert (grey[:, 0] == grey[:, 2]).all()
