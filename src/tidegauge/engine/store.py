"""How results are written: tables as CSV, everything else as JSON, with a manifest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.errors import InputError
from tidegauge.manifest import MANIFEST, manifest, plain, write_json

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MANIFEST", "check_netcdf", "manifest", "plain", "write_csv", "write_json"]

_MAX_ARRAY_BYTES = 8 * 2**30


def check_netcdf(path: Path) -> None:
    """Refuse a NetCDF file that leads elsewhere or holds more than it can.

    HDF5 lets a file take its values from any other file of the machine, and its headers name
    sizes that reading would believe.

    Raises
    ------
    InputError
        It has external or virtual storage, links out of itself, or arrays of an absurd size.
    """
    import h5py  # type: ignore[import-untyped, unused-ignore]

    def check(group: h5py.Group) -> None:
        for name in group:
            link = group.get(name, getlink=True)
            if not isinstance(link, h5py.HardLink):
                raise InputError(f"{path}: {name} is a link; such a file is not read")
            item = group[name]
            if isinstance(item, h5py.Group):
                check(item)
            elif isinstance(item, h5py.Dataset):
                if item.external or item.is_virtual:
                    raise InputError(f"{path}: {name} takes its values from another file")
                if item.nbytes > _MAX_ARRAY_BYTES:
                    raise InputError(f"{path}: {name} asks for {item.nbytes:,} bytes")

    try:
        with h5py.File(path, "r") as file:
            check(file)
    except (OSError, KeyError, ValueError, RuntimeError, RecursionError) as error:
        raise InputError(f"{path}: not a NetCDF file that can be read ({error})") from error


def write_csv(path: Path, table: pd.DataFrame) -> None:
    """Write a table with enough digits to be read back and few enough to be read."""
    table.to_csv(path, index=False, float_format="%.10g", lineterminator="\n")
