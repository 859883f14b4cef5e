"""One folder of results: written whole or not at all, and read back with every file checked.

Its manifest holds the hash of every file. A reader takes the bytes of a file once and compares
them, so that what it returns is one result: never some files of an older and some of a newer one,
and never a file that was damaged or edited since.
"""

from __future__ import annotations

import datetime
import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np

from tidegauge.engine.store import MANIFEST, manifest, plain, write_csv, write_json
from tidegauge.errors import InputError
from tidegauge.io import atomic_folder, check_complete, read_file, sha256_of

if TYPE_CHECKING:
    import pandas as pd

Decoded = TypeVar("Decoded")
Result = TypeVar("Result")

_MAX_FILE_BYTES = 2**30

# What a result of each kind may leave in its folder; all of it goes when a new one is written.
OWNED: Mapping[str, tuple[str, ...]] = {
    "fit": (
        *("horizons.csv", "horizon_draws.csv", "tasks.csv", "parameters.csv", "pairs.csv"),
        *("domains.csv", "rates.csv", "trend.csv", "trend_dates.csv", "trend_fan.csv"),
        *("diagnostics.json", "posterior.nc", "estimate.nc", "manifest.json", "plots"),
        "report.html",
    ),
    "compare": (
        *("compare.csv", "scores.csv", "differences.csv", "folds.csv", "predictions.csv"),
        *("calibration.csv", "tasks.csv", "loo.csv", "manifest.json", "plots"),
    ),
    "multiverse": (
        *("multiverse.csv", "doubling.csv", "choices.csv", "levels.csv", "influence.csv"),
        *("sensitivity.csv", "manifest.json", "plots"),
    ),
    "trend": (
        *("trends.csv", "trend_dates.csv", "trend_fan.csv", "shapes.csv", "agents.csv"),
        *("manifest.json", "plots"),
    ),
}
REMEDY = {
    name: f"{'fit again' if name == 'fit' else 'make it'} with: tidegauge horizon {name} RUNS --out"
    for name in OWNED
}


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What made a result, from which bytes, with which settings.

    Attributes
    ----------
    files : dict
        The SHA-256 of every other file that was written with it, by name.
    """

    kind: str
    tidegauge: str
    created_at: str
    python: str
    libraries: dict[str, str]
    inputs: dict[str, str]
    settings: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)

    @property
    def method(self) -> str:
        """The kind of result: the method of a fit, or the name of a study."""
        return self.kind.removeprefix("horizon/")


def write_folder(
    folder: Path,
    name: str,
    *,
    kind: str,
    tables: Mapping[str, pd.DataFrame | None],
    settings: Mapping[str, Any],
    inputs: Mapping[str, str],
    notes: Sequence[str],
    further: Mapping[str, Any] | None = None,
    documents: Mapping[str, Any] | None = None,
    binary: Mapping[str, Callable[[Path], None]] | None = None,
) -> None:
    """Replace the files of an earlier result by this one's; a kill leaves one or the other.

    Parameters
    ----------
    name : str
        Of `OWNED`: what the folder may hold.
    tables : mapping
        File name to table; those that are None are left out.
    settings, inputs, notes, further
        What goes into the manifest: enough to repeat the result; `further` at its top level.
    documents : mapping, optional
        File name to what is written there as JSON.
    binary : mapping, optional
        File name to what writes that file.
    """
    with atomic_folder(folder, owned=OWNED[name]) as staging:
        for file, table in tables.items():
            if table is not None:
                write_csv(staging / file, table)
        for file, write in (binary or {}).items():
            write(staging / file)
        for file, document in (documents or {}).items():
            write_json(staging / file, document)
        described = manifest(kind=f"horizon/{kind}", inputs=inputs, settings=settings)
        described |= {**(further or {}), "notes": list(notes), "files": hashes_of(staging)}
        write_json(staging / MANIFEST, {**described, "sha256": hash_of(plain(described))})


def hashes_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file but the manifest, by name."""
    files = (path for path in sorted(folder.iterdir()) if path.is_file())
    return {path.name: sha256_of(path) for path in files if path.name != MANIFEST}


def hash_of(described: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a manifest's own contents, however they are laid out."""
    text = json.dumps(described, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class ResultFolder:
    """A result on disk, as its manifest describes it."""

    path: Path
    manifest: Manifest
    remedy: str

    def read(self, name: str) -> bytes:
        """Return the bytes of a file.

        Raises
        ------
        InputError
            It is not there, or not what was written with the manifest.
        """
        data = _bytes_of(self.path / name, self.remedy)
        if hashlib.sha256(data).hexdigest() != self.manifest.files.get(name):
            raise InputError(
                f"{self.path / name}: not the file that {MANIFEST} describes: it was changed; "
                f"{self.remedy}"
            )
        return data

    def json(self, name: str, kind: type[Decoded]) -> Decoded:
        """Read a JSON file of a known form."""
        return _decode_json(self.path / name, self.read(name), kind, self.remedy)

    def table(
        self, name: str, texts: Sequence[str], numbers: Sequence[str], *, unique: bool = True
    ) -> pd.DataFrame:
        """Read a CSV: texts as they are (an agent may be called NA), numbers with NaN for nothing.

        Columns that are not named are kept as texts; `unique` refuses a first text that comes
        twice.
        """
        import pandas as pd

        path = self.path / name
        try:
            raw = pd.read_csv(io.BytesIO(self.read(name)), dtype=str, keep_default_na=False)
        except (ValueError, UnicodeDecodeError) as error:  # pandas' parser errors are ValueErrors
            reason = " ".join(str(error).split())
            raise InputError(f"{path}: not a table ({reason}); {self.remedy}") from error
        missing = [column for column in (*texts, *numbers) if column not in raw.columns]
        if missing or raw.empty:
            what = f"no column {', '.join(missing)}" if missing else "no rows"
            raise InputError(f"{path}: {what}; {self.remedy}")
        names = raw[texts[0]]
        if unique and names.duplicated().any():
            twice = names[names.duplicated()].iloc[0]
            raise InputError(f"{path}: {texts[0]}={twice} is there twice; {self.remedy}")
        for column in numbers:
            values = pd.to_numeric(raw[column], errors="coerce")
            wrong = values.isna() & ~raw[column].str.lower().isin(["", "nan"])
            if wrong.any():
                row = int(np.flatnonzero(wrong)[0])
                raise InputError(
                    f"{path}:{row + 2}: {column}={raw[column].iloc[row]}: not a number; "
                    f"{self.remedy}"
                )
            raw[column] = values.astype(float)
        return raw


def read_result(
    folder: Path, name: str, read: Callable[[ResultFolder], Result], *, kinds: Sequence[str] = ()
) -> Result:
    """Read a result of a kind; once more where another command replaced it meanwhile.

    Raises
    ------
    InputError
        Not a folder, not of this kind, or one of its files is missing or damaged.
    """
    found = _open_result(folder, name, kinds)
    while True:
        try:
            return read(found)
        except InputError:
            now = _open_result(folder, name, kinds)
            if now == found:
                raise
            found = now


def _open_result(folder: Path, name: str, kinds: Sequence[str]) -> ResultFolder:
    remedy = f"{REMEDY[name]} {folder}"
    if not folder.is_dir():
        raise InputError(f"{folder}: not a folder; {remedy}")
    check_complete(folder)
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError(f"{folder}: no {MANIFEST}, so nothing that this reads; {remedy}")
    data = _bytes_of(path, remedy)
    found = _decode_json(path, data, Manifest, remedy)
    described = _decode_json(path, data, dict[str, Any], remedy)
    if described.pop("sha256", None) != hash_of(described):
        raise InputError(f"{path}: changed since it was written, or of an older version; {remedy}")
    if found.method not in (kinds or (name,)) or not found.kind.startswith("horizon/"):
        raise InputError(f"{path}: kind={found.kind}: not what is read here; {remedy}")
    return ResultFolder(folder, found, remedy)


def _bytes_of(path: Path, remedy: str) -> bytes:
    try:
        return read_file(path, max_bytes=_MAX_FILE_BYTES)
    except InputError as error:
        raise InputError(f"{error}, or {remedy}") from error


def _decode_json(path: Path, data: bytes, kind: type[Decoded], remedy: str) -> Decoded:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: not what a fit writes ({error}); {remedy}") from error


def check_dates(path: Path, column: pd.Series[str]) -> None:
    """Refuse what is neither an ISO date nor empty."""
    for row, day in enumerate(column):
        try:
            datetime.date.fromisoformat(day or "2000-01-01")
        except ValueError:
            raise InputError(
                f"{path}:{row + 2}: {column.name}={day}: not a date; write it as 2024-05-13"
            ) from None
