"""A folder of DICOM files to one volume of Hounsfield units.

Headers are read first, so that only images that are used are decoded, one at a time; what they
claim is held against what a scanner makes and what a file can hold.
"""

from __future__ import annotations

import warnings as python_warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
from pydicom.dataset import FileMetaDataset
from pydicom.pixels import pixel_array
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
)

from tidegauge.arrays import FloatArray
from tidegauge.fvc.scans.hounsfield import Encoding, to_hu
from tidegauge.fvc.scans.series import (
    MOST_SLICES,
    Image,
    ScanError,
    SliceInfo,
    Stack,
    Volume,
    arrange,
    assemble,
)

__all__ = ["ScanError", "Volume", "read_scan"]

_NOT_CT = ("MR", "PT", "NM", "US", "CR", "DX", "MG", "XA", "SR", "PR", "SEG", "RTSTRUCT", "RTDOSE")
_HEADER_TAGS = [
    "Rows",
    "Columns",
    "SamplesPerPixel",
    "NumberOfFrames",
    "Modality",
    "ImageType",
    "SeriesInstanceUID",
    "PixelSpacing",
    "ImagerPixelSpacing",
    "ReconstructionDiameter",
    "ImagePositionPatient",
    "ImageOrientationPatient",
    "SliceLocation",
    "InstanceNumber",
    "SliceThickness",
    "SpacingBetweenSlices",
    "GridFrameOffsetVector",
    "SharedFunctionalGroupsSequence",
    "PerFrameFunctionalGroupsSequence",
]


# What a file may claim. CT has at most 1024 pixels a side and some 2,000 slices; the rest is room.
_SIDE_PX = (4, 4096)
_PIXEL_MM = (0.02, 50.0)
_MOST_FILES = 20_000
_MOST_FRAMES = 5_000
_LARGEST_FILE_BYTES = 1 << 29
_MOST_SCAN_VOXELS = 1_200_000_000  # 4,500 slices of 512 x 512, decoded one by one
_LEAST_BYTES_PER_PIXEL = 1 / 400  # of the best compressed slice: noise does not compress


class _UnusableImage(Exception):
    """Why one file or image is left out."""


def read_scan(folder: Path | str) -> Volume:
    """Read one patient's CT scan.

    Parameters
    ----------
    folder : path
        The DICOM files of the scan, at any depth and of any name, or a single (multi-frame) file.

    Raises
    ------
    ScanError
        The folder is missing or empty, no image in it can be read, or its geometry is unknown.
    """
    files = _files(Path(folder))
    refused: list[str] = []
    with python_warnings.catch_warnings():
        # pydicom remarks on every departure from the standard; what matters we say ourselves.
        python_warnings.simplefilter("ignore")
        slices = list(_read_headers(files, refused))
        if not slices:
            raise _nothing_readable(folder, len(files), refused)
        if (n := sum(one.shape[0] * one.shape[1] for one in slices)) > _MOST_SCAN_VOXELS:
            raise ScanError(
                f"{folder}: {n:,} pixels in all, more than {_MOST_SCAN_VOXELS:,}; "
                "give the folder of one scan"
            )
        stack = arrange(slices)
        stack, images, notes = _decode(stack, refused)
    if not images:
        raise _nothing_readable(folder, len(files), refused)
    if refused:
        notes.insert(0, f"{len(refused)} unreadable files or slices left out ({refused[0]})")
    return assemble(replace(stack, warnings=stack.warnings + notes), images)


def _files(folder: Path) -> list[Path]:
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise ScanError(f"{folder}: no such folder; give the folder that holds the DICOM slices")
    found = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    files = [p for p in found if not p.name.startswith(".") and p.name.upper() != "DICOMDIR"]
    if len(files) > _MOST_FILES:
        raise ScanError(f"{folder}: {len(files):,} files; give the folder of one scan")
    if not files:
        raise ScanError(f"{folder}: no files; give the folder that holds the DICOM slices")
    return files


def _nothing_readable(folder: Path | str, n_files: int, refused: Sequence[str]) -> ScanError:
    return ScanError(
        f"{folder}: none of {n_files} files is a readable CT image ({refused[0]}); "
        "export the series as DICOM again"
    )


def _read_headers(files: Sequence[Path], refused: list[str]) -> Iterator[SliceInfo]:
    for path in files:
        try:
            yield from _slices_of(path)
        except _UnusableImage as error:
            refused.append(f"{path.name}: {error}")
        except Exception as error:  # a broken file may fail anywhere inside the parser
            refused.append(f"{path.name}: not DICOM or damaged, {_brief(error)}")


def _brief(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 120 else f"{text[:117]}..."


def _slices_of(path: Path) -> list[SliceInfo]:
    """Read the header of one file; a multi-frame file gives one slice a frame."""
    # force: files without the 128-byte preamble are still DICOM.
    size = _check_size(path)
    dataset = pydicom.dcmread(path, force=True, stop_before_pixels=True, specific_tags=_HEADER_TAGS)
    rows, columns = dataset.get("Rows"), dataset.get("Columns")
    if not rows or not columns:
        has_preamble = bool(getattr(dataset, "preamble", None))
        raise _UnusableImage("DICOM without an image" if has_preamble else "not DICOM")
    if (modality := str(dataset.get("Modality") or "")) in _NOT_CT:
        raise _UnusableImage(f"Modality={modality}, not CT")
    if int(dataset.get("SamplesPerPixel") or 1) != 1:
        raise _UnusableImage("a colour image, not CT")
    n_frames = int(dataset.get("NumberOfFrames") or 1)
    _check_claims(int(rows), int(columns), n_frames, size)
    if n_frames == 1 and "PerFrameFunctionalGroupsSequence" not in dataset:
        return [_slice_info(path, None, dataset, [dataset])]
    return [
        _slice_info(path, frame, dataset, [*_frame_groups(dataset, frame), dataset])
        for frame in range(n_frames)
    ]


def _check_size(path: Path) -> int:
    """Return what a file holds, inflated if it is deflated; refuse too much before reading it."""
    size = path.stat().st_size
    start = _deflated_from(path)
    if start is not None and size <= _LARGEST_FILE_BYTES:
        inflate, size = zlib.decompressobj(-zlib.MAX_WBITS), 0
        with path.open("rb") as handle:
            handle.seek(start)
            while size <= _LARGEST_FILE_BYTES and not inflate.eof:
                data = inflate.unconsumed_tail or handle.read(1 << 20)
                if not data:
                    break
                size += len(inflate.decompress(data, 1 << 24))
    if size > _LARGEST_FILE_BYTES:
        raise _UnusableImage(f"holds more than {_LARGEST_FILE_BYTES >> 20} MiB")
    return size


def _deflated_from(path: Path) -> int | None:
    """Return where a deflated data set begins, None if this is none."""
    try:
        meta = pydicom.filereader.read_file_meta_info(path)
        if meta.TransferSyntaxUID != DeflatedExplicitVRLittleEndian:
            return None
        # Preamble and prefix, the element that gives the length of the group, the group.
        return 132 + 12 + int(meta.FileMetaInformationGroupLength)
    except Exception:  # no meta header, or a damaged one: then nothing says that it is deflated
        return None


def _check_claims(rows: int, columns: int, n_frames: int, size: int) -> None:
    """Refuse an image that no scanner makes, or that its file cannot hold."""
    least, most = _SIDE_PX
    if min(rows, columns) < least or max(rows, columns) > most:
        raise _UnusableImage(f"{rows} x {columns} pixels, must be {least} to {most} a side")
    if not 0 < n_frames <= _MOST_FRAMES:
        raise _UnusableImage(f"NumberOfFrames={n_frames}, must be 1 to {_MOST_FRAMES}")
    if rows * columns * n_frames * _LEAST_BYTES_PER_PIXEL > size + 4096:
        raise _UnusableImage(
            f"{n_frames} images of {rows} x {columns} pixels cannot be in {size:,} bytes"
        )


def _frame_groups(dataset: Any, frame: int) -> list[Any]:
    """Where a frame's attributes may be: its own functional groups, then the shared ones."""
    groups = []
    per_frame = dataset.get("PerFrameFunctionalGroupsSequence") or []
    shared = dataset.get("SharedFunctionalGroupsSequence") or []
    for holder in [*per_frame[frame : frame + 1], *shared[:1]]:
        groups += [element.value[0] for element in holder if element.VR == "SQ" and element.value]
    return groups


def _slice_info(path: Path, frame: int | None, dataset: Any, holders: Sequence[Any]) -> SliceInfo:
    shape = (int(dataset.Rows), int(dataset.Columns))
    position = _numbers(holders, "ImagePositionPatient", 3)
    orientation = _orientation(holders)
    offsets = dataset.get("GridFrameOffsetVector")
    if frame is not None and len(holders) == 1:
        # A plain multi-frame file gives one position for all; offsets, if any, tell them apart.
        if position is not None and offsets is not None and len(offsets) > frame:
            axes = np.array([1.0, 0, 0, 0, 1, 0]) if orientation is None else orientation
            position = position + float(offsets[frame]) * np.cross(axes[:3], axes[3:])
        else:
            position = None
    location = None if frame is not None else _number(holders, "SliceLocation")
    instance = frame if frame is not None else _number(holders, "InstanceNumber")
    return SliceInfo(
        path=path,
        frame=frame,
        shape=shape,
        pixel_mm=_pixel_mm(holders, shape),
        position=position,
        orientation=orientation,
        location_mm=location,
        instance=None if instance is None else int(instance),
        distance_mm=_positive(holders, "SpacingBetweenSlices"),
        thickness_mm=_positive(holders, "SliceThickness"),
        series=str(dataset.get("SeriesInstanceUID") or ""),
        is_localizer="LOCALIZER" in [str(v).upper() for v in dataset.get("ImageType") or []],
    )


def _numbers(holders: Sequence[Any], name: str, length: int) -> FloatArray | None:
    """Return the first usable value among the holders: `length` finite numbers."""
    for holder in holders:
        try:
            value = np.atleast_1d(np.asarray(holder.get(name), dtype=float))
        except (TypeError, ValueError):  # missing, or text where a number should be
            continue
        if value.shape == (length,) and np.isfinite(value).all():
            return value
    return None


def _number(holders: Sequence[Any], name: str) -> float | None:
    value = _numbers(holders, name, 1)
    return None if value is None else float(value[0])


def _positive(holders: Sequence[Any], name: str) -> float | None:
    value = _number(holders, name)
    # SpacingBetweenSlices is negative in some exports; its size is still right.
    return abs(value) if value else None


def _orientation(holders: Sequence[Any]) -> FloatArray | None:
    value = _numbers(holders, "ImageOrientationPatient", 6)
    if value is None:
        return None
    normal = np.cross(value[:3], value[3:])
    return value if np.isclose(np.linalg.norm(normal), 1, atol=0.05) else None


def _pixel_mm(holders: Sequence[Any], shape: tuple[int, int]) -> tuple[float, float] | None:
    for name in ("PixelSpacing", "ImagerPixelSpacing"):
        value = _numbers(holders, name, 2)
        if value is not None and _are_pixels(value):
            return float(value[0]), float(value[1])
    diameter_mm = _positive(holders, "ReconstructionDiameter") or 0.0
    side_mm = diameter_mm / max(shape)
    return (side_mm, side_mm) if _are_pixels(np.array([side_mm])) else None


def _are_pixels(sides_mm: FloatArray) -> bool:
    low, high = _PIXEL_MM
    return bool(((sides_mm >= low) & (sides_mm <= high)).all())


def _decode(stack: Stack, refused: list[str]) -> tuple[Stack, list[Image], list[str]]:
    """Decode the slices that can be, averaging neighbours where there are more than needed."""
    notes: dict[str, None] = {}  # a remark counts once however many slices share it
    decoder = _Decoder(refused, notes)
    step = -(-len(stack.slices) // MOST_SLICES)
    infos, heights, images = [], [], []
    for start in range(0, len(stack.slices), step):
        places = range(start, min(start + step, len(stack.slices)))
        found = [(k, image) for k in places if (image := decoder(stack.slices[k])) is not None]
        alike = [(k, image) for k, image in found if image.shape == found[0][1].shape]
        if alike:
            infos.append(stack.slices[alike[0][0]])
            heights.append(stack.heights_mm[[k for k, _ in alike]].mean())
            images.append(_mean_image([image for _, image in alike]))
    decoded = replace(stack, slices=infos, heights_mm=np.array(heights))
    return decoded, images, list(notes)


def _mean_image(images: Sequence[Image]) -> Image:
    if len(images) == 1:
        return images[0]
    mean: Image = np.rint(np.mean(images, axis=0, dtype=np.float32)).astype(np.int16)
    return mean


@dataclass
class _Decoder:
    """Decode slices to Hounsfield units, a multi-frame file opened once; None where it fails."""

    refused: list[str]
    notes: dict[str, None]
    opened: tuple[Path, Any] | None = None

    def __call__(self, info: SliceInfo) -> Image | None:
        try:
            if self.opened is None or self.opened[0] != info.path:
                self.opened = (info.path, _open(info.path))
            dataset = self.opened[1]
            raw = pixel_array(dataset, index=info.frame)
            if raw.shape != info.shape:
                raise _UnusableImage(f"{raw.shape} decoded where the header says {info.shape}")
            holders = [dataset]
            if info.frame is not None:
                holders = [*_frame_groups(dataset, info.frame), dataset]
            return to_hu(raw, _encoding(dataset, holders), self.notes)
        except Exception as error:  # decoders raise whatever they like on damaged data
            name = info.path.name if info.frame is None else f"{info.path.name}[{info.frame}]"
            self.refused.append(f"{name}: {_brief(error)}")
            return None


def _open(path: Path) -> Any:
    dataset = pydicom.dcmread(path, force=True)
    meta = getattr(dataset, "file_meta", None)
    if meta is None or "TransferSyntaxUID" not in meta:
        is_implicit, is_little = dataset.original_encoding
        explicit = ExplicitVRLittleEndian if is_little else ExplicitVRBigEndian
        dataset.file_meta = meta or FileMetaDataset()
        dataset.file_meta.TransferSyntaxUID = ImplicitVRLittleEndian if is_implicit else explicit
    return dataset


def _encoding(dataset: Any, holders: Sequence[Any]) -> Encoding:
    return Encoding(
        slope=_number(holders, "RescaleSlope"),
        intercept=_number(holders, "RescaleIntercept"),
        padding_value=_number([dataset], "PixelPaddingValue"),
        padding_limit=_number([dataset], "PixelPaddingRangeLimit"),
        is_monochrome1=dataset.get("PhotometricInterpretation") == "MONOCHROME1",
        is_signed=bool(dataset.get("PixelRepresentation")),
        bits_stored=int(dataset.get("BitsStored") or 16),
    )
