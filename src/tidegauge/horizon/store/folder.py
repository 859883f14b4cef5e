"""One folder of results: written whole or not at all, and read back with every file checked."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np

from tidegauge.engine.store import manifest, write_csv, write_json
from tidegauge.errors import InputError
from tidegauge.io import atomic_folder, check_complete

if TYPE_CHECKING:
    import pandas as pd

Decoded = TypeVar("Decoded")

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
    """What made a result, from which bytes, with which settings."""

    kind: str
    tidegauge: str
    created_at: str
    python: str
    libraries: dict[str, str]
    inputs: dict[str, str]
    settings: dict[str, Any]
    notes: list[str] = field(default_factory=list)

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
        write_json(
            staging / "manifest.json", {**described, **(further or {}), "notes": list(notes)}
        )


def read_manifest(folder: Path, name: str, *, kinds: Sequence[str] = ()) -> Manifest:
    """Read the manifest of a folder that holds a result of a kind.

    Raises
    ------
    InputError
        Not a folder, or not of this kind.
    """
    remedy = f"{REMEDY[name]} {folder}"
    if not folder.is_dir():
        raise InputError(f"{folder}: not a folder; {remedy}")
    check_complete(folder)
    path = folder / "manifest.json"
    if not path.is_file():
        raise InputError(f"{folder}: no manifest.json, so nothing that this reads; {remedy}")
    found = read_json(path, Manifest, remedy=REMEDY[name])
    if found.method not in (kinds or (name,)) or not found.kind.startswith("horizon/"):
        raise InputError(f"{path}: kind={found.kind}: not what is read here; {remedy}")
    return found


def _bytes_of(path: Path, remedy: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{path}: {reason}; {remedy} {path.parent}") from error


def read_json(path: Path, kind: type[Decoded], *, remedy: str = REMEDY["fit"]) -> Decoded:
    """Read a JSON file of a known form."""
    try:
        return msgspec.json.decode(_bytes_of(path, remedy), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            f"{path}: not what a fit writes ({error}); {remedy} {path.parent}"
        ) from error


def read_table(
    path: Path,
    texts: Sequence[str],
    numbers: Sequence[str],
    *,
    unique: bool = True,
    remedy: str = REMEDY["fit"],
) -> pd.DataFrame:
    """Read a CSV: texts as they are (an agent may be called NA), numbers with NaN for nothing.

    Columns that are not named are kept as texts; `unique` refuses a first text that comes twice.
    """
    import io

    import pandas as pd

    try:
        raw = pd.read_csv(io.BytesIO(_bytes_of(path, remedy)), dtype=str, keep_default_na=False)
    except (ValueError, UnicodeDecodeError) as error:  # pandas' parser errors are ValueErrors
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: not a table ({reason}); {remedy} {path.parent}") from error
    missing = [name for name in (*texts, *numbers) if name not in raw.columns]
    if missing or raw.empty:
        what = f"no column {', '.join(missing)}" if missing else "no rows"
        raise InputError(f"{path}: {what}; {remedy} {path.parent}")
    names = raw[texts[0]]
    if unique and names.duplicated().any():
        twice = names[names.duplicated()].iloc[0]
        raise InputError(f"{path}: {texts[0]}={twice} is there twice; {remedy} {path.parent}")
    for name in numbers:
        column = pd.to_numeric(raw[name], errors="coerce")
        wrong = column.isna() & ~raw[name].str.lower().isin(["", "nan"])
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise InputError(
                f"{path}:{row + 2}: {name}={raw[name].iloc[row]}: not a number; "
                f"{remedy} {path.parent}"
            )
        raw[name] = column.astype(float)
    return raw


def check_dates(path: Path, column: pd.Series[str]) -> None:
    """Refuse what is neither an ISO date nor empty."""
    for row, day in enumerate(column):
        try:
            datetime.date.fromisoformat(day or "2000-01-01")
        except ValueError:
            raise InputError(
                f"{path}:{row + 2}: {column.name}={day}: not a date; write it as 2024-05-13"
            ) from None
