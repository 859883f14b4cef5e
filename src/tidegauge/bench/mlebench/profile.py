"""How strict a grader is, measured: what it says of a perfect submission and of spoiled copies."""

from __future__ import annotations

import csv
import io
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tidegauge.bench.mlebench.client import Graded, Worker
from tidegauge.bench.mlebench.template import Comparison, Template

_SPOILED_COLUMNS = 20  # of wide tables the first are enough
_FOREIGN = "987654321"  # a key that no competition has, whether its keys are numbers or text
Rows = list[list[str]]
# The copies that tell how faults of cells and columns are taken.
_PROBES_OF_CELLS = {
    "empty": "empty_cell",
    "text": "text",
    "infinite": "infinite",
    "extra_column": "extra_column",
    "column_order": "columns_reversed",
}


class Probe(msgspec.Struct, frozen=True):
    """What a grader did with one spoiled copy.

    Attributes
    ----------
    accepts : bool
        It returned a finite score.
    same_score : bool
        That of the perfect submission.
    error : str or None
        The type of what it raised.
    rows : str
        The faults of its rows, in short.
    """

    accepts: bool
    same_score: bool = False
    error: str | None = None
    rows: str = ""


class Profile(msgspec.Struct, frozen=True):
    """A grader's answers to all spoiled copies, and to the perfect submission and the sample.

    Attributes
    ----------
    gold, sample : Probe
        Without both accepted, the environment or the data is broken.
    seconds : float
        How long the sample's grading took.
    """

    gold: Probe
    sample: Probe
    gold_score: float | None
    sample_score: float | None
    seconds: float
    probes: dict[str, Probe] = {}

    def accepts(self, *names: str) -> bool:
        """Whether every one of these copies was scored; those that could not be made count too."""
        return all(self.probes[name].accepts for name in names if name in self.probes)

    @property
    def row_order_matters(self) -> bool:
        """Whether shuffled rows are scored otherwise."""
        probe = self.probes.get("shuffled")
        return probe is not None and not (probe.accepts and probe.same_score)

    @property
    def column_order_matters(self) -> bool:
        """Whether columns in another order are scored otherwise."""
        probe = self.probes.get("columns_reversed")
        return probe is not None and not (probe.accepts and probe.same_score)

    @property
    def pairs_by_position(self) -> bool:
        """Whether ids are not read at all."""
        return self.accepts("id_replaced", "ids_replaced") and self.row_order_matters

    def accepts_rows(self, faults: str) -> bool:
        """Whether the grader scores a submission with these faults of its rows, as measured.

        The grader itself is not asked about them: its answer could tell which rows are scored. A
        fault counts as accepted if it was in every copy that had it; of one that no copy had,
        every copy with a part of it decides.
        """
        if not faults:
            return True
        alike = [probe for probe in self.probes.values() if probe.rows == faults]
        if not alike:
            kinds = set(_kinds_of(faults))
            alike = [p for p in self.probes.values() if p.rows and kinds & set(_kinds_of(p.rows))]
        return bool(alike) and all(probe.accepts for probe in alike)

    def accepts_cells(self, found: Comparison) -> bool:
        """Whether the grader scores these faults of columns and cells, as measured."""
        wanted = [_PROBES_OF_CELLS[kind] for kind in found.kinds if kind in _PROBES_OF_CELLS]
        return self.accepts(*wanted) and not found.of("column", "unreadable")


def _kinds_of(faults: str) -> list[str]:
    return faults.rstrip("<=>").split("+")


@dataclass
class Spoiler:
    """A submission whose copies can be spoiled, cell by cell as text."""

    header: list[str]
    rows: Rows
    key: tuple[str, ...]
    targets: tuple[str, ...]
    _random: random.Random = field(default_factory=lambda: random.Random(0))

    def copies(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name and the bytes of every spoiled copy that can be made."""
        for name, make in self._makers().items():
            try:
                yield name, make()
            except (IndexError, ValueError):
                continue  # too few rows, or no such column
        for name in self.header[:_SPOILED_COLUMNS]:
            yield f"without:{name}", self._without(name)

    def _makers(self) -> dict[str, Callable[[], bytes]]:
        header, rows = self.header, self.rows
        return {
            "shuffled": lambda: to_csv(header, self._shuffled()),
            "columns_reversed": lambda: to_csv(header[::-1], [row[::-1] for row in rows]),
            "extra_column": lambda: to_csv([*header, "extra"], [[*row, "1"] for row in rows]),
            "last_row_missing": lambda: to_csv(header, rows[:-1]),
            "half_missing": lambda: to_csv(header, rows[: len(rows) // 2]),
            "header_alone": lambda: to_csv(header, []),
            "no_bytes": lambda: b"",
            "first_row_twice": lambda: to_csv(header, [*rows, rows[0]]),
            "last_row_twice": lambda: to_csv(header, [*rows, rows[-1]]),
            "row_added": lambda: to_csv(header, [*rows, self._foreign(rows[-1])]),
            "id_replaced": lambda: to_csv(header, [*rows[:-1], self._foreign(rows[-1])]),
            "ids_replaced": lambda: to_csv(
                header, [self._foreign(row, n) for n, row in enumerate(rows)]
            ),
            "id_twice": lambda: to_csv(header, [self._keyed_as(rows[0], rows[-1]), *rows[1:]]),
            "ids_twice": lambda: to_csv(
                header, [self._keyed_as(row, rows[n - n % 2]) for n, row in enumerate(rows)]
            ),
            "empty_cell": lambda: self._with_cell(""),
            "text": lambda: self._with_cell("zebra"),
            "infinite": lambda: self._with_cell("inf"),
            "huge": lambda: self._with_cell("1e9"),
            "negative": lambda: self._with_cell("-5"),
            "float_ids": lambda: to_csv(header, [self._with_float_id(row) for row in rows]),
        }

    def _shuffled(self) -> Rows:
        return self._random.sample(self.rows, len(self.rows))

    def _places(self) -> list[int]:
        return [self.header.index(name) for name in self.key]

    def _foreign(self, row: list[str], number: int = 0) -> list[str]:
        """Return a row of a key that does not exist."""
        row = list(row)
        row[self._places()[-1]] = f"{_FOREIGN}{number}"
        return row

    def _keyed_as(self, row: list[str], other: list[str]) -> list[str]:
        row = list(row)
        for place in self._places():
            row[place] = other[place]
        return row

    def _with_float_id(self, row: list[str]) -> list[str]:
        row, place = list(row), self._places()[0]
        row[place] = f"{int(row[place])}.0"
        return row

    def _with_cell(self, text: str) -> bytes:
        place = next(self.header.index(n) for n in self.targets if n in self.header)
        first = list(self.rows[0])
        first[place] = text
        return to_csv(self.header, [first, *self.rows[1:]])

    def _without(self, name: str) -> bytes:
        place = self.header.index(name)
        header, *rows = ([*row[:place], *row[place + 1 :]] for row in [self.header, *self.rows])
        return to_csv(header, rows)


def make_spoiler(gold: bytes, template: Template) -> Spoiler:
    """Return what spoils copies of a perfect submission."""
    header, rows = rows_of(gold)
    return Spoiler(header, rows, template.key, template.targets)


def measure(worker: Worker, gold: Path, sample: Path, template: Template) -> Profile:
    """Grade the perfect submission, the sample and the spoiled copies."""
    perfect, first = gold.read_bytes(), worker.try_grade(sample.read_bytes())
    worker.seconds = patience_seconds(first.seconds)
    graded = worker.try_grade(perfect)
    profile = Profile(
        gold=probe_of(graded, graded.score),
        sample=probe_of(first, graded.score),
        gold_score=_finite(graded.score),
        sample_score=_finite(first.score),
        seconds=first.seconds,
    )
    if not profile.gold.accepts:
        return profile
    copies = make_spoiler(perfect, template).copies()
    probes = {
        name: probe_of(worker.try_grade(data), graded.score, template.compare(data).row_faults)
        for name, data in copies
    }
    return msgspec.structs.replace(profile, probes=probes)


def patience_seconds(sample_seconds: float) -> float:
    """Return how long a grading may take, from how long the sample's took."""
    return 10 + 20 * sample_seconds


def probe_of(graded: Graded, perfect: float | None = None, rows: str = "") -> Probe:
    """Return what a grading shows, beside the score of the perfect submission."""
    accepts = graded.score is not None and math.isfinite(graded.score)
    error = None if graded.fault is None else graded.fault.type
    return Probe(accepts, accepts and graded.score == perfect, error, rows)


def _finite(score: float | None) -> float | None:
    return score if score is not None and math.isfinite(score) else None


def rows_of(data: bytes) -> tuple[list[str], Rows]:
    """Return the header and the rows of a CSV file, as text."""
    csv.field_size_limit(2**31 - 1)  # a mask may be long
    reader = csv.reader(io.StringIO(data.decode("utf-8-sig", errors="replace"), newline=""))
    rows = [row for row in reader if row]
    return (rows[0], rows[1:]) if rows else ([], [])


def to_csv(header: list[str], rows: Rows) -> bytes:
    """Write a CSV file."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue().encode()
