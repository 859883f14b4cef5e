"""Mutated DICOM series: headers, frames, sizes, syntaxes, truncations, bytes."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pydicom
from numpy.random import Generator
from pydicom import Dataset, dcmwrite
from pydicom.encaps import encapsulate
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGLosslessSV1,
    RLELossless,
)

Mutation = Callable[[Path, Generator], None]


def _edit(path: Path, change: Callable[[Dataset], None]) -> None:
    dataset = pydicom.dcmread(path)
    change(dataset)
    dcmwrite(path, dataset, enforce_file_format=False)


def truncate(path: Path, rng: Generator) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: rng.integers(0, len(data))])


def flip_header_bytes(path: Path, rng: Generator) -> None:
    data = bytearray(path.read_bytes())
    for at in rng.integers(128, min(1400, len(data)), size=rng.integers(1, 12)):
        data[at] = rng.integers(0, 256)
    path.write_bytes(bytes(data))


def flip_any_bytes(path: Path, rng: Generator) -> None:
    data = bytearray(path.read_bytes())
    for at in rng.integers(0, len(data), size=rng.integers(1, 200)):
        data[at] = rng.integers(0, 256)
    path.write_bytes(bytes(data))


def claim_size(path: Path, rng: Generator) -> None:
    rows, columns = rng.choice([0, 1, 7, 4096, 65535], size=2)
    _edit(path, lambda d: (setattr(d, "Rows", int(rows)), setattr(d, "Columns", int(columns))))


def claim_frames(path: Path, rng: Generator) -> None:
    frames = int(rng.choice([-1, 0, 2, 20_000, 10**12]))
    _edit(path, lambda d: setattr(d, "NumberOfFrames", frames))


def claim_bits(path: Path, rng: Generator) -> None:
    bits = int(rng.choice([1, 8, 12, 32, 64]))
    _edit(path, lambda d: (setattr(d, "BitsAllocated", bits), setattr(d, "BitsStored", bits)))


def claim_syntax(path: Path, rng: Generator) -> None:
    syntaxes = (RLELossless, JPEG2000Lossless, JPEGLosslessSV1)
    uid = syntaxes[rng.integers(len(syntaxes))]
    junk = rng.integers(0, 256, size=int(rng.integers(0, 3000)), dtype=np.uint8).tobytes()

    def change(dataset: Dataset) -> None:
        dataset.file_meta.TransferSyntaxUID = uid
        dataset.PixelData = encapsulate([junk + b"\0" * (len(junk) % 2)])
        dataset["PixelData"].is_undefined_length = True

    _edit(path, change)


def giant_jpeg_2000(path: Path, rng: Generator) -> None:
    """A code stream whose own header asks for gigabytes, in an image that says 64 x 64."""

    def change(dataset: Dataset) -> None:
        dataset.compress(JPEG2000Lossless)
        data = bytearray(dataset.PixelData)
        at = data.find(b"\xff\x51")  # SIZ: marker, length, capability, then width and height
        side = int(rng.choice([20_000, 40_000, 60_000]))
        for k in (6, 10, 22, 26):
            data[at + k : at + k + 4] = side.to_bytes(4, "big")
        dataset.PixelData = bytes(data)

    _edit(path, change)


def deflate_bomb(path: Path, rng: Generator) -> None:
    """Zeros that inflate a thousandfold."""
    dataset = pydicom.dcmread(path)
    dataset.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    dcmwrite(path, dataset, enforce_file_format=True)
    length = 132 + 12 + int(dataset.file_meta.FileMetaInformationGroupLength)
    head = path.read_bytes()[:length]
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    block = bytes(1 << 24)
    parts = [deflate.compress(block) for _ in range(int(rng.choice([1, 40])))]
    path.write_bytes(head + b"".join(parts) + deflate.flush())


def odd_numbers(path: Path, rng: Generator) -> None:
    names = ("RescaleSlope", "RescaleIntercept", "SliceThickness", "InstanceNumber")
    name = names[rng.integers(len(names))]
    value = ("0", "-1", "1e30", "1e-30", "nan", "")[rng.integers(6)]

    def change(dataset: Dataset) -> None:
        dataset.add_new(pydicom.tag.Tag(name), "DS", "1")
        dataset[name]._value = value

    data = path.read_bytes()
    try:
        _edit(path, change)
    except Exception:  # a value that cannot even be written
        path.write_bytes(data[: len(data) // 2])


def odd_geometry(path: Path, rng: Generator) -> None:
    def change(dataset: Dataset) -> None:
        dataset.PixelSpacing = [float(rng.choice([0, 1e-9, 1e9, 1])), 1.0]
        dataset.ImagePositionPatient = [0, 0, float(rng.choice([0, 1e9, -1e9]))]
        dataset.ImageOrientationPatient = [float(v) for v in rng.choice([0, 1, -1, 1e6], size=6)]

    _edit(path, change)


MUTATIONS: tuple[Mutation, ...] = (
    truncate,
    flip_header_bytes,
    flip_any_bytes,
    claim_size,
    claim_frames,
    claim_bits,
    claim_syntax,
    giant_jpeg_2000,
    deflate_bomb,
    odd_numbers,
    odd_geometry,
)


def mutate_series(source: Path, target: Path, rng: Generator) -> list[str]:
    """Copy a series and spoil one, some or all of its files; return how."""
    shutil.copytree(source, target)
    files = sorted(target.iterdir())
    n = int(rng.choice([1, len(files) // 2, len(files)]))
    mutation = MUTATIONS[rng.integers(len(MUTATIONS))]
    for index in rng.permutation(len(files))[:n]:
        mutation(files[index], rng)
    return [mutation.__name__, f"{n} of {len(files)}"]
