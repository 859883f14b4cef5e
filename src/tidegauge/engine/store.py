"""What a fit leaves behind: tables, JSON and a manifest from which it can be repeated."""

from __future__ import annotations

import datetime
import json
import math
import platform
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge import __version__
from tidegauge.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_MAX_ARRAY_BYTES = 8 * 2**30
_LIBRARIES = ("numpy", "scipy", "numba", "nutpie", "pymc", "arviz")


def manifest(
    *, kind: str, inputs: Mapping[str, str], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Describe a result: what made it, from which bytes, with which settings.

    Parameters
    ----------
    kind : str
        Such as ``horizon/core``.
    inputs : mapping
        File name to SHA-256.
    settings : mapping
        Seeds, options, priors: plain values or dataclasses.
    """
    return {
        "kind": kind,
        "tidegauge": __version__,
        "created_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in _LIBRARIES},
        "inputs": dict(inputs),
        "settings": plain(settings),
    }


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


def plain(value: Any) -> Any:
    """Turn dataclasses, arrays, paths and dates into what JSON can hold; infinity to text."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Path | datetime.date):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON with a final newline."""
    path.write_text(json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_csv(path: Path, table: pd.DataFrame) -> None:
    """Write a table with enough digits to be read back and few enough to be read."""
    table.to_csv(path, index=False, float_format="%.10g", lineterminator="\n")
