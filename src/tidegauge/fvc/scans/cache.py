"""Scan features of many patients: in parallel, cached by content, a bad scan never fatal."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from tidegauge.errors import InputError
from tidegauge.fvc.scans.features import FEATURES
from tidegauge.fvc.scans.plausibility import Person
from tidegauge.fvc.scans.scan import scan, slice_png
from tidegauge.fvc.scans.series import ScanError
from tidegauge.fvc.scans.workers import limit_cpu, map_in_workers
from tidegauge.io import atomic_write, sha256_of
from tidegauge.progress import SILENT, Progress
from tidegauge.system import available_cores

FEATURE_VERSION = 2  # raise it when a feature changes, so that cached values are measured again


@dataclass(frozen=True)
class ScanFeatures:
    """What the scans of some patients say.

    Attributes
    ----------
    table : DataFrame
        One row a patient in the order asked for, indexed by ``Patient``; the columns are those of
        `FEATURES`, NaN where missing. No row at all if there is no folder of scans.
    warnings : list of str
        One a scan with something wrong, beginning with the patient.
    """

    table: pd.DataFrame
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Kept:
    """What is kept of one scan: its features and what to tell of it."""

    values: dict[str, float]
    warnings: list[str]


def scan_features(
    folder: Path | str,
    patients: Sequence[str],
    *,
    persons: Sequence[Person] | None = None,
    cache: Path | None = None,
    workers: int | None = None,
    progress: Progress = SILENT,
) -> ScanFeatures:
    """Measure each patient's scan in ``folder/<Patient>``.

    Parameters
    ----------
    patients : sequence of str
        Whose scans to measure; one without a folder has a row of NaN and no warning.
    persons : sequence of Person, optional
        What is known of each, to hold lung volumes against.
    cache : path, optional
        Folder to keep measurements in, by the content of the scan's files.
    workers : int, optional
        Processes; one a core by default.
    """
    folder = Path(folder)
    if not folder.is_dir():
        return ScanFeatures(_table({}))
    known = dict(zip(patients, persons or [Person()] * len(patients), strict=True))
    present = [p for p in known if _is_name(p) and (folder / p).is_dir()]
    measure = partial(_measure_patient, folder=folder, cache=cache, version=FEATURE_VERSION)
    found: dict[str, _Kept] = {}
    n_workers = min(workers or available_cores(), max(len(present), 1))
    with progress.step("measuring scans", total=len(present)) as step:
        tasks = [(patient, known[patient]) for patient in present]
        for index, result in map_in_workers(measure, tasks, workers=n_workers):
            if isinstance(result, ScanError):
                result = _Kept({}, [str(result)])
            found[present[index]] = result
            step.update(len(found))
    rows = {p: found[p].values if p in found else {} for p in patients}
    warnings = [f"{p}: {'; '.join(found[p].warnings)}" for p in present if found[p].warnings]
    return ScanFeatures(_table(rows), warnings)


class ScanPicture(NamedTuple):
    """A slice with the lungs outlined, as PNG or None, and what was found wrong with the scan."""

    png: bytes | None
    warnings: list[str]


def scan_pictures(
    folder: Path,
    patients: Sequence[str],
    *,
    workers: int | None = None,
    progress: Progress = SILENT,
) -> dict[str, ScanPicture]:
    """Draw a slice of each patient who has a folder of scans."""
    present = [p for p in patients if _is_name(p) and (folder / p).is_dir()]
    if not present:
        return {}
    n_workers = min(workers or available_cores(), len(present))
    pictures: dict[str, ScanPicture] = {}
    with progress.step("drawing slices", total=len(present)) as step:
        folders = [folder / patient for patient in present]
        for index, picture in map_in_workers(_picture, folders, workers=n_workers):
            if isinstance(picture, ScanError):
                picture = ScanPicture(None, [str(picture)])
            pictures[present[index]] = picture
            step.update(len(pictures))
    return pictures


def _picture(folder: Path) -> ScanPicture:
    limit_cpu(_count_files(folder))
    one = scan(folder)
    return ScanPicture(slice_png(one.volume, one.lungs), one.measured.warnings)


def _is_name(patient: str) -> bool:
    """Whether an id names a folder of its own; an empty one or ``..`` would name another."""
    return patient not in ("", ".", "..") and "/" not in patient


def _table(rows: dict[str, dict[str, float]]) -> pd.DataFrame:
    values = [[row.get(name, np.nan) for name in FEATURES] for row in rows.values()]
    index = pd.Index(list(rows), name="Patient", dtype=object)
    data = np.array(values, dtype=float).reshape(len(rows), len(FEATURES))
    return pd.DataFrame(data, index=index, columns=list(FEATURES))


def _measure_patient(
    task: tuple[str, Person], *, folder: Path, cache: Path | None, version: int
) -> _Kept:
    """Measure one scan through the cache."""
    patient, person = task
    limit_cpu(_count_files(folder / patient))
    kept = None
    if cache is not None:
        kept = cache / f"{_content_key(folder / patient, person, version)}.json"
        if (known := _from_cache(kept)) is not None:
            return known
    measured = scan(folder / patient, person=person).measured
    result = _Kept(measured.values, measured.warnings)
    if kept is not None:
        _to_cache(kept, result)
    return result


def _count_files(folder: Path) -> int:
    return sum(1 for path in folder.rglob("*") if path.is_file())


def _content_key(folder: Path, person: Person, version: int) -> str:
    """Hash the feature version, the patient's facts, and every file's name and bytes."""
    digest = hashlib.sha256(f"features {version} {person}".encode())
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        try:
            content = sha256_of(path)
        except OSError:  # no permission: the reader will say so, and read the others
            content = "unreadable"
        digest.update(f"\n{path.relative_to(folder)}\t{content}".encode())
    return digest.hexdigest()


def _to_cache(path: Path, kept: _Kept) -> None:
    # A cache that cannot be written costs time, never a measurement.
    with contextlib.suppress(OSError, InputError), atomic_write(path) as handle:
        json.dump({"values": kept.values, "warnings": kept.warnings}, handle)


def _from_cache(path: Path) -> _Kept | None:
    """Return what was kept, or None if there is nothing or it is not what we write."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        values = {name: float(kept["values"][name]) for name in FEATURES}
        return _Kept(values, [str(text) for text in kept["warnings"]])
    except (OSError, ValueError, KeyError, TypeError):
        return None
