"""DICOM files as tests need them: right by default, then spoilt by an edit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydicom import Dataset, dcmwrite
from pydicom.dataset import FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, JPEGLosslessSV1

Edit = Callable[[Dataset, int], None]


def slice_dataset(hu: NDArray[np.int16], index: int = 0, slice_mm: float = 5.0) -> Dataset:
    """One correct CT slice, `index` slices below the top."""
    dataset = Dataset()
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    dataset.SOPClassUID = CTImageStorage
    dataset.SOPInstanceUID = f"1.2.3.{index + 1}"
    dataset.SeriesInstanceUID = "1.2.3"
    dataset.Modality = "CT"
    dataset.ImagePositionPatient = [-20.0, -10.0, 100 - slice_mm * index]
    dataset.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
    dataset.SliceLocation = 100 - slice_mm * index
    dataset.InstanceNumber = index + 1
    dataset.PixelSpacing = [2.0, 1.5]
    dataset.SliceThickness = slice_mm
    dataset.SamplesPerPixel = 1
    dataset.PhotometricInterpretation = "MONOCHROME2"
    dataset.RescaleSlope, dataset.RescaleIntercept = 1, -1024
    set_pixels(dataset, (hu.astype(np.int32) + 1024).astype(np.uint16))
    return dataset


def set_pixels(dataset: Dataset, stored: NDArray[np.generic]) -> None:
    dataset.Rows, dataset.Columns = stored.shape[-2:]
    dataset.BitsAllocated = dataset.BitsStored = 8 * stored.dtype.itemsize
    dataset.HighBit = dataset.BitsStored - 1
    dataset.PixelRepresentation = int(stored.dtype.kind == "i")
    dataset.PixelData = stored.tobytes()


def write_slices(
    folder: Path, hu: NDArray[np.int16], edit: Edit | None = None, slice_mm: float = 5.0
) -> Path:
    """Write ``1.dcm``, ``2.dcm`` ... from the head down, each edited before it is written."""
    folder.mkdir(parents=True, exist_ok=True)
    for index, image in enumerate(hu):
        dataset = slice_dataset(image, index, slice_mm)
        if edit is not None:
            edit(dataset, index)
        dcmwrite(folder / f"{index + 1}.dcm", dataset, enforce_file_format=True)
    return folder


def compress_jpeg_lossless(dataset: Dataset) -> None:
    """Compress unsigned 16-bit pixels in place, by the oldest lossless JPEG (process 14, SV1)."""
    stored = np.frombuffer(dataset.PixelData, np.uint16).reshape(dataset.Rows, dataset.Columns)
    dataset.PixelData = encapsulate([jpeg_lossless(stored)])
    dataset["PixelData"].VR = "OB"
    dataset.file_meta.TransferSyntaxUID = JPEGLosslessSV1


def jpeg_lossless(stored: NDArray[np.uint16]) -> bytes:
    """Encode with the left neighbour as predictor and five-bit codes for the 17 categories."""
    values = stored.astype(np.int64)
    predicted = np.empty_like(values)
    predicted[:, 1:] = values[:, :-1]
    predicted[1:, 0] = values[:-1, 0]
    predicted[0, 0] = 1 << 15
    bits = []
    for difference in ((values - predicted + 32768) % 65536 - 32768).ravel():
        category = int(abs(difference)).bit_length()
        bits.append(f"{category:05b}")
        if 0 < category < 16:
            coded = difference if difference > 0 else difference + (1 << category) - 1
            bits.append(f"{coded:0{category}b}")
    stream = "".join(bits)
    stream += "1" * (-len(stream) % 8)
    scan = int(stream, 2).to_bytes(len(stream) // 8, "big").replace(b"\xff", b"\xff\x00")
    rows, columns = (n.to_bytes(2, "big") for n in stored.shape)
    frame = b"\xff\xc3\x00\x0b\x10" + rows + columns + b"\x01\x01\x11\x00"
    table = b"\xff\xc4\x00\x24\x00" + bytes([0, 0, 0, 0, 17] + [0] * 11) + bytes(range(17))
    start = b"\xff\xda\x00\x08\x01\x01\x00\x01\x00\x00"
    return b"\xff\xd8" + frame + table + start + scan + b"\xff\xd9"
