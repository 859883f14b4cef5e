"""Scan features of many patients: in parallel, cached by content, a bad scan never fatal."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from tidegauge.engine.parallel import parallel_map
from tidegauge.errors import InputError
from tidegauge.fvc.scans.dicom import read_scan
from tidegauge.fvc.scans.features import FEATURES, Measured, measure_lungs
from tidegauge.fvc.scans.segmentation import segment_lungs
from tidegauge.io import atomic_write, sha256_of
from tidegauge.progress import SILENT, Progress

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
    warnings: list[str]


def scan_features(
    folder: Path | str,
    patients: Sequence[str],
    *,
    cache: Path | None = None,
    workers: int | None = None,
    progress: Progress = SILENT,
) -> ScanFeatures:
    """Measure each patient's scan in ``folder/<Patient>``.

    Parameters
    ----------
    patients : sequence of str
        Whose scans to measure; one without a folder has a row of NaN and no warning.
    cache : path, optional
        Folder to keep measurements in, by the content of the scan's files.
    workers : int, optional
        Processes; one a core by default.
    """
    folder = Path(folder)
    if not folder.is_dir():
        return ScanFeatures(_table({}), [])
    present = [p for p in dict.fromkeys(patients) if _is_name(p) and (folder / p).is_dir()]
    measured = parallel_map(
        partial(_measure_patient, folder=folder, cache=cache),
        present,
        workers=workers,
        label="measuring scans",
        progress=progress,
    )
    found = dict(zip(present, measured, strict=True))
    rows = {p: found[p].values if p in found else {} for p in patients}
    warnings = [f"{p}: {'; '.join(m.warnings)}" for p, m in found.items() if m.warnings]
    return ScanFeatures(_table(rows), warnings)


def _is_name(patient: str) -> bool:
    """Whether an id names a folder of its own; an empty one or ``..`` would name another."""
    return patient not in ("", ".", "..") and "/" not in patient


def _table(rows: dict[str, dict[str, float]]) -> pd.DataFrame:
    values = [[row.get(name, np.nan) for name in FEATURES] for row in rows.values()]
    index = pd.Index(list(rows), name="Patient", dtype=object)
    data = np.array(values, dtype=float).reshape(len(rows), len(FEATURES))
    return pd.DataFrame(data, index=index, columns=list(FEATURES))


def measure_scan(folder: Path | str) -> Measured:
    """Read, segment and measure one scan.

    Raises
    ------
    ScanError
        It cannot be read, or shows no lungs.
    """
    volume = read_scan(folder)
    measured = measure_lungs(volume, segment_lungs(volume))
    return Measured(measured.values, [*volume.warnings, *measured.warnings])


def _measure_patient(patient: str, *, folder: Path, cache: Path | None) -> Measured:
    """Measure one scan through the cache; whatever is wrong with it becomes its warning."""
    try:
        kept = None if cache is None else cache / f"{_content_key(folder / patient)}.json"
        if kept is not None and (known := _from_cache(kept)) is not None:
            return known
        measured = measure_scan(folder / patient)
        if kept is not None:
            _to_cache(kept, measured)
        return measured
    except InputError as error:
        return Measured({}, [str(error)])
    except Exception as error:  # one scan out of hundreds must not end the run, whatever it holds
        return Measured({}, [f"cannot be measured ({type(error).__name__}: {error})"])


def _content_key(folder: Path) -> str:
    """Hash the feature version and every file's name and bytes."""
    digest = hashlib.sha256(f"features {FEATURE_VERSION}".encode())
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        try:
            content = sha256_of(path)
        except OSError:  # no permission: the reader will say so, and read the others
            content = "unreadable"
        digest.update(f"\n{path.relative_to(folder)}\t{content}".encode())
    return digest.hexdigest()


def _to_cache(path: Path, measured: Measured) -> None:
    # A cache that cannot be written costs time, never a measurement.
    with contextlib.suppress(OSError, InputError), atomic_write(path) as handle:
        json.dump({"values": measured.values, "warnings": measured.warnings}, handle)


def _from_cache(path: Path) -> Measured | None:
    """Return what was kept, or None if there is nothing or it is not what we write."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        values = {name: float(kept["values"][name]) for name in FEATURES}
        return Measured(values, [str(text) for text in kept["warnings"]])
    except (OSError, ValueError, KeyError, TypeError):
        return None
