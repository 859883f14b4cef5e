"""Thorax phantoms as DICOM series, stored as scanners variously do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydicom import dcmwrite
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian

from tidegauge.io import make_folder
from tidegauge.simulate.thorax import draw_phantom


def write_phantom(
    folder: Path,
    *,
    lung_volume_ml: float,
    fibrosis_fraction: float,
    rng: np.random.Generator,
    slices: int = 24,
    size: int = 160,
) -> float:
    """Draw one patient, write ``<n>.dcm`` into `folder`, and return the true lung volume in ml."""
    phantom = draw_phantom(
        lung_volume_ml=lung_volume_ml,
        fibrosis_fraction=fibrosis_fraction,
        rng=rng,
        slices=slices,
        size=size,
    )
    write_series(folder, phantom.hu, phantom.spacing_mm, rng=rng)
    return phantom.lung_volume_ml


def write_series(
    folder: Path,
    hu: NDArray[np.int16],
    spacing_mm: tuple[float, float, float],
    *,
    rng: np.random.Generator,
) -> None:
    """Write a volume (head first) as one DICOM file a slice, stored as scanners variously do."""
    make_folder(folder)
    is_signed = bool(rng.random() < 0.7)
    intercept = 0 if is_signed and rng.random() < 0.5 else -1024
    head_first = rng.random() < 0.5
    dataset = _ct_header(hu.shape[1:], spacing_mm, is_signed, intercept, rng)
    stored = hu.astype(np.int32) - intercept
    lowest, highest = (-32768, 32767) if is_signed else (0, 65535)
    stored = np.clip(stored, lowest, highest).astype(np.int16 if is_signed else np.uint16)
    corner = [-(n - 1) / 2 * mm for n, mm in zip(hu.shape[:0:-1], spacing_mm[:0:-1], strict=True)]
    top_mm = float(rng.uniform(-200, 200))
    for index, image in enumerate(stored):
        number = index + 1 if head_first else len(stored) - index
        height_mm = top_mm - index * spacing_mm[0]
        dataset.SOPInstanceUID = dataset.file_meta.MediaStorageSOPInstanceUID = _uid(rng)
        dataset.InstanceNumber = number
        dataset.ImagePositionPatient = [round(v, 4) for v in (*corner, height_mm)]
        dataset.SliceLocation = round(height_mm, 4)
        dataset.PixelData = np.ascontiguousarray(image).tobytes()
        dcmwrite(folder / f"{number}.dcm", dataset, enforce_file_format=True)


def _uid(rng: np.random.Generator) -> str:
    return "2.25." + str(int(rng.integers(10**15, 10**18)))


def _ct_header(
    shape: tuple[int, ...],
    spacing_mm: tuple[float, float, float],
    is_signed: bool,
    intercept: int,
    rng: np.random.Generator,
) -> Any:
    """Everything that the slices of one series share."""
    dataset = Dataset()
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    dataset.file_meta.MediaStorageSOPClassUID = CTImageStorage
    dataset.SOPClassUID = CTImageStorage
    dataset.SeriesInstanceUID, dataset.StudyInstanceUID = _uid(rng), _uid(rng)
    dataset.Modality = "CT"
    dataset.ImageType = ["ORIGINAL", "PRIMARY", "AXIAL"]
    dataset.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
    dataset.PixelSpacing = [round(mm, 6) for mm in spacing_mm[1:]]
    dataset.SliceThickness = round(spacing_mm[0] * rng.uniform(0.2, 1), 3)
    dataset.Rows, dataset.Columns = shape
    dataset.SamplesPerPixel = 1
    dataset.PhotometricInterpretation = "MONOCHROME2"
    dataset.BitsAllocated = dataset.BitsStored = 16
    dataset.HighBit = 15
    dataset.PixelRepresentation = int(is_signed)
    dataset.RescaleSlope, dataset.RescaleIntercept = 1, intercept
    return dataset
