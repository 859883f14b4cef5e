"""How results are written: tables as CSV, everything else as JSON, with a manifest."""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tidegauge.errors import InputError
from tidegauge.manifest import MANIFEST, manifest, plain, write_json

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MANIFEST", "check_netcdf", "manifest", "plain", "read_npz", "write_csv", "write_json"]

# HDF5 need not store what it fills in, and compresses; what we write does neither.
_LARGEST_RATIO = 16
_ANY_SIZE_BYTES = 2**20
_MAX_ARCHIVE_BYTES = 2**30


def check_netcdf(path: Path, file: io.BytesIO | None = None) -> None:
    """Refuse a NetCDF file that leads elsewhere or asks for more memory than it can fill.

    HDF5 lets a file take its values from any other file of the machine, and its headers name
    sizes, of arrays and of the chunks they are read in, that reading would believe.

    Parameters
    ----------
    file : BytesIO, optional
        What `path` held when it was read.

    Raises
    ------
    InputError
        It has external or virtual storage, links out of itself, or arrays of an absurd size.
    """
    import h5py  # type: ignore[import-untyped, unused-ignore]

    size = path.stat().st_size if file is None else len(file.getbuffer())
    limit = _LARGEST_RATIO * size + _ANY_SIZE_BYTES

    def check(group: h5py.Group, total: int = 0) -> int:
        for name in group:
            link = group.get(name, getlink=True)
            if not isinstance(link, h5py.HardLink):
                raise InputError(f"{path}: {name} is a link; such a file is not read")
            item = group[name]
            if isinstance(item, h5py.Group):
                total = check(item, total)
            elif isinstance(item, h5py.Dataset):
                if item.external or item.is_virtual:
                    raise InputError(f"{path}: {name} takes its values from another file")
                chunk = math.prod(item.chunks or ()) * item.dtype.itemsize
                total += max(item.nbytes, chunk)
                if total > limit:
                    raise InputError(f"{path}: {name} asks for more bytes than the file can hold")
        return total

    try:
        with h5py.File(file or path, "r") as opened:
            check(opened)
    except InputError:
        raise
    except Exception as error:  # whatever the HDF5 layers raise, it is the file that is damaged
        raise InputError(f"{path}: not a NetCDF file that can be read ({error})") from error


def read_npz(path: Path, data: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays of an .npz archive that `path` held.

    Raises
    ------
    InputError
        Not such an archive, or one that needs more than a gigabyte of memory.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            total = sum(member.file_size for member in archive.infolist())
            if total > _MAX_ARCHIVE_BYTES:
                raise ValueError(f"asks for {total:,} bytes")
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except Exception as error:  # NumPy and zlib raise what they like, RecursionError too
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path}: damaged ({reason}); make it again") from error


def write_csv(path: Path, table: pd.DataFrame) -> None:
    """Write a table with enough digits to be read back and few enough to be read."""
    table.to_csv(path, index=False, float_format="%.10g", lineterminator="\n")
