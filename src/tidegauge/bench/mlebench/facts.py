"""What is known of MLE-bench's 82 competitions: competitions.csv, a fallback and a display.

The table was made by reading and running MLE-bench (openai/mle-bench at commit 783b15a, MIT
licence) on made-up data. Where it disagrees with what is measured, the measurement counts.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

# How long an experienced engineer needs for a sensible solution, in the middle of the bands that
# MLE-bench's authors give: below 2 hours, 2 to 10 hours, above 10 hours.
HUMAN_MINUTES = {"low": 60.0, "medium": 270.0, "high": 1200.0}


@dataclass(frozen=True, slots=True)
class Unit:
    """What the test set is a sample of: rows, or groups of rows that belong together.

    Attributes
    ----------
    name : str
        Such as ``row``, ``patient``.
    column : str, optional
        A column of the answers, or of the key, that names the group.
    part : str, optional
        Which part of the key names it: ``first`` or ``last`` (before that underscore), ``// 100``.
    """

    name: str = "row"
    column: str | None = None
    part: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """One line of the table."""

    competition_id: str
    split: str
    metric: str
    lower_is_better: bool
    key: tuple[str, ...]
    targets: str
    kind: str
    id_rule: str
    unit: Unit
    note: str
    prepare_packages: tuple[str, ...]
    sample_score: float | None


@cache
def all_facts() -> dict[str, Facts]:
    """Return the facts by competition id."""
    source = resources.files("tidegauge.bench.mlebench").joinpath("competitions.csv")
    rows = csv.DictReader(source.read_text(encoding="utf-8").splitlines())
    return {row["competition_id"]: _facts(row) for row in rows}


def facts_of(competition_id: str) -> Facts | None:
    """Return what is known of a competition; None of one that a user added."""
    return all_facts().get(competition_id)


def _facts(row: dict[str, str]) -> Facts:
    key = row["key"].removesuffix(" (not read)")
    return Facts(
        competition_id=row["competition_id"],
        split=row["split"],
        metric=row["metric"],
        lower_is_better=row["lower_is_better"] == "True",
        key=tuple(key.split(" + ")),
        targets=row["targets"],
        kind=row["kind"],
        id_rule=row["id_rule"],
        unit=_unit(row["unit"]),
        note=row["note"],
        prepare_packages=tuple(row["prepare_packages"].split()),
        sample_score=float(row["sample_score"]) if row["sample_score"] else None,
    )


def _unit(text: str) -> Unit:
    """Read ``row``, ``COLUMN (column of the answers)``, ``NAME: KEY before the last _``."""
    if text == "row":
        return Unit()
    name, _, rule = text.partition(": ")
    if not rule:
        column = name.removesuffix(" (column of the answers)")
        return Unit(column, column=column)
    column, _, part = rule.partition(" ")
    if part == "// 100":
        return Unit(name, column=column, part="// 100")
    return Unit(name, column=column, part="last" if "last" in part else "first")
