"""What can be wrong with one row of run records, each fault on one line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

HUMAN = "human"
TOO_LARGE = 1e200  # no time or score; sums of millions of smaller ones stay finite
_NAMES = ("task_id", "task_family", "alias", "human_source")
_SHOWN_VALUE = 60
# What XML 1.0, and so a chart, cannot hold; and what a terminal obeys rather than shows.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x80-\x9f\ufffe\uffff]")


def row_faults(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield every fault of a row as ``field=value: what is wrong; what to do``."""
    for name in _NAMES:
        if isinstance(value := row.get(name), str) and has_control_character(value):
            yield f"{_shown(row, name)}: holds a control character, which no chart can; remove it"
        elif not isinstance(value, str) or not value:
            yield f"{_shown(row, name)}: must be a non-empty text; fill it in or drop the row"
    if not isinstance(score := row.get("score_binarized"), int | float) or score not in (0, 1):
        yield f"{_shown(row, 'score_binarized')}: must be 0 or 1; threshold the score first"
    minutes = row.get("human_minutes", 0)
    if not is_number(minutes) or minutes <= 0:
        yield (
            f"{_shown(row, 'human_minutes')}: must be a positive, finite number of minutes; "
            "correct it or drop the task"
        )
    for name in ("score_cont", "score"):
        if row.get(name) is not None and not is_number(row[name]):
            yield f"{_shown(row, name)}: must be a finite number; write null where it is unknown"
    if not isinstance(row.get("task_source"), str | None):
        yield f"{_shown(row, 'task_source')}: must be a text; drop the field if it is unknown"
    if row.get("alias") == HUMAN:
        yield from _time_faults(row)


def _time_faults(row: Mapping[str, Any]) -> Iterator[str]:
    times_ok = True
    for name in ("started_at", "completed_at"):
        if not is_number(row.get(name)):
            times_ok = False
            yield f"{_shown(row, name)}: a human run needs its time in milliseconds; fill it in"
    if times_ok and row["completed_at"] < row["started_at"]:
        yield (
            f"{_shown(row, 'completed_at')}: before started_at={row['started_at']}; "
            "swap them or drop the row"
        )


def has_control_character(name: str) -> bool:
    """Tell whether a name holds what charts cannot hold and terminals obey."""
    return _UNPRINTABLE.search(name) is not None


def is_number(value: object) -> TypeGuard[int | float]:
    """Tell whether a value is a finite number of a size that times and scores have."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) < TOO_LARGE  # also refuses NaN
    )


def _shown(row: Mapping[str, Any], name: str) -> str:
    return f"{name}={show_value(row[name])}" if name in row else f"{name} is missing"


def show_value(value: object) -> str:
    """Return a value as a short text on one line, for a fault's message."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except ValueError:  # an integer of thousands of digits
        text = "a very large number"
    text = text[: _SHOWN_VALUE + 1]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return text if len(text) <= _SHOWN_VALUE else text[: _SHOWN_VALUE - 3] + "..."


def is_unicode(row: Mapping[str, Any]) -> bool:
    """Tell whether the row can be written as UTF-8, which JSON's escapes do not promise."""
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    except ValueError:  # an integer of thousands of digits: a fault of its own
        return True
    return True
