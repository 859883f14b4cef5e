"""Answers that are not the answers: true ids, labels dealt out anew.

A grader that is asked to validate a submission gets these instead of the true ones, so that neither
its messages nor the time it takes can tell a label.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidegauge.bench.mlebench.profile import Rows, rows_of, to_csv
from tidegauge.bench.mlebench.template import Template

MIN_DEALT_ROWS = 20  # of fewer rows, dealing anew hides nothing
_ONE_PIXEL = "1 1"


def decoy_answers(
    answers: Path, template: Template, random_source: random.Random
) -> Iterator[tuple[str, bytes]]:
    """Yield ways to make decoys, the best first: its name and the file.

    Which of them the grader takes like the true answers is for the caller to find out.
    """
    if answers.suffix == ".jsonl":
        yield from _json_lines(answers, template, random_source)
        return
    header, rows = rows_of(answers.read_bytes())
    places = _label_places(header, template)
    public = _sample_labels(header, rows, places, template)
    if public is not None and (mixed := _reordered(rows, public, places, random_source)):
        yield "tokens reordered", to_csv(header, mixed)
        return  # the tokens of a row are public, but must not go to another
    if len(rows) >= MIN_DEALT_ROWS:
        yield "labels dealt anew", to_csv(header, _dealt(rows, places, random_source))
    if public is not None:
        yield "labels of the sample", to_csv(header, _with_labels(rows, public, places))


def _label_places(header: list[str], template: Template) -> list[int]:
    """Return the columns that the answers share with the sample, or all but the key."""
    shared = {str(name) for name in template.sample.columns} - set(template.key)
    found = [place for place, name in enumerate(header) if name in shared]
    return found or [place for place, name in enumerate(header) if name not in template.key]


def derangement(n: int, random_source: random.Random) -> list[int]:
    """Return for each row another row: one cycle through all, drawn at random."""
    order = random_source.sample(range(n), n)
    other = [0] * n
    for place, row in enumerate(order):
        other[row] = order[(place + 1) % n]
    return other


def _dealt(rows: Rows, places: list[int], random_source: random.Random) -> Rows:
    """Give each row the labels of another one, all of that row's together."""
    other = derangement(len(rows), random_source)
    return _with_labels(rows, [[rows[j][place] for place in places] for j in other], places)


def _with_labels(rows: Rows, labels: list[list[str]], places: list[int]) -> Rows:
    made = []
    for row, cells in zip(rows, labels, strict=True):
        new = list(row)
        for place, cell in zip(places, cells, strict=True):
            new[place] = cell
        made.append(new)
    return made


def _sample_labels(
    header: list[str], rows: Rows, places: list[int], template: Template
) -> list[list[str]] | None:
    """Return what the sample has in place of each row's labels; None if it cannot be matched."""
    names = [header[place] for place in places]
    if not all(name in header for name in template.key):
        return None
    if not all(name in template.sample.columns for name in names):
        return None
    keys = template.sample[list(template.key)].itertuples(index=False, name=None)
    cells = template.sample[names].itertuples(index=False, name=None)
    of_key: dict[tuple[str, ...], list[str]] = {}
    for key, labels in zip(keys, cells, strict=True):
        of_key.setdefault(key, [label or _ONE_PIXEL for label in labels])
    positions = [header.index(name) for name in template.key]
    found = [of_key.get(tuple(row[place] for place in positions)) for row in rows]
    return None if any(labels is None for labels in found) else found  # type: ignore[return-value]


def _reordered(
    rows: Rows, public: list[list[str]], places: list[int], random_source: random.Random
) -> Rows | None:
    """Reorder the tokens of each cell, if only their order is not public."""
    made = []
    for row, labels in zip(rows, public, strict=True):
        cells = [row[place].split() for place in places]
        if any(sorted(c) != sorted(p.split()) for c, p in zip(cells, labels, strict=True)):
            return None
        made.append([" ".join(random_source.sample(cell, len(cell))) for cell in cells])
    has_orders = any(len(row[place].split()) > 2 for row in rows for place in places)
    return _with_labels(rows, made, places) if has_orders else None


def _json_lines(
    answers: Path, template: Template, random_source: random.Random
) -> Iterator[tuple[str, bytes]]:
    """Give each object all fields of another one but its id."""
    lines = answers.read_text(encoding="utf-8").splitlines()
    objects: list[dict[str, Any]] = [json.loads(line) for line in lines if line.strip()]
    if len(objects) < MIN_DEALT_ROWS:
        return
    name = next((n for n in template.key if n in objects[0]), next(iter(objects[0])))
    other = derangement(len(objects), random_source)
    dealt = [{**objects[j], name: found[name]} for found, j in zip(objects, other, strict=True)]
    yield "labels dealt anew", "".join(json.dumps(found) + "\n" for found in dealt).encode()
