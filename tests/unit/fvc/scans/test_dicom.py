"""Scans as they come from archives: every departure is read right, or refused with its reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from pydicom import Dataset, dcmwrite
from pydicom.uid import ImplicitVRLittleEndian, JPEG2000Lossless, RLELossless

from dicom_files import compress_jpeg_lossless, set_pixels, slice_dataset, write_slices
from tidegauge.errors import InputError
from tidegauge.fvc.scans.dicom import ScanError, read_scan


@pytest.fixture
def hu() -> NDArray[np.int16]:
    """Six different slices with air at their edges."""
    volume = np.full((6, 36, 40), -1000, dtype=np.int16)
    inner = np.random.default_rng(1).integers(-900, 300, size=(6, 32, 36))
    volume[:, 2:-2, 2:-2] = inner
    return volume


def test_a_plain_series_against_its_source(tmp_path: Path, hu: NDArray[np.int16]) -> None:
    volume = read_scan(write_slices(tmp_path / "scan", hu))
    np.testing.assert_array_equal(volume.hu, hu)
    assert volume.hu.dtype == np.int16
    assert volume.spacing_mm == pytest.approx((5.0, 2.0, 1.5))
    assert volume.warnings == []


def test_position_orders_slices_whatever_their_names_and_numbers(
    tmp_path: Path, hu: NDArray[np.int16]
) -> None:
    order = [3, 0, 5, 1, 4, 2]
    for name, index in enumerate(order):
        dataset = slice_dataset(hu[index], index)
        dataset.InstanceNumber = 7  # the same for all
        dataset.SliceLocation = name
        dcmwrite(tmp_path / f"{name}.dcm", dataset, enforce_file_format=True)
    np.testing.assert_array_equal(read_scan(tmp_path).hu, hu)


@pytest.mark.parametrize(
    ("missing", "warning"),
    [
        (["ImagePositionPatient"], "ordered by SliceLocation"),
        (["ImagePositionPatient", "SliceLocation"], "ordered by InstanceNumber, head first"),
        (
            ["ImagePositionPatient", "SliceLocation", "InstanceNumber"],
            "ordered by file name, head first",
        ),
    ],
)
def test_order_falls_back_step_by_step(
    tmp_path: Path, hu: NDArray[np.int16], missing: list[str], warning: str
) -> None:
    def edit(dataset: Dataset, index: int) -> None:
        for name in missing:
            delattr(dataset, name)

    many = np.concatenate([hu, hu[::-1]])  # twelve files: 10.dcm must follow 9.dcm, not 1.dcm
    volume = read_scan(write_slices(tmp_path / "scan", many, edit))
    np.testing.assert_array_equal(volume.hu, many)
    assert volume.spacing_mm[0] == pytest.approx(5.0)
    assert any(warning in text for text in volume.warnings)
    assert volume.is_spaced == (warning == "ordered by SliceLocation")


def test_a_distance_between_slices_is_known_without_positions(
    tmp_path: Path, hu: NDArray[np.int16]
) -> None:
    """A thickness of 1.25 mm may stand for slices 10 mm apart."""

    def edit(dataset: Dataset, index: int) -> None:
        del dataset.ImagePositionPatient, dataset.SliceLocation
        dataset.SliceThickness, dataset.SpacingBetweenSlices = 1.25, 10.0

    volume = read_scan(write_slices(tmp_path / "scan", hu, edit))
    assert volume.spacing_mm[0] == pytest.approx(10.0)
    assert volume.is_spaced


@pytest.mark.parametrize("copies", [2, 3])
def test_a_series_that_is_there_several_times_is_read_once(
    tmp_path: Path, hu: NDArray[np.int16], copies: int
) -> None:
    for copy in range(copies):
        write_slices(tmp_path / f"{copy}", (hu + copy).astype(np.int16))
    volume = read_scan(tmp_path)
    np.testing.assert_array_equal(volume.hu, hu)
    n, n_all = len(hu), copies * len(hu)
    assert volume.warnings == [f"{n_all - n} of {n_all} slices repeat a position and are left out"]


def test_one_constant_position_for_all_slices_is_not_believed(
    tmp_path: Path, hu: NDArray[np.int16]
) -> None:
    def edit(dataset: Dataset, index: int) -> None:
        dataset.ImagePositionPatient = [0, 0, 0]

    volume = read_scan(write_slices(tmp_path / "scan", hu, edit))
    np.testing.assert_array_equal(volume.hu, hu)
    assert volume.warnings == ["no usable ImagePositionPatient: ordered by SliceLocation"]


def test_rescale_slope_and_intercept_are_applied(tmp_path: Path, hu: NDArray[np.int16]) -> None:
    def edit(dataset: Dataset, index: int) -> None:
        dataset.RescaleSlope, dataset.RescaleIntercept = 0.5, -1000
        set_pixels(dataset, ((hu[index].astype(int) + 1000) * 2).astype(np.uint16))

    np.testing.assert_array_equal(read_scan(write_slices(tmp_path / "scan", hu, edit)).hu, hu)


def test_signed_values_without_rescale_are_hounsfield_units(
    tmp_path: Path, hu: NDArray[np.int16]
) -> None:
    def edit(dataset: Dataset, index: int) -> None:
        del dataset.RescaleSlope, dataset.RescaleIntercept
        set_pixels(dataset, hu[index])

    np.testing.assert_array_equal(read_scan(write_slices(tmp_path / "scan", hu, edit)).hu, hu)


def test_unsigned_values_without_rescale_are_shifted_and_said_so(
    tmp_path: Path, hu: NDArray[np.int16]
) -> None:
    def edit(dataset: Dataset, index: int) -> None:
        del dataset.RescaleSlope, dataset.RescaleIntercept

    volume = read_scan(write_slices(tmp_path / "scan", hu, edit))
    np.testing.assert_array_equal(volume.hu, hu)
    assert volume.warnings == ["no rescale intercept: -1024 assumed"]

    def edit_intercept(dataset: Dataset, index: int) -> None:
        del dataset.RescaleIntercept

    again = read_scan(write_slices(tmp_path / "slope alone", hu, edit_intercept))
    np.testing.assert_array_equal(again.hu, hu)
    assert again.warnings == volume.warnings


@pytest.mark.parametrize("declared", [None, -2000, 63536])
def test_padding_of_minus_2000_becomes_air(
    tmp_path: Path, hu: NDArray[np.int16], declared: int | None
) -> None:
    def edit(dataset: Dataset, index: int) -> None:
        stored = hu[index].copy()
        stored[0] = -2000
        dataset.RescaleIntercept = 0
        set_pixels(dataset, stored)
        if declared is not None:
            dataset.add_new("PixelPaddingValue", "SS" if declared < 0 else "US", declared)

    volume = read_scan(write_slices(tmp_path / "scan", hu, edit))
    assert (volume.hu[:, 0] == -1024).all()
    np.testing.assert_array_equal(volume.hu[:, 1:], hu[:, 1:])


def test_a_declared_padding_value_inside_the_range_becomes_air(
    tmp_path: Path, hu: NDArray[np.int16]
) -> None:
    def edit(dataset: Dataset, index: int) -> None:
        stored = (hu[index].astype(int) + 1024).astype(np.uint16)
        stored[0] = 4000
        set_pixels(dataset, stored)
        dataset.PixelPaddingValue = 4000

    volume = read_scan(write_slices(tmp_path / "scan", hu, edit))
    assert (volume.hu[:, 0] == -1024).all()


def test_undeclared_zero_outside_the_circle_becomes_air(tmp_path: Path) -> None:
    y, x = np.mgrid[-1:1:64j, -1:1:64j]
    image = np.where(x**2 + y**2 > 1, 0, -1000).astype(np.int16)
    image[20:40, 20:40] = 0  # water in the middle stays
    volume = read_scan(write_slices(tmp_path / "scan", np.array([image] * 5)))
    assert (volume.hu[:, [0, 0, -1, -1], [0, -1, 0, -1]] == -1024).all()
    assert (volume.hu[:, 20:40, 20:40] == 0).all()


def test_a_slice_of_another_size_and_spacing_lands_on_the_common_grid(tmp_path: Path) -> None:
    y, x = np.mgrid[0:40:2.0, 0:45:1.5]
    smooth = np.array([(3 * x - 2 * y - 100).astype(np.int16)] * 6)

    def edit(dataset: Dataset, index: int) -> None:
        if index == 2:  # finer pixels, and a first pixel 4 mm right of and 2 mm above the others'
            dataset.PixelSpacing = [1.0, 1.0]
            dataset.ImagePositionPatient = [-24.0, -12.0, 100 - 5.0 * index]
            fine_y, fine_x = np.mgrid[-2:42:1.0, -4:50:1.0]
            fine = 3 * fine_x - 2 * fine_y - 100 + 1024
            set_pixels(dataset, fine.astype(np.uint16))

    volume = read_scan(write_slices(tmp_path / "scan", smooth, edit))
    assert volume.hu.shape == smooth.shape
    np.testing.assert_allclose(volume.hu[2], smooth[2], atol=2)  # both were rounded
    assert volume.warnings == ["1 slices of another size or pixel spacing are resampled"]


def test_repeated_slices_count_once(tmp_path: Path, hu: NDArray[np.int16]) -> None:
    folder = write_slices(tmp_path / "scan", hu)
    for name in ("3", "5"):
        (folder / f"{name} (copy).dcm").write_bytes((folder / f"{name}.dcm").read_bytes())
    volume = read_scan(folder)
    np.testing.assert_array_equal(volume.hu, hu)
    assert volume.warnings == ["2 of 8 slices repeat a position and are left out"]


def test_neighbours_stand_in_for_missing_slices(tmp_path: Path) -> None:
    ramp = np.array([np.full((8, 8), -1000 + 100 * k) for k in range(12)], dtype=np.int16)
    folder = write_slices(tmp_path / "scan", ramp)
    for name in ("5", "9"):
        (folder / f"{name}.dcm").unlink()
    volume = read_scan(folder)
    kept = [0, 1, 2, 3, 5, 6, 7, 9, 10, 11]
    np.testing.assert_array_equal(volume.hu[kept], ramp[kept])
    for missing in (4, 8):  # a mean of both sides would show what neither does
        assert volume.hu[missing, 0, 0] in ramp[[missing - 1, missing + 1], 0, 0]
    assert volume.warnings == ["2 missing slices: their neighbours stand in"]
    assert volume.missing_mm == 0


def test_a_long_gap_is_left_out_and_no_slice_is_lost(tmp_path: Path) -> None:
    ramp = np.array([np.full((8, 8), -1000 + 50 * k) for k in range(20)], dtype=np.int16)
    folder = write_slices(tmp_path / "scan", ramp)
    for name in range(8, 15):
        (folder / f"{name}.dcm").unlink()
    volume = read_scan(folder)
    np.testing.assert_array_equal(volume.hu, np.delete(ramp, np.s_[7:14], axis=0))
    assert volume.missing_mm == pytest.approx(7 * 5)
    assert volume.warnings == ["35 mm of the patient have no slice"]


def test_uneven_spacing_takes_the_nearest_slice_and_keeps_its_height(tmp_path: Path) -> None:
    depths = np.array([0, 2, 5, 9, 14, 16, 19.0])
    images = np.array([np.full((8, 8), -1000 + 20 * d) for d in depths], dtype=np.int16)

    def edit(dataset: Dataset, index: int) -> None:
        dataset.ImagePositionPatient = [0, 0, -depths[index]]

    volume = read_scan(write_slices(tmp_path / "scan", images, edit))
    assert (len(volume.hu) - 1) * volume.spacing_mm[0] == pytest.approx(19.0)
    places = volume.spacing_mm[0] * np.arange(len(volume.hu))
    shown = (volume.hu[:, 0, 0] + 1000) / 20
    nearest = np.abs(places[:, None] - depths).min(axis=1)
    np.testing.assert_allclose(np.abs(shown - places), nearest, atol=1e-6)
    assert "uneven slice spacing, 2.00 to 5.00 mm: set 3.00 mm apart" in volume.warnings


@pytest.mark.parametrize("value", [0, 40, 3071])
@pytest.mark.parametrize("around", [None, -1024, 100])
def test_a_frame_of_one_value_is_air(
    tmp_path: Path, hu: NDArray[np.int16], value: int, around: int | None
) -> None:
    """Also where another frame is around it."""
    noisy = hu + np.arange(hu.size).reshape(hu.shape) % 7  # tissue is never flat
    framed = np.pad(noisy, ((0, 0), (6, 9), (4, 4)), constant_values=value).astype(np.int16)
    if around is not None:
        framed = np.pad(framed, ((0, 0), (5, 5), (5, 5)), constant_values=around)
    volume = read_scan(write_slices(tmp_path / "scan", framed))
    more = 0 if around is None else 5
    inner = np.s_[:, 6 + more : -9 - more, 4 + more : -4 - more]
    np.testing.assert_array_equal(volume.hu[inner], noisy)
    frame = np.ones(framed.shape, dtype=bool)
    frame[inner] = False
    assert (volume.hu[frame] == -1024).all()


def test_pairs_of_slices_far_apart_are_all_kept(tmp_path: Path, hu: NDArray[np.int16]) -> None:
    def edit(dataset: Dataset, index: int) -> None:
        dataset.ImagePositionPatient = [0, 0, -2.0 * index - 100 * (index // 2)]

    volume = read_scan(write_slices(tmp_path / "scan", hu, edit))
    np.testing.assert_array_equal(volume.hu, hu)
    assert volume.missing_mm > 0


def test_a_slice_far_from_all_others_is_left_out(tmp_path: Path, hu: NDArray[np.int16]) -> None:
    def edit(dataset: Dataset, index: int) -> None:
        if index == 5:
            dataset.ImagePositionPatient = [0, 0, -900]

    volume = read_scan(write_slices(tmp_path / "scan", hu, edit))
    np.testing.assert_array_equal(volume.hu, hu[:5])
    assert "1 slices far from the others are left out" in volume.warnings


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def replace_by_text(path: Path) -> None:
    path.write_text("this is not an image\n" * 40)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def scramble(path: Path) -> None:
    path.write_bytes(np.random.default_rng(2).bytes(3000))


@pytest.mark.parametrize("spoil", [truncate, replace_by_text, empty, scramble])
def test_an_unreadable_slice_is_left_out_with_its_name(
    tmp_path: Path, hu: NDArray[np.int16], spoil: Callable[[Path], None]
) -> None:
    folder = write_slices(tmp_path / "scan", hu)
    spoil(folder / "3.dcm")
    volume = read_scan(folder)
    np.testing.assert_array_equal(volume.hu[[0, 1, 3, 4, 5]], hu[[0, 1, 3, 4, 5]])
    assert any(
        text.startswith("1 unreadable files or slices left out (3.dcm: ")
        for text in volume.warnings
    )
    assert "1 missing slices: their neighbours stand in" in volume.warnings


def compress_rle(dataset: Dataset) -> None:
    dataset.compress(RLELossless)


def compress_jpeg_2000(dataset: Dataset) -> None:
    dataset.compress(JPEG2000Lossless)


@pytest.mark.parametrize("compress", [compress_rle, compress_jpeg_2000, compress_jpeg_lossless])
def test_lossless_compression_against_the_plain_series(
    tmp_path: Path, hu: NDArray[np.int16], compress: Callable[[Dataset], None]
) -> None:
    volume = read_scan(write_slices(tmp_path / "scan", hu, lambda dataset, _: compress(dataset)))
    np.testing.assert_array_equal(volume.hu, hu)
    assert volume.warnings == []


def test_a_plain_multi_frame_file_is_a_stack(tmp_path: Path, hu: NDArray[np.int16]) -> None:
    dataset = slice_dataset(hu[0])
    set_pixels(dataset, (hu.astype(int) + 1024).astype(np.uint16))
    dataset.NumberOfFrames = len(hu)
    dataset.SpacingBetweenSlices = 4.0
    dcmwrite(tmp_path / "all.dcm", dataset, enforce_file_format=True)
    volume = read_scan(tmp_path)
    np.testing.assert_array_equal(volume.hu, hu)
    assert volume.spacing_mm == pytest.approx((4.0, 2.0, 1.5))


def enhanced(hu: NDArray[np.int16], order: list[int]) -> Dataset:
    """An enhanced multi-frame image whose frames are in any order and rescaled one by one."""
    dataset = slice_dataset(hu[0])
    for name in ("ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing"):
        delattr(dataset, name)
    del dataset.RescaleSlope, dataset.RescaleIntercept, dataset.SliceLocation
    dataset.NumberOfFrames = len(order)
    shared, measures, plane = Dataset(), Dataset(), Dataset()
    measures.PixelSpacing, measures.SliceThickness = [2.0, 1.5], 5.0
    plane.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
    shared.PixelMeasuresSequence, shared.PlaneOrientationSequence = [measures], [plane]
    dataset.SharedFunctionalGroupsSequence = [shared]
    frames = []
    for index in order:
        frame, position, transform = Dataset(), Dataset(), Dataset()
        position.ImagePositionPatient = [0, 0, -5.0 * index]
        transform.RescaleSlope, transform.RescaleIntercept = 1, -1024 - index
        frame.PlanePositionSequence = [position]
        frame.PixelValueTransformationSequence = [transform]
        frames.append(frame)
    dataset.PerFrameFunctionalGroupsSequence = frames
    stored = np.array([hu[index].astype(int) + 1024 + index for index in order])
    set_pixels(dataset, stored.astype(np.uint16))
    return dataset


def test_frames_are_placed_and_rescaled_by_their_own_groups(
    tmp_path: Path, hu: NDArray[np.int16]
) -> None:
    dataset = enhanced(hu, [4, 0, 2, 5, 1, 3])
    dcmwrite(tmp_path / "enhanced.dcm", dataset, enforce_file_format=True)
    volume = read_scan(tmp_path / "enhanced.dcm")
    np.testing.assert_array_equal(volume.hu, hu)
    assert volume.spacing_mm == pytest.approx((5.0, 2.0, 1.5))


def test_files_without_preamble_and_meta_header_are_read(
    tmp_path: Path, hu: NDArray[np.int16]
) -> None:
    for index, image in enumerate(hu):
        dataset = slice_dataset(image, index)
        del dataset.file_meta
        dcmwrite(tmp_path / f"IM{index}", dataset, implicit_vr=True, little_endian=True)
    assert (tmp_path / "IM0").read_bytes()[128:132] != b"DICM"
    np.testing.assert_array_equal(read_scan(tmp_path).hu, hu)


def test_implicit_little_endian_is_read(tmp_path: Path, hu: NDArray[np.int16]) -> None:
    def edit(dataset: Dataset, index: int) -> None:
        dataset.file_meta.TransferSyntaxUID = ImplicitVRLittleEndian

    np.testing.assert_array_equal(read_scan(write_slices(tmp_path / "scan", hu, edit)).hu, hu)


@pytest.mark.parametrize("top", [65535, 4095])
def test_monochrome1_with_inverted_values_is_turned_back(
    tmp_path: Path, hu: NDArray[np.int16], top: int
) -> None:
    def edit(dataset: Dataset, index: int) -> None:
        dataset.PhotometricInterpretation = "MONOCHROME1"
        set_pixels(dataset, (top - (hu[index].astype(int) + 1024)).astype(np.uint16))

    volume = read_scan(write_slices(tmp_path / "scan", hu, edit))
    np.testing.assert_array_equal(volume.hu, hu)
    assert volume.warnings == ["MONOCHROME1 with inverted values: turned back"]


def test_monochrome1_by_the_standard_changes_nothing(tmp_path: Path, hu: NDArray[np.int16]) -> None:
    def edit(dataset: Dataset, index: int) -> None:
        dataset.PhotometricInterpretation = "MONOCHROME1"

    volume = read_scan(write_slices(tmp_path / "scan", hu, edit))
    np.testing.assert_array_equal(volume.hu, hu)
    assert volume.warnings == []


def test_a_single_slice_is_a_volume_with_a_warning(tmp_path: Path, hu: NDArray[np.int16]) -> None:
    volume = read_scan(write_slices(tmp_path / "scan", hu[:1]))
    np.testing.assert_array_equal(volume.hu, hu[:1])
    assert volume.warnings == ["a single slice: lung volume cannot be measured"]


def test_localizers_other_series_and_other_planes_are_left_out(
    tmp_path: Path, hu: NDArray[np.int16]
) -> None:
    folder = write_slices(tmp_path / "scan", hu)
    scout, other, coronal = (slice_dataset(hu[0], index) for index in (20, 21, 22))
    scout.ImageType = ["ORIGINAL", "PRIMARY", "LOCALIZER"]
    other.SeriesInstanceUID = "9.9.9"
    coronal.ImageOrientationPatient = [1, 0, 0, 0, 0, -1]
    for name, dataset in (("scout", scout), ("other", other), ("coronal", coronal)):
        dcmwrite(folder / f"{name}.dcm", dataset, enforce_file_format=True)
    volume = read_scan(folder)
    np.testing.assert_array_equal(volume.hu, hu)
    assert volume.warnings == [
        "1 localizer images are left out",
        "1 images of other series are left out",
        "1 images of another plane are left out",
    ]


def test_a_coronal_series_is_turned_to_the_patients_axes(
    tmp_path: Path, hu: NDArray[np.int16]
) -> None:
    coronal = hu.transpose(1, 0, 2)  # slices from front to back; rows run to the feet

    def edit(dataset: Dataset, index: int) -> None:
        dataset.ImageOrientationPatient = [1, 0, 0, 0, 0, -1]
        dataset.ImagePositionPatient = [0, 3.0 * index, 0]
        dataset.PixelSpacing = [5.0, 1.5]

    volume = read_scan(write_slices(tmp_path / "scan", coronal, edit))
    np.testing.assert_array_equal(volume.hu, hu)
    assert volume.spacing_mm == pytest.approx((5.0, 3.0, 1.5))


def test_a_tilted_gantry_with_jittered_headers_is_one_plane(
    tmp_path: Path, hu: NDArray[np.int16]
) -> None:
    def edit(dataset: Dataset, index: int) -> None:
        tilt = np.arcsin(0.125) + 1e-4 * (-1) ** index
        dataset.ImageOrientationPatient = [1, 0, 0, 0, np.cos(tilt).round(6), np.sin(tilt).round(6)]

    volume = read_scan(write_slices(tmp_path / "scan", hu, edit))
    np.testing.assert_array_equal(volume.hu, hu)
    assert volume.warnings == []
    assert volume.spacing_mm[0] == pytest.approx(5 * np.sqrt(1 - 0.125**2), rel=1e-3)


def test_a_prone_patient_is_turned_over(tmp_path: Path, hu: NDArray[np.int16]) -> None:
    def edit(dataset: Dataset, index: int) -> None:
        dataset.ImageOrientationPatient = [-1, 0, 0, 0, -1, 0]

    volume = read_scan(write_slices(tmp_path / "scan", hu, edit))
    np.testing.assert_array_equal(volume.hu, hu[:, ::-1, ::-1])


def test_more_slices_than_needed_are_averaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegauge.fvc.scans.dicom.MOST_SLICES", 20)
    images = np.zeros((50, 4, 4), dtype=np.int16)
    images += np.arange(50, dtype=np.int16)[:, None, None] - 1000
    volume = read_scan(write_slices(tmp_path / "scan", images[:48], slice_mm=0.5))
    np.testing.assert_array_equal(volume.hu, images[1:48:3])  # the middle of each three
    assert volume.spacing_mm[0] == pytest.approx(1.5)


def drop(*names: str) -> Callable[[Dataset, int], None]:
    def edit(dataset: Dataset, index: int) -> None:
        for name in names:
            delattr(dataset, name)

    return edit


def set_modality(dataset: Dataset, index: int) -> None:
    dataset.Modality = "MR"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            drop("ImagePositionPatient", "SliceLocation", "SliceThickness"),
            r"1\.dcm: no ImagePositionPatient, SliceLocation, SpacingBetweenSlices or "
            r"SliceThickness, .*; export the series again",
        ),
        (drop("PixelSpacing"), r"1\.dcm: no PixelSpacing, so volumes are unknown; export"),
        (
            drop("PixelData"),
            r"none of 6 files is a readable CT image \(1\.dcm: .*\); export the series as DICOM",
        ),
        (set_modality, r"none of 6 files is a readable CT image \(1\.dcm: Modality=MR, not CT\)"),
    ],
)
def test_a_series_that_cannot_be_measured_names_file_and_remedy(
    tmp_path: Path,
    hu: NDArray[np.int16],
    edit: Callable[[Dataset, int], None],
    message: str,
) -> None:
    with pytest.raises(ScanError, match=message):
        read_scan(write_slices(tmp_path / "scan", hu, edit))


@pytest.mark.parametrize("compress", [None, compress_rle, compress_jpeg_2000])
def test_damaged_bytes_end_in_a_volume_or_a_reason(
    tmp_path: Path, hu: NDArray[np.int16], compress: Callable[[Dataset], None] | None
) -> None:
    def edit(dataset: Dataset, index: int) -> None:
        if compress is not None:
            compress(dataset)

    folder = write_slices(tmp_path / "scan", hu[:3], edit)
    sound = {path: path.read_bytes() for path in folder.iterdir()}
    rng = np.random.default_rng(8)
    volumes, reasons = [], []
    for _ in range(25):
        for path, content in sorted(sound.items()):
            damaged = bytearray(content)
            for place in rng.integers(0, min(len(damaged), 1200), size=6):
                damaged[place] = rng.integers(256)
            path.write_bytes(damaged[: rng.integers(len(damaged) // 2, len(damaged) + 1)])
        try:
            volumes.append(read_scan(folder))
        except ScanError as error:
            reasons.append(str(error))
    assert len(volumes) + len(reasons) == 25
    assert all(volume.hu.ndim == 3 and np.isfinite(volume.spacing_mm).all() for volume in volumes)
    assert all(";" in reason for reason in reasons)  # what is wrong; what to do


def test_a_folder_without_dicom_says_so(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no images here")
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(500))
    with pytest.raises(ScanError, match=r"none of 2 files is a readable CT image \(notes\.txt: "):
        read_scan(tmp_path)


def test_an_empty_folder_says_what_to_give(tmp_path: Path) -> None:
    (tmp_path / ".DS_Store").write_bytes(b"hidden files are not scans")
    with pytest.raises(ScanError, match=r"no files; give the folder that holds the DICOM slices"):
        read_scan(tmp_path)


def test_a_missing_folder_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder; give the folder"):
        read_scan(tmp_path / "nowhere")
