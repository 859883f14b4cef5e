"""Rows of a submission: reading them with their line numbers, and saying what is wrong."""

from __future__ import annotations

import contextlib
import csv
import io
import math
from collections.abc import Iterable, Sequence
from itertools import islice, repeat
from typing import Protocol

EXAMPLES = 3  # rows shown for each kind of problem
MAX_COLUMNS = 1_000  # beyond, cells outnumber what the bytes of the table would suggest
_MISSING = {"", "nan", "na", "n/a", "null", "none", "<na>", "#n/a", "-nan"}


class Limits(Protocol):
    """What `diagnose_numbers` needs to know of a column."""

    @property
    def name(self) -> str:
        """The column's name."""

    @property
    def above(self) -> float:
        """The lower limit, itself not permitted."""

    @property
    def at_most(self) -> float:
        """The upper limit, itself permitted."""

    def limits(self) -> str:
        """Both limits in words."""


class RowReader:
    """The rows of a CSV text: first `check_header`, then `read`.

    Valid files pass without a line number being counted: `lines` makes a second pass, and only
    the description of a fault asks for it.
    """

    def __init__(self, text: str, *, max_rows: int) -> None:
        self._text = text
        self._reader = csv.reader(self._stream(), strict=True)
        self._max_rows = max_rows
        self._header: list[str] = []

    def _stream(self) -> io.TextIOWrapper:
        # Not StringIO, which takes four bytes for every character.
        return io.TextIOWrapper(io.BytesIO(self._text.encode()), encoding="utf-8", newline="")

    def check_header(self, columns: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the problems and the notes of the first line."""
        try:
            self._header = next(filter(None, self._reader), [])
        except csv.Error as error:
            return [f"line {self._reader.line_num} is not CSV ({error})"], []
        found = self._header
        if len(found) > MAX_COLUMNS:
            return [f"the first line holds {len(found):,} columns; send {', '.join(columns)}"], []
        missing = [name for name in columns if name not in found]
        repeated = sorted({name for name in columns if found.count(name) > 1})
        problems = [f"column {name} occurs more than once" for name in repeated]
        if missing:
            problems.append(
                f"missing column{'s' * (len(missing) > 1)} {', '.join(missing)} "
                f"(the first line holds {', '.join(map(_clip, islice(found, 8)))}"
                f"{_separator_hint(found)}); the columns must be {', '.join(columns)}"
            )
        extra = [name for name in found if name not in columns]
        notes = [f"extra columns ignored: {', '.join(map(_clip, extra[:8]))}"] if extra else []
        return problems, notes

    def read(self, columns: Sequence[str]) -> tuple[list[list[str]], list[str]]:
        """Return the named columns of the whole rows, and the problems of the others."""
        if (plain := self._read_plain(columns)) is not None:
            return plain, []
        problems: list[str] = []
        rows: list[list[str]] = []
        try:
            rows.extend(islice(self._reader, self._max_rows + 1))
        except csv.Error as error:
            problems.append(f"line {self._reader.line_num} is not CSV ({error})")
        if len(rows) > self._max_rows:
            problems.append(f"more than {self._max_rows:,} rows; the rest was not read")
        width = len(self._header)
        if rows and set(map(len, rows)) != {width}:
            problems += self._ragged(width)
            rows = [row for row in rows if len(row) == width]
        if not rows and not problems:
            problems.append("there is a header but no row")
        return [[row[i] for row in rows] for i in map(self._header.index, columns)], problems

    def _read_plain(self, columns: Sequence[str]) -> list[list[str]] | None:
        """Split a table without quotes, blank lines or ragged rows; None if it has any.

        Most tables are such, and need a third of the time that the CSV reader takes.
        """
        if '"' in self._text or "\r" in self._text or self._reader.line_num != 1:
            return None
        if self._text.count("\n") > self._max_rows + 1:
            return None  # millions of lines: the reader stops early, a split would not
        rows = self._text.removesuffix("\n").split("\n")[1:]
        width = len(self._header)
        if not rows or max(map(len, rows)) > csv.field_size_limit():
            return None
        if set(map(str.count, rows, repeat(","))) != {width - 1}:
            return None
        cells = ",".join(rows).split(",")
        return [cells[self._header.index(name) :: width] for name in columns]

    def _ragged(self, width: int) -> list[str]:
        ragged = [
            f"line {line} has {len(row)}" for line, row in self._numbered() if len(row) != width
        ]
        if not ragged:  # blank lines only: no fault
            return []
        return [f"{_rows(len(ragged))} without exactly {width} fields ({_examples(ragged)})"]

    @property
    def lines(self) -> list[int]:
        """The line on which each row that `read` returned ends."""
        return [line for line, row in self._numbered() if len(row) == len(self._header)]

    def _numbered(self) -> list[tuple[int, list[str]]]:
        reader = csv.reader(self._stream(), strict=True)
        next(filter(None, reader))
        found: list[tuple[int, list[str]]] = []
        with contextlib.suppress(csv.Error):  # `read` has named it
            for row in islice(reader, self._max_rows + 1):
                if row:
                    found.append((reader.line_num, row))
        return found


def diagnose_numbers(column: Limits, cells: Sequence[str], lines: Sequence[int]) -> list[str]:
    """Say which cells of a number column are missing, not numbers, infinite or out of range."""
    kinds: dict[str, list[str]] = {}
    for line, cell in zip(lines, cells, strict=True):
        if (kind := _fault(column, cell)) is not None:
            kinds.setdefault(kind, []).append(f"line {line}: {_clip(cell)!r}")
    return [
        f"{column.name} {kind} in {_rows(len(where))} ({_examples(where)})"
        for kind, where in kinds.items()
    ]


def _fault(column: Limits, cell: str) -> str | None:
    bare = cell.strip()
    if bare.lower() in _MISSING:
        return "is missing (NaN)"
    try:
        if not bare.isascii() or "_" in bare:
            raise ValueError
        value = float(bare)
    except ValueError:
        return "is not a number"
    if math.isnan(value):
        return "is missing (NaN)"
    if math.isinf(value):
        return "is infinite"
    if not column.above < value <= column.at_most:
        return f"is not {column.limits()}"
    return None


def diagnose_keys(
    key: str, found: Sequence[str], expected: Sequence[str], lines: Sequence[int]
) -> list[str]:
    """Say which keys are missing, unknown or repeated; none of these if only the order differs."""
    first: dict[str, int] = {}
    repeated = []
    for line, name in zip(lines, found, strict=True):
        if name in first:
            repeated.append(f"line {line} repeats {_clip(name)!r} of line {first[name]}")
        else:
            first[name] = line
    wanted = set(expected)
    unknown = [
        f"line {line}: {_clip(name)!r}" for name, line in first.items() if name not in wanted
    ]
    missing = [repr(name) for name in expected if name not in first]
    problems = []
    if missing:
        problems.append(f"{_rows(len(missing))} missing by {key} ({_examples(missing)})")
    if unknown:
        problems.append(f"{_rows(len(unknown))} with an unknown {key} ({_examples(unknown)})")
    if repeated:
        problems.append(f"{_rows(len(repeated))} with a duplicate {key} ({_examples(repeated)})")
    return problems


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"


def _examples(items: Iterable[str]) -> str:
    shown = list(islice(items, EXAMPLES + 1))
    return ", ".join(shown[:EXAMPLES]) + (", ..." if len(shown) > EXAMPLES else "")


def _clip(text: str, width: int = 60) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _separator_hint(header: Sequence[str]) -> str:
    if len(header) == 1:
        for separator, name in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
            if separator in header[0]:
                return f": separated by {name}, use commas"
    return ""
