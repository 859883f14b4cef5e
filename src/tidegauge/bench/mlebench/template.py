"""What the sample submission alone says of a submission: rows, columns, numbers.

A template never sees the answers. What it finds is not a verdict: graders differ in what they
accept, and `profile` holds how each of them was seen to decide.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.bench.mlebench.facts import facts_of
from tidegauge.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

MIN_BYTES = 64 * 2**20
_SHOWN = 3
_INTEGER = re.compile(r"\s*[+-]?\d+\s*")
_FLOAT = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One way in which a submission differs from the sample.

    Attributes
    ----------
    kind : str
        ``missing``, ``unknown`` and ``repeated`` rows, ``fewer`` of a repeated key; ``column``,
        ``extra_column``, ``column_order``; ``text``, ``infinite``, ``empty`` cells; ``row_order``;
        ``unreadable``.
    """

    kind: str
    text: str


ROW_KINDS = ("missing", "fewer", "unknown", "repeated")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything in which a submission differs from the sample, and how many rows it has."""

    findings: list[Finding]
    n_rows: int = 0
    n_expected: int = 0

    @property
    def row_faults(self) -> str:
        """The faults of its rows in short, such as ``missing<``: rows are missing, and fewer.

        Graders that compare sets, lengths or nothing tell these apart.
        """
        if self.n_rows == 0 and self.n_expected > 0:
            return "no rows"
        length = "<=>"[(self.n_rows >= self.n_expected) + (self.n_rows > self.n_expected)]
        kinds = sorted(self.kinds & set(ROW_KINDS))
        return "+".join(kinds) + length if kinds else ""

    def of(self, *kinds: str) -> list[Finding]:
        """Return the findings of some kinds."""
        return [finding for finding in self.findings if finding.kind in kinds]

    @property
    def kinds(self) -> set[str]:
        """The kinds of all findings."""
        return {finding.kind for finding in self.findings}


@dataclass(frozen=True)
class Template:
    """A sample submission.

    Attributes
    ----------
    key : tuple of str
        The columns that name a row.
    targets : tuple of str
        The columns to be predicted.
    max_bytes : int
        How large a submission may be.
    """

    sample: pd.DataFrame
    key: tuple[str, ...]
    targets: tuple[str, ...]
    max_bytes: int

    @property
    def n_rows(self) -> int:
        """How many rows the sample has."""
        return len(self.sample)

    @cached_property
    def _has_numeric_keys(self) -> tuple[bool, ...]:
        return tuple(all(map(_is_number, self.sample[name])) for name in self.key)

    @cached_property
    def _numbers(self) -> list[str]:
        """The target columns that hold numbers in every row of the sample."""
        return [name for name in self.targets if all(map(_is_number, self.sample[name]))]

    @cached_property
    def _expected(self) -> list[Key]:
        return self._keys(self.sample)

    def _keys(self, table: pd.DataFrame) -> list[Key]:
        """Return the rows' keys as pandas would compare them: 0300 equals 300 and 300.0."""
        columns = [
            [_number(cell) for cell in table[name]] if is_numeric else list(table[name])
            for name, is_numeric in zip(self.key, self._has_numeric_keys, strict=True)
        ]
        return list(zip(*columns, strict=True))

    def compare(self, data: bytes) -> Comparison:
        """Return every difference between a submission and the sample."""
        try:
            table = read_text_table(data)
        except ValueError as error:
            text = f"the file cannot be read as CSV ({_one_line(error)})"
            return Comparison([Finding("unreadable", text)])
        found = self._compare_columns(list(map(str, table.columns)))
        if all(name in table.columns for name in self.key):
            found += self._compare_rows(table)
        for name in self.targets:
            if name in table.columns:
                found += self._compare_cells(name, table)
        return Comparison(found, len(table), self.n_rows)

    def _compare_columns(self, columns: list[str]) -> list[Finding]:
        expected = list(map(str, self.sample.columns))
        found = [
            Finding("column", f"the column {name} of the sample is missing")
            for name in expected
            if name not in columns
        ]
        if extra := [name for name in columns if name not in expected]:
            found.append(Finding("extra_column", f"columns that the sample lacks: {_some(extra)}"))
        if not found and columns != expected:
            found.append(Finding("column_order", "the columns are in another order"))
        return found

    def _compare_rows(self, table: pd.DataFrame) -> list[Finding]:
        keys = list(self.key)
        if table[keys].equals(self.sample[keys]):
            return []
        given, expected = self._keys(table), self._expected
        if given == expected:
            return []
        counts, wanted = Counter(given), Counter(expected)
        missing = [key for key in wanted if key not in counts]
        fewer = [key for key in wanted if 0 < counts[key] < wanted[key]]
        unknown = [key for key in counts if key not in wanted]
        repeated = [key for key in wanted if counts[key] > wanted[key]]
        name = " + ".join(self.key)
        found = [
            Finding(kind, f"{len(rows):,} {words} ({name} {_some(sorted(map(_shown, rows)))})")
            for kind, words, rows in (
                ("missing", "rows of the sample are missing", missing),
                ("fewer", "keys of the sample occur too rarely", fewer),
                ("unknown", "rows are not in the sample", unknown),
                ("repeated", "rows occur too often", repeated),
            )
            if rows
        ]
        return found or [Finding("row_order", "the rows are in another order than the sample's")]

    def _compare_cells(self, name: str, table: pd.DataFrame) -> list[Finding]:
        cells = table[name]
        empty = (cells == "").to_numpy()
        found = []
        if empty.any() and not (self.sample[name] == "").all():
            found.append(Finding("empty", f"{name}: {empty.sum():,} cells are empty"))
        if name in self._numbers:
            odd = [cell for cell in cells[~empty] if not _is_number(cell)]
            infinite = [cell for cell in odd if cell.strip().lower().lstrip("+-")[:3] == "inf"]
            words = [cell for cell in odd if cell not in infinite]
            if infinite:
                found.append(Finding("infinite", f"{name}: {len(infinite):,} infinite numbers"))
            if words:
                text = f"{name}: {len(words):,} cells are no numbers ({_some(words)})"
                found.append(Finding("text", text))
        return found


def read_template(sample: Path, competition_id: str) -> Template:
    """Read a sample submission.

    Raises
    ------
    InputError
        It cannot be read.
    """
    try:
        data = sample.read_bytes()
        table = read_text_table(data)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{sample}: cannot be read as the sample submission ({_one_line(error)}); "
            "prepare the competition again"
        ) from error
    if not len(table.columns):
        raise InputError(f"{sample}: is empty; prepare the competition again")
    key = _find_key(table, competition_id)
    rest = [str(name) for name in table.columns if name not in key]
    known = facts_of(competition_id)
    named = known.targets.split(", ") if known else []
    targets = named if named and all(name in rest for name in named) else rest
    return Template(table, key, tuple(targets), max(MIN_BYTES, 8 * len(data)))


def _find_key(table: pd.DataFrame, competition_id: str) -> tuple[str, ...]:
    """Return the known key, or the first named column without repeated values."""
    known = facts_of(competition_id)
    if known and all(name in table.columns for name in known.key):
        return known.key
    for name in table.columns:
        if not str(name).startswith("Unnamed:") and table[name].is_unique:
            return (str(name),)
    return (str(table.columns[0]),)


def read_text_table(data: bytes) -> pd.DataFrame:
    """Read a CSV file as text, with the header and the index that pandas sees.

    Raises
    ------
    ValueError
        pandas cannot read it.
    """
    import pandas as pd

    if not data:
        return pd.DataFrame()
    if data.startswith((b"\x1f\x8b", b"PK\x03\x04")):
        raise ValueError("it is compressed")
    try:
        return pd.read_csv(io.BytesIO(data), dtype=str, na_filter=False)
    except (ValueError, OverflowError, MemoryError) as error:  # pandas' own are ValueErrors
        raise ValueError(_one_line(error)) from None


def _is_number(cell: object) -> bool:
    return isinstance(cell, str) and _FLOAT.fullmatch(cell) is not None


def _number(cell: str) -> object:
    """Return the number that a cell holds, or its text; long integers stay exact."""
    if _INTEGER.fullmatch(cell):
        return int(cell)
    return float(cell) if _FLOAT.fullmatch(cell) else cell


def _shown(key: Key) -> str:
    return " + ".join(str(part) for part in key)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(" ".join(name.split())[:60] for name in names[:_SHOWN])
    return f"{shown}, ..." if len(names) > _SHOWN else shown


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
