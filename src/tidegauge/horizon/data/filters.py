"""Leave rows out while they are read: ``FIELD=VALUE`` on any field of the run record."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from tidegauge.errors import InputError, did_you_mean
from tidegauge.schema.faults import HUMAN
from tidegauge.schema.runs import KNOWN_FIELDS, RecordSource, RunRecord

# They tell agents apart: a choice among agents is no reason to lose the human times.
AGENT_FIELDS = frozenset({"alias", "model", "scaffold"})
_SHOWN_FIELDS = 60
_KEPT_VALUES = 10_000
_FORM = re.compile(r"\s*([^=<>~!\s][^=<>~!]*?)\s*(>=|<=|=|~|>|<)(.*)", re.S)
_ORDER: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


@dataclass(frozen=True)
class RowFilter:
    """One condition on a field, and whether the rows that meet it stay or go.

    Attributes
    ----------
    keep : bool
        True for ``--only``, False for ``--exclude``.
    sign : str
        ``=`` (equal as text, or as numbers), ``~`` (a pattern with ``*`` and ``?``), or an order.
    values : tuple of str
        Any of them will do; an order has one.
    """

    keep: bool
    name: str
    sign: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        flag = "--only" if self.keep else "--exclude"
        return f"{flag} {self.name}{self.sign}{','.join(self.values)}"

    def admits(self, record: RunRecord) -> bool:
        """Tell whether the row stays."""
        value = field_of(record, self.name)
        if record.alias == HUMAN and self.name in AGENT_FIELDS and not self._names_humans:
            return True
        return self._meets(value) == self.keep

    @property
    def _names_humans(self) -> bool:
        return self.sign == "=" and HUMAN in self.values

    def _meets(self, value: Any) -> bool:
        if self.sign in _ORDER:
            number = _number(value)
            return number is not None and _ORDER[self.sign](number, float(self.values[0]))
        text = _text(value)
        if self.sign == "~":
            return any(fnmatchcase(text, pattern) for pattern in self.values)
        return text in self.values or _is_same_number(value, self.values)


def parse_filter(text: str, *, keep: bool) -> RowFilter:
    """Read ``FIELD=VALUE``, ``FIELD=ONE,OTHER``, ``FIELD~PATTERN`` or ``FIELD>=NUMBER``.

    Raises
    ------
    InputError
        None of these.
    """
    form = _FORM.fullmatch(text)
    flag = "--only" if keep else "--exclude"
    if form is None:
        raise InputError(
            f"{flag} {text}: write FIELD=VALUE (also VALUE,VALUE), FIELD~PATTERN or FIELD>=NUMBER"
        )
    name, sign, wanted = form.groups()
    if sign in _ORDER:
        if _number(wanted) is None:
            raise InputError(f"{flag} {text}: {sign} compares with a number, not {wanted!r}")
        return RowFilter(keep, name, sign, (wanted.strip(),))
    return RowFilter(keep, name, sign, tuple(value.strip() for value in wanted.split(",")))


@dataclass
class Sieve:
    """Filters at work over the files of one analysis, and what they left out."""

    filters: Sequence[RowFilter]
    left_out: dict[RowFilter, int] = field(default_factory=dict)
    human_left_out: dict[RowFilter, int] = field(default_factory=dict)
    _missing: set[str] = field(default_factory=set)
    _fields: set[str] = field(default_factory=set)
    _values: dict[str, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._missing = {condition.name for condition in self.filters}
        # What names like an agent's are there, for those that a filter misspells.
        self._values = {c.name: set() for c in self.filters if c.sign == "="}

    @property
    def needs_unknown(self) -> bool:
        """Whether a filter asks for a field that METR's format does not name."""
        return any(condition.name not in KNOWN_FIELDS for condition in self.filters)

    def __call__(self, reader: RecordSource) -> Iterator[RunRecord]:
        """Yield the records that stay."""
        for record in reader:
            if self._missing:
                self._look_for_fields(record)
            for name, values in self._values.items():
                if len(values) < _KEPT_VALUES:
                    values.add(_text(field_of(record, name)))
            refusing = next((c for c in self.filters if not c.admits(record)), None)
            if refusing is None:
                yield record
            else:
                self.left_out[refusing] = self.left_out.get(refusing, 0) + 1
                if record.alias == HUMAN:
                    self.human_left_out[refusing] = self.human_left_out.get(refusing, 0) + 1

    def _look_for_fields(self, record: RunRecord) -> None:
        present = {name for name in KNOWN_FIELDS if getattr(record, name) is not None}
        present.update(name for name, value in record.unknown.items() if value is not None)
        self._missing -= present
        if len(self._fields) < _SHOWN_FIELDS:
            self._fields |= present

    def problem(self, *, any_agent: bool) -> str | None:
        """Say what is wrong with the filters themselves, once all was read."""
        for condition in self.filters:
            if condition.name in self._missing:
                there = ", ".join(sorted(self._fields)[:_SHOWN_FIELDS])
                near = did_you_mean(condition.name, self._fields)
                return (
                    f"{condition}: no record has the field {condition.name}{near}; "
                    f"there are {there}"
                )
        if not any_agent and self.left_out:
            return f"no agent run is left: {'; '.join(self.notes())}; loosen the filters"
        return None

    def notes(self) -> list[str]:
        """Say how many rows each filter left out; a row counts for the first that refuses it."""
        notes = []
        for condition in dict.fromkeys(self.filters):
            rows, human = (
                counts.get(condition, 0) for counts in (self.left_out, self.human_left_out)
            )
            beside = f" ({human:,} of them human runs)" if human else ""
            notes.append(
                f"{rows:,} rows left out by {condition}{beside}{self._misspelt(condition)}"
            )
        return notes

    def _misspelt(self, condition: RowFilter) -> str:
        """Name the values that no row has although some have one like them."""
        there = self._values.get(condition.name, set())
        if condition.sign != "=" or len(there) >= _KEPT_VALUES:
            return ""
        absent = [value for value in condition.values if value not in there]
        remarks = ((value, did_you_mean(value, there)) for value in absent)
        return "".join(f"; no row has {value}{near}" for value, near in remarks if near)


def field_of(record: RunRecord, name: str) -> Any:
    """Return a field's value, None where the row does not have it."""
    return getattr(record, name) if name in KNOWN_FIELDS else record.unknown.get(name)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()  # as JSON writes it
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _number(value: Any) -> float | None:
    if value is None or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number == number else None


def _is_same_number(value: Any, wanted: Sequence[str]) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return any(_number(text) == value for text in wanted)
