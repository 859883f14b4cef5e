"""METR's weights of runs, written beside them for code that reads them from the file.

Of one agent (or the people) with runs at T tasks, a run at a task that it tried n times has

    equal_task_weight   = 1 / (n T)
    invsqrt_task_weight = 1 / (n sqrt(F)) / sum over its tasks of 1 / sqrt(F),

F being the number of tasks of the family that it tried: all weights of an agent sum to one. They
are thus of all runs of an agent together: a record that is appended to others cannot have its own,
and `write_for_metr` gives them to a finished set of files.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

import msgspec

from tidegauge.schema.runs import RunRecord, read_runs, write_runs


def with_task_weights(records: Iterable[RunRecord]) -> list[RunRecord]:
    """Return all records of a file with both weights filled in."""
    kept = list(records)
    runs = Counter((record.alias, record.task_id) for record in kept)
    family_of = {record.task_id: record.task_family for record in kept}
    sizes = Counter((alias, family_of[task]) for alias, task in runs)
    share = {(alias, task): 1 / math.sqrt(sizes[alias, family_of[task]]) for alias, task in runs}
    tasks: Counter[str] = Counter(alias for alias, _ in runs)
    total: defaultdict[str, float] = defaultdict(float)
    for (alias, _), part in share.items():
        total[alias] += part

    def weighed(record: RunRecord) -> RunRecord:
        cell = (record.alias, record.task_id)
        return msgspec.structs.replace(
            record,
            equal_task_weight=1 / (runs[cell] * tasks[record.alias]),
            invsqrt_task_weight=share[cell] / (runs[cell] * total[record.alias]),
        )

    return [weighed(record) for record in kept]


def write_for_metr(sources: Sequence[Path | str], path: Path) -> int:
    """Write the records of one or more files as METR's code reads them; return how many.

    Every row has every column of METR's format, the score under its present name, and both weights
    of all records together.
    """
    records = chain.from_iterable(read_runs(source) for source in dict.fromkeys(sources))
    return write_runs(path, map(_with_present_score, with_task_weights(records)), whole=True)


def _with_present_score(record: RunRecord) -> RunRecord:
    if record.score_cont is not None:
        return record
    return msgspec.structs.replace(record, score_cont=record.score)
