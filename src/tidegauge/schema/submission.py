"""The submission table and its checks: pure, strict, and naming every problem at once.

The validation server, ``bench validate``, the grader and ``fvc solve`` all call
`check_submission`, so that none of them can disagree with another.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from tidegauge.errors import InputError, SubmissionError
from tidegauge.io import atomic_write
from tidegauge.schema.osic import SUBMISSION_COLUMNS
from tidegauge.schema.submission_rows import RowReader, diagnose_keys, diagnose_numbers

MAX_BYTES = 64 * 1024 * 1024  # of the decompressed table, whatever the competition
_BYTES_PER_ROW = 512  # a key, the numbers at full precision, and room for columns of one's own
_MAX_GZIP_MEMBERS = 8

Source = Path | str | bytes | BinaryIO


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """A column of finite numbers, each above `above` and at most `at_most` (in `unit`)."""

    name: str
    above: float = -np.inf
    at_most: float = np.inf
    unit: str = ""

    def limits(self) -> str:
        """Say the permitted range in words, such as ``above 0 and at most 10,000 ml``."""
        parts = [f"above {self.above:,.10g}"] if np.isfinite(self.above) else []
        parts += [f"at most {self.at_most:,.10g}"] if np.isfinite(self.at_most) else []
        return f"{' and '.join(parts)} {self.unit}".rstrip()


@dataclass(frozen=True, slots=True)
class SubmissionForm:
    """The columns of a competition's submission: one key, then numbers."""

    key: str
    numbers: tuple[NumberColumn, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Every required column, the key first."""
        return (self.key, *(column.name for column in self.numbers))


# Lungs hold at most about 7,000 ml, so 10,000 is no measurement but a wrong unit or column. The
# Confidence has a limit only because a larger number could not be scored.
OSIC_FORM = SubmissionForm(
    SUBMISSION_COLUMNS[0],
    (
        NumberColumn(SUBMISSION_COLUMNS[1], above=0.0, at_most=10_000.0, unit="ml"),
        NumberColumn(SUBMISSION_COLUMNS[2], above=0.0, at_most=1e9, unit="ml"),
    ),
)


def max_table_bytes(expected_keys: Sequence[str]) -> int:
    """Return how large a table of these rows may be: many times what an honest one needs."""
    needed = sum(map(len, expected_keys)) + _BYTES_PER_ROW * len(expected_keys)
    return min(MAX_BYTES, 2**20 + needed)


@dataclass(frozen=True, slots=True)
class SubmissionTable:
    """A valid submission, in the order of the expected keys.

    Attributes
    ----------
    keys : sequence of str
        The expected keys.
    values : mapping of str to ndarray, shape (n_keys,)
        One array for each number column.
    """

    keys: Sequence[str]
    values: Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the checks found: problems make it invalid, notes do not."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    table: SubmissionTable | None = None

    @property
    def valid(self) -> bool:
        """Whether there was no problem."""
        return not self.problems

    def sentence(self) -> str:
        """Return the reply of the validation endpoint; it never holds a score."""
        if self.valid:
            return " ".join(["Submission is valid.", *(f"Note: {note}." for note in self.notes)])
        return "Submission invalid! " + "; ".join(self.problems) + "."


def read_submission(
    source: Source, *, form: SubmissionForm, expected_keys: Sequence[str]
) -> SubmissionTable:
    """Return the valid submission in `source`, aligned with `expected_keys`.

    Raises
    ------
    SubmissionError
        It is not valid; every problem is named.
    InputError
        `source` is a path that cannot be read.
    """
    verdict = check_submission(source, form=form, expected_keys=expected_keys)
    if verdict.table is None:
        raise SubmissionError(verdict.problems)
    return verdict.table


def check_submission(
    source: Source,
    *,
    form: SubmissionForm,
    expected_keys: Sequence[str],
    max_bytes: int | None = None,
) -> Verdict:
    """Check a submission and name everything that is wrong with it.

    Parameters
    ----------
    source : path, bytes or binary stream
        A CSV file, plain or gzip; UTF-8 with or without a byte-order mark, any line ends.
    expected_keys : sequence of str
        Each must occur exactly once, in any order.
    max_bytes : int, optional
        Of the decompressed table; a longer one is a problem, and is not read further. By default
        it follows from the expected keys.

    Raises
    ------
    InputError
        `source` is a path that cannot be read.
    """
    text = _read_text(source, max_bytes or max_table_bytes(expected_keys))
    if not isinstance(text, str):
        return text
    reader = RowReader(text, max_rows=2 * len(expected_keys) + 10_000)
    problems, notes = reader.check_header(form.columns)
    if problems:
        return Verdict(problems, notes)
    table, problems = reader.read(form.columns)
    keys, *numbers = table
    values: dict[str, NDArray[np.float64]] = {}
    for column, cells in zip(form.numbers, numbers, strict=True):
        values[column.name], faults = _check_numbers(column, cells, reader)
        problems += faults
    if keys != (expected := list(expected_keys)):
        problems += diagnose_keys(form.key, keys, expected, reader.lines)
    if problems:
        return Verdict(problems, notes)
    return Verdict([], notes, _aligned(keys, expected, values))


def _aligned(
    keys: list[str], expected: list[str], values: dict[str, NDArray[np.float64]]
) -> SubmissionTable:
    if keys == expected:
        return SubmissionTable(expected, values)
    position = {key: row for row, key in enumerate(keys)}
    order = [position[key] for key in expected]
    return SubmissionTable(expected, {name: array[order] for name, array in values.items()})


def _check_numbers(
    column: NumberColumn, cells: list[str], reader: RowReader
) -> tuple[NDArray[np.float64], list[str]]:
    try:
        # float() also takes 1_000 and other alphabets' digits, which no CSV reader agrees with.
        whole = "".join(cells)
        if not whole.isascii() or "_" in whole:
            raise ValueError
        values = np.array(list(map(float, cells)), dtype=np.float64)
    except ValueError:
        return np.empty(0), diagnose_numbers(column, cells, reader.lines)
    inside = (values > column.above) & (values <= column.at_most) & (np.abs(values) < np.inf)
    if inside.all():
        return values, []
    return values, diagnose_numbers(column, cells, reader.lines)


def _read_text(source: Source, max_bytes: int) -> str | Verdict:
    """Return the decompressed, decoded table, or the verdict that there is none."""
    try:
        data = _read_bytes(source, max_bytes)
    except (OSError, zlib.error) as error:
        return Verdict([f"the gzip file is damaged ({error}); compress it again"])
    if len(data) > max_bytes:
        size = f"{max_bytes / 2**20:,.0f} MiB" if max_bytes >= 2**20 else f"{max_bytes:,} bytes"
        return Verdict([f"the table is larger than {size}; send one row for each expected key"])
    if not data.strip():
        return Verdict(["the file is empty; write a header and one row for each expected key"])
    for magic, kind in _OTHER_TYPES.items():
        if data.startswith(magic):
            return Verdict([f"the file is {kind}, not CSV; save the table as comma-separated text"])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return Verdict([f"the file is not UTF-8 text (byte {error.start:,}); save it as UTF-8 CSV"])
    if "\0" in text:
        return Verdict(["the file holds NUL bytes, so it is not text; save the table as CSV"])
    return text


_OTHER_TYPES = {
    b"PK\x03\x04": "a ZIP archive or a spreadsheet",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet",
    b"PAR1": "a Parquet file",
    b"\x89PNG": "a PNG image",
    b"%PDF": "a PDF document",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"{": "JSON",
    b"[": "JSON",
    b"<": "HTML or XML",
}


def _read_bytes(source: Source, max_bytes: int) -> bytes:
    """Read at most one byte beyond the limit, through gzip if the content is gzip."""
    if isinstance(source, bytes):
        stream: BinaryIO = io.BytesIO(source)
    elif isinstance(source, (str, Path)):
        stream = _open(Path(source))
    else:
        stream = source
    try:
        # A table that compresses to more than its own size is none.
        data = stream.read(max_bytes + 1)
        return _unzipped(data, max_bytes) if data.startswith(b"\x1f\x8b") else data
    finally:
        if stream is not source:
            stream.close()


def _unzipped(data: bytes, max_bytes: int) -> bytes:
    """Decompress gzip up to one byte beyond the limit.

    Raises
    ------
    OSError
        It is cut short, or of many members: each costs time, and an empty one gives nothing.
    """
    parts: list[bytes] = []
    left = max_bytes + 1
    for _ in range(_MAX_GZIP_MEMBERS):
        member = zlib.decompressobj(wbits=31)
        parts.append(member.decompress(data, left))
        left -= len(parts[-1])
        data = member.unused_data.lstrip(b"\0")  # padding is allowed
        if left <= 0 or (member.eof and not data):
            return b"".join(parts)
        if not member.eof:
            raise OSError("it ends before its contents do")
    raise OSError(f"it has more than {_MAX_GZIP_MEMBERS} members")


def _open(path: Path) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; give a submission file (CSV)") from error


def read_keys(path: Path, key: str) -> list[str]:
    """Return the keys that a submission must hold: those of the sample submission.

    Raises
    ------
    InputError
        The file is missing or has no such column.
    """
    import csv

    try:
        with open(path, encoding="utf-8-sig", newline="") as handle:
            rows = csv.DictReader(handle)
            if key not in (rows.fieldnames or ()):
                raise InputError(f"{path}: has no column {key}; prepare the competition again")
            return list(dict.fromkeys(row[key] for row in rows))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read ({error}); prepare the competition") from error


def write_submission(path: Path | str, table: SubmissionTable, *, form: SubmissionForm) -> None:
    """Write a submission as CSV, whole or not at all, every number at full precision."""
    columns = [table.values[column.name].tolist() for column in form.numbers]
    with atomic_write(path) as handle:
        handle.write(",".join(form.columns) + "\n")
        for key, *numbers in zip(table.keys, *columns, strict=True):
            handle.write(",".join([key, *map(repr, numbers)]) + "\n")
