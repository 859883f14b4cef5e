"""Two folders of the same result, file by file: equal, or how far apart as numbers.

Tables, JSON and arrays are compared value by value; charts and pages are drawn from them and do
not decide. When it was made and how long it took are no part of a result.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegauge.engine.store import check_netcdf, read_npz
from tidegauge.errors import InputError
from tidegauge.io import sha256_of
from tidegauge.manifest import MANIFEST

SAME, DIFFERS, ABSENT, DRAWN = "same", "differs", "absent", "drawn anew"
PARAMETERS = "parameters.csv"
FALSE_ALARM = 0.001  # chance that two sound runs of one sampler are called different
_DRAWN_FROM_TABLES = {".png", ".svg", ".html"}
# Of JSON and columns: when it was made, and what repeats numbers that are compared themselves.
_INCIDENTAL = frozenset({"created_at", "seconds", "cpu_seconds", "sha256"})
_INCIDENTAL_LEAF = "detail"

Leaves = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class FileComparison:
    """What became of one file.

    Attributes
    ----------
    verdict : str
        ``same``, ``differs``, ``absent`` (of the older folder), or ``drawn anew`` (a chart whose
        bytes differ: its tables decide).
    largest_relative_difference : float or None
        Of its numbers, where only numbers differ.
    detail : str
        What differs.
    """

    name: str
    verdict: str
    largest_relative_difference: float | None = None
    detail: str = ""


@dataclass(frozen=True)
class MonteCarlo:
    """Posterior means of two runs, in units of their Monte Carlo standard error.

    Attributes
    ----------
    largest_z : float
        max |m1 - m2| / sqrt(s1^2 / ESS1 + s2^2 / ESS2) over the parameters.
    limit : float
        The Bonferroni bound that two runs of one sampler exceed with probability `FALSE_ALARM`.
    """

    largest_z: float
    limit: float
    n_parameters: int

    @property
    def agrees(self) -> bool:
        """Whether the difference is what sampling alone would make."""
        return self.largest_z <= self.limit


def compare_folders(old: Path, new: Path) -> list[FileComparison]:
    """Compare every file of the new folder with that of the same name in the old one.

    But for the manifest, which says how a result was made and not what it is.
    """
    files = (path for path in new.rglob("*") if path.is_file() and path != new / MANIFEST)
    names = sorted(path.relative_to(new) for path in files)
    return [_compare_files(name.as_posix(), old / name, new / name) for name in names]


def _compare_files(name: str, old: Path, new: Path) -> FileComparison:
    if not old.is_file():
        return FileComparison(name, ABSENT, detail="the older folder does not have it")
    if os.path.samefile(old, new) or sha256_of(old) == sha256_of(new):
        return FileComparison(name, SAME)
    if new.suffix in _DRAWN_FROM_TABLES:
        return FileComparison(name, DRAWN, detail="drawn from the tables, which decide")
    before, after = _read_leaves(old), _read_leaves(new)
    if before is None or after is None:
        return FileComparison(name, DIFFERS, detail="other bytes")
    if before.keys() != after.keys():
        unlike = ", ".join(sorted(before.keys() ^ after.keys())[:5])
        return FileComparison(name, DIFFERS, detail=f"only in one of them: {unlike}")
    largest = 0.0
    for key, value in after.items():
        difference = _relative_difference(before[key], value)
        if difference is None:
            return FileComparison(name, DIFFERS, detail=f"{key}: other texts or another size")
        largest = max(largest, difference)
    return FileComparison(name, DIFFERS if largest else SAME, largest or None)


def _relative_difference(old: NDArray[Any], new: NDArray[Any]) -> float | None:
    """Return max |a - b| / max(|a|, |b|), None where texts or sizes differ."""
    if old.shape != new.shape:
        return None
    unlike = old != new
    if not unlike.any():
        return 0.0
    try:
        a, b = (side[unlike].astype(np.float64) for side in (old, new))
    except (TypeError, ValueError):
        return None
    # NaN is unlike itself, and a text is unlike the number that it writes.
    apart = (a != b) & ~(np.isnan(a) & np.isnan(b))
    a, b = a[apart], b[apart]
    if not np.isfinite(a).all() or not np.isfinite(b).all():
        return math.inf
    return float(np.max(np.abs(a - b) / np.maximum(np.abs(a), np.abs(b)), initial=0.0))


def _read_leaves(path: Path) -> Leaves | None:
    """Return the values of a file by name, None for a format that holds no numbers to compare."""
    readers = {".csv": _csv_leaves, ".json": _json_leaves, ".npz": _npz_leaves, ".nc": _nc_leaves}
    reader = readers.get(path.suffix)
    with _damage(path):
        return reader(path) if reader else None


@contextlib.contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Say of a file that cannot be read that it is damaged, whatever its library raises."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path}: damaged ({reason}); make it again") from error


def _csv_leaves(path: Path) -> Leaves:
    import pandas as pd

    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    compared = [str(name) for name in table.columns if name not in _INCIDENTAL]
    return {name: table[name].to_numpy(dtype=object) for name in compared}


def _json_leaves(path: Path) -> Leaves:
    content = json.loads(path.read_text(encoding="utf-8"))
    return {name: np.array([value], dtype=object) for name, value in _walk(content, ())}


def _walk(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            if not (key == _INCIDENTAL_LEAF or (not path and key in _INCIDENTAL)):
                yield from _walk(item, (*path, str(key)))
    else:
        # A flag is no number, and neither is a text that looks like one.
        number = isinstance(value, int | float) and not isinstance(value, bool)
        yield ".".join(path), value if number else f"{value!r} "


def _npz_leaves(path: Path) -> Leaves:
    return read_npz(path, path.read_bytes())


def _nc_leaves(path: Path) -> Leaves:
    import h5netcdf

    check_netcdf(path)
    found: Leaves = {}

    def collect(group: Any, prefix: str) -> None:
        for name, variable in group.variables.items():
            found[prefix + name] = np.asarray(variable[...])
        for name, inner in group.groups.items():
            collect(inner, f"{prefix}{name}/")

    with h5netcdf.File(path, "r") as file:
        collect(file, "")
    return found


def monte_carlo_agreement(old: Path, new: Path) -> MonteCarlo | None:
    """Compare the posterior means in two folders of a sampled fit; None where there are none."""
    import pandas as pd
    from scipy import stats

    if not ((old / PARAMETERS).is_file() and (new / PARAMETERS).is_file()):
        return None
    with _damage(old / PARAMETERS):
        a, b = (pd.read_csv(folder / PARAMETERS, index_col="parameter") for folder in (old, new))
        if not a.index.equals(b.index):
            return None
        error = np.sqrt(a["sd"] ** 2 / a["ess_bulk"] + b["sd"] ** 2 / b["ess_bulk"])
        z = (np.abs(a["mean"] - b["mean"]) / error)[error > 0]
    n = max(len(z), 1)
    limit = float(stats.norm.isf(FALSE_ALARM / 2 / n))
    return MonteCarlo(float(z.max()) if len(z) else 0.0, limit, len(z))
