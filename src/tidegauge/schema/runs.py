"""Run records: one JSON object a line, METR's column names.

The reader makes one pass, holds one line at a time, and collects every fault as
``file:line: field=value: what is wrong; what to do`` before it raises them together.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO, cast

import msgspec

from tidegauge.errors import SHOWN_PROBLEMS, InputError, RunFileError
from tidegauge.io import append_lines, atomic_write_bytes, open_binary
from tidegauge.schema.faults import HUMAN as HUMAN
from tidegauge.schema.faults import (
    TOO_LARGE,
    has_control_character,
    is_unicode,
    row_faults,
    show_value,
)

MILLISECONDS_PER_MINUTE = 60_000
MAX_LINE_BYTES = 1 << 20  # a record is a few hundred bytes; a longer line is another kind of file


# Checked while decoding, where it costs nothing.
_Name = Annotated[str, msgspec.Meta(min_length=1)]
_Minutes = Annotated[float, msgspec.Meta(gt=0, lt=TOO_LARGE)]
_Score = Annotated[float, msgspec.Meta(gt=-TOO_LARGE, lt=TOO_LARGE)]


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run of one agent, or of a human, at one task.

    Times are Unix milliseconds (HCAST human runs: 0 and the duration). Fields after
    `human_source` may be missing. Columns that METR's format does not name are in `unknown` when
    the reader was asked to keep them, and are written back.
    """

    task_id: _Name
    task_family: _Name
    alias: _Name
    score_binarized: float
    human_minutes: _Minutes
    human_source: _Name
    run_id: Any = None
    started_at: Any = None
    completed_at: Any = None
    task_source: str | None = None
    score_cont: _Score | None = None
    score: _Score | None = None  # what files before TH1.1 call score_cont
    model: Any = None
    fatal_error_from: Any = None
    human_score: Any = None
    generation_cost: Any = None
    human_cost: Any = None
    time_limit: Any = None
    task_version: Any = None
    tokens_count: Any = None
    cloned: Any = None
    scaffold: Any = None
    equal_task_weight: Any = None
    invsqrt_task_weight: Any = None
    unknown: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def duration_minutes(self) -> float:
        """How long the run took; the one rule for HCAST and SWAA."""
        return float(self.completed_at - self.started_at) / MILLISECONDS_PER_MINUTE


KNOWN_FIELDS = frozenset(RunRecord.__struct_fields__) - {"unknown"}
METR_COLUMNS = tuple(
    name for name in RunRecord.__struct_fields__ if name not in ("score", "unknown")
)
_BACKSLASH = ord("\\")  # the search for a single byte is almost free, and few lines have it
_decode = msgspec.json.Decoder(RunRecord, strict=True).decode
_decode_any = msgspec.json.Decoder().decode


class RecordSource(ABC):
    """Iterate over the valid records of some input; `raise_problems` when done.

    Attributes
    ----------
    name : str
        What faults call the input.
    line : int
        Number of the line or row last read, from 1.
    sha256 : hash
        Of what was read so far.
    n_rows : int
        Records yielded so far.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.line = 0
        self.n_rows = 0
        self.sha256 = hashlib.sha256()
        self._problems: list[str] = []
        self._n_problems = 0

    @abstractmethod
    def __iter__(self) -> Iterator[RunRecord]:
        """Yield the valid records, and report the faults of the others."""

    @property
    def where(self) -> str:
        """The place last read, as faults name it."""
        return f"{self.name}:{self.line}"

    def report(self, problem: str) -> None:
        """Add a fault of the current line, as ``field=value: what; what to do``."""
        self._n_problems += 1
        if len(self._problems) < SHOWN_PROBLEMS:
            self._problems.append(f"{self.where}: {problem}")

    def raise_problems(self) -> None:
        """Raise what was found.

        Raises
        ------
        RunFileError
            At least one line is faulty, or there is no record at all.
        """
        if not self._n_problems and not self.n_rows:
            self.line = 1
            self.report(self._nothing_read)
        if self._n_problems:
            raise RunFileError(self._problems, self._n_problems)

    _nothing_read = "no run record in this file; one JSON object a line is expected"

    def _sound_row(self, row: Mapping[str, Any], *, keep_unknown: bool) -> RunRecord | None:
        """Report every fault of a row, or return its record."""
        if not is_unicode(row):
            self.report("half of a surrogate pair (\\ud800 to \\udfff): write the whole character")
            return None
        problems = list(row_faults(row))
        for problem in problems:
            self.report(problem)
        return None if problems else _convert(row, keep_unknown=keep_unknown)


class RowReader(RecordSource):
    """The records of rows that are already in memory, such as those of a data frame.

    Parameters
    ----------
    rows : iterable of mapping
        Field to value; None and NaN are values that are not there.
    keep_unknown : bool
        Keep columns that METR's format does not name.
    """

    _nothing_read = "no run record in this table; one row a run is expected"

    def __init__(
        self, rows: Iterable[Mapping[str, Any]], *, name: str = "table", keep_unknown: bool = False
    ) -> None:
        super().__init__(name)
        self._rows = rows
        self._keep_unknown = keep_unknown

    @property
    def where(self) -> str:
        """The row last read."""
        return f"{self.name}, row {self.line}"

    def __iter__(self) -> Iterator[RunRecord]:
        for given in self._rows:
            self.line += 1
            row = {str(name): value for name, value in given.items() if _is_there(value)}
            self.sha256.update(json.dumps(row, default=str).encode() + b"\n")
            record = self._sound_row(row, keep_unknown=self._keep_unknown)
            if record is not None:
                self.n_rows += 1
                yield record


class RunReader(RecordSource):
    """The records of a file, one line at a time.

    Parameters
    ----------
    source : path or ``-``
        Plain or gzip; ``-`` reads stdin.
    keep_unknown : bool
        Keep columns that METR's format does not name, for a round trip.
    """

    def __init__(self, source: Path | str, *, keep_unknown: bool = False) -> None:
        super().__init__("<stdin>" if str(source) == "-" else str(source))
        self._source = source
        self._keep_unknown = keep_unknown

    def __iter__(self) -> Iterator[RunRecord]:
        for raw in self._lines():
            try:
                record = _decode(raw)
                # JSON itself allows control characters only as escapes, or beyond ASCII.
                plain = _BACKSLASH not in raw and raw.isascii()
                if _is_sound(record) and (plain or _has_clean_names(record)):
                    if self._keep_unknown:
                        record = _with_unknown(record, _decode_any(raw))
                    self.n_rows += 1
                    yield record
                    continue
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                pass
            explained = self._explain(raw)  # the slow path: what exactly is wrong, if anything is
            if explained is not None:
                self.n_rows += 1
                yield explained

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines that could be records; refuse the rest without holding them."""
        stream = open_binary(self._source)
        try:
            while raw := stream.readline(MAX_LINE_BYTES + 1):
                self.line += 1
                self.sha256.update(raw)
                if self.line == 1:
                    raw = raw.removeprefix(b"\xef\xbb\xbf")
                    if not self._is_record_file(raw):
                        return
                if len(raw) > MAX_LINE_BYTES:
                    self.report(
                        f"line of more than {MAX_LINE_BYTES // 1024:,} KiB: not a run record; "
                        "write one JSON object a line"
                    )
                    while not raw.endswith(b"\n") and (raw := stream.readline(MAX_LINE_BYTES)):
                        self.sha256.update(raw)
                elif raw and not raw.isspace():
                    yield raw
        except (EOFError, OSError, zlib.error) as error:  # gzip: cut short, or damaged
            self.line += 1
            self.report(f"cannot be read further ({error}); copy the file again")
        finally:
            if self.name != "<stdin>":
                stream.close()

    def _is_record_file(self, first: bytes) -> bool:
        if b"\x00" in first:
            self.report("binary data: not a text file of JSON lines; check which file this is")
        elif first.lstrip().startswith(b"["):
            self.report(
                "a JSON array: one JSON object a line is expected; convert it with: jq -c '.[]'"
            )
        else:
            return True
        return False

    def _explain(self, raw: bytes) -> RunRecord | None:
        """Report every fault of a line, or return its record where only optional values are odd."""
        try:
            row = json.loads(raw)
        except (ValueError, RecursionError) as error:
            if not raw.endswith(b"\n") and raw.lstrip().startswith(b"{"):
                self.report("truncated: the last line ends before its JSON does; copy it again")
            elif isinstance(error, UnicodeDecodeError):
                self.report("binary data or not UTF-8: save the file as UTF-8 text")
            else:
                text = show_value(raw.decode(errors="replace").strip())
                self.report(f"not JSON ({error}): {text}; write one JSON object a line")
            return None
        if not isinstance(row, dict):
            self.report(f"{show_value(row)}: not a JSON object; write one object a line")
            return None
        return self._sound_row(row, keep_unknown=self._keep_unknown)


def read_runs(source: Path | str, *, keep_unknown: bool = True) -> Iterator[RunRecord]:
    """Yield the records of a file, one line at a time.

    Raises
    ------
    RunFileError
        After the last line, if any was faulty: all are counted, the first twenty are shown.
    """
    reader = RunReader(source, keep_unknown=keep_unknown)
    yield from reader
    reader.raise_problems()


def encode_run(record: RunRecord, *, whole: bool = False) -> bytes:
    """Return the record as one line of JSON without its newline; whole numbers stay whole.

    With `whole` every column of METR's format is there, null where the record has none.
    """
    row = msgspec.to_builtins(record)
    if whole:
        row = {name: row.get(name) for name in METR_COLUMNS} | row
    unknown = row.pop("unknown", {})
    for name, value in row.items():
        if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
            row[name] = int(value)
    return msgspec.json.encode({**row, **unknown})


def append_run(path: Path | str, record: RunRecord) -> bool:
    """Append one record; see `append_runs`. Return whether it was not there before."""
    return append_runs(path, [record]) == 1


def append_runs(path: Path | str, records: Sequence[RunRecord]) -> int:
    """Append records as whole lines, all or none, and return how many.

    Records whose run_id the file holds already are left out, so that an import or a recovery can
    be repeated. Safe beside other writers.

    Raises
    ------
    RunFileError
        A record itself could not be read back.
    InputError
        The file cannot be appended to; it is as it was.
    """
    if str(path).endswith(".gz"):
        raise InputError(f"{path}: lines cannot be appended to gzip; append to a plain file")
    problems = [f"{path}: {problem}" for record in records for problem in _record_faults(record)]
    if problems:
        raise RunFileError(problems)

    def new_lines(held: BinaryIO) -> list[str]:
        known = _run_ids(held)
        return [
            encode_run(r).decode() for r in records if r.run_id is None or r.run_id not in known
        ]

    return append_lines(path, new_lines)


def _record_faults(record: RunRecord) -> Iterator[str]:
    try:
        line = encode_run(record)
    except (ValueError, OverflowError) as error:  # half a surrogate pair, an absurd integer
        yield f"run {record.run_id!r} cannot be written as JSON ({error}); correct it"
    else:
        yield from row_faults(msgspec.json.decode(line))


class _RunId(msgspec.Struct):
    run_id: Any = None


_decode_run_id = msgspec.json.Decoder(_RunId).decode


def _run_ids(lines: BinaryIO) -> set[Any]:
    found = set()
    for line in lines:
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            found.add(_decode_run_id(line).run_id)  # TypeError: a list or an object
    return found


def write_runs(path: Path | str, records: Iterable[RunRecord], *, whole: bool = False) -> int:
    """Write a file of records atomically (gzip by its name) and return how many.

    With `whole` every row has every column of METR's format.
    """
    count = 0
    with contextlib.ExitStack() as stack:
        handle = stack.enter_context(atomic_write_bytes(path))
        if str(path).endswith(".gz"):
            # No name and no time inside: the same records give the same bytes.
            zipped = gzip.GzipFile(filename="", mode="wb", fileobj=handle, mtime=0)
            handle = cast(BinaryIO, stack.enter_context(zipped))
        for record in records:
            handle.write(encode_run(record, whole=whole) + b"\n")
            count += 1
    return count


def _has_clean_names(record: RunRecord) -> bool:
    names = (record.task_id, record.task_family, record.alias, record.human_source)
    return not any(map(has_control_character, names))


def _is_sound(record: RunRecord) -> bool:
    """Check what decoding could not; the slow path finds which value is wrong."""
    score = record.score_binarized
    if score != 0 and score != 1:
        return False
    if record.alias != HUMAN:
        return True
    began, ended = record.started_at, record.completed_at
    # bool is an int to Python, but no time; an exact type check is also the fastest.
    return (
        type(began) in (int, float)
        and type(ended) in (int, float)
        and -TOO_LARGE < began <= ended < TOO_LARGE
    )


def _is_there(value: Any) -> bool:
    return value is not None and value == value  # NaN is how tables write nothing


def _convert(row: Mapping[str, Any], *, keep_unknown: bool) -> RunRecord:
    """Build the record of a sound row whose optional fields JSON proper does not allow (NaN)."""
    known = {name: value for name, value in row.items() if name in KNOWN_FIELDS}
    known = {name: None if value != value else value for name, value in known.items()}
    for name in ("score_binarized", "human_minutes", "score_cont", "score"):
        if known.get(name) is not None:
            known[name] = float(known[name])
    record = RunRecord(**known)
    return _with_unknown(record, row) if keep_unknown else record


def _with_unknown(record: RunRecord, row: Mapping[str, Any]) -> RunRecord:
    unknown = {name: value for name, value in row.items() if name not in KNOWN_FIELDS}
    return msgspec.structs.replace(record, unknown=unknown) if unknown else record
