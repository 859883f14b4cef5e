"""Graded runs of agents, from sweeps and from MLE-bench's grading reports."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegauge.bench.mlebench.facts import facts_of
from tidegauge.bench.mlebench.notices import notices_of
from tidegauge.bench.sweep.plan import PLAN, read_plan, record_of, report_of
from tidegauge.errors import InputError

SPLITS = ("low", "medium", "high")
_MAX_REPORT_BYTES = 64 * 2**20
_RUN_GROUP = re.compile(r"_run-group_(.+)$")
Report = dict[str, Any]


@dataclass(frozen=True)
class Results:
    """The graded runs of some agents on some competitions.

    Attributes
    ----------
    reports : mapping
        By agent and competition, the reports seed by seed; None for a seed that is missing.
    competitions : list of str
        All that were to be run.
    """

    reports: Mapping[str, Mapping[str, Sequence[Report | None]]]
    competitions: Sequence[str]

    @property
    def agents(self) -> list[str]:
        """The agents, in the order they were found."""
        return list(self.reports)

    def without(self, kinds: Sequence[str]) -> Results:
        """Return the same without the competitions that have a notice of one of these kinds."""
        kept = [c for c in self.competitions if not any(n.kind in kinds for n in notices_of(c))]
        return Results(self.reports, kept)

    def of_split(self, split: str) -> Results:
        """Return the same for the competitions of a split."""
        return Results(self.reports, [c for c in self.competitions if split_of(self, c) == split])


def split_of(results: Results, competition_id: str) -> str | None:
    """Return the split of a competition, from its reports or from the table of facts."""
    for of_agent in results.reports.values():
        for report in of_agent.get(competition_id, ()):
            if report is not None and report.get("split"):
                return str(report["split"])
    known = facts_of(competition_id)
    return known.split if known else None


def read_results(sources: Sequence[Path], *, alias: str | None = None) -> Results:
    """Read sweeps (folders) and grading reports (JSON files), MLE-bench's too.

    Parameters
    ----------
    alias : str, optional
        The agent of reports that name none; by default the name of their run group.

    Raises
    ------
    InputError
        One is neither.
    """
    reports: dict[str, dict[str, list[Report | None]]] = {}
    competitions: dict[str, None] = {}
    for source in sources:
        if (source / PLAN).is_file():
            _read_sweep(source, reports, competitions)
    # MLE-bench's order: paths sorted, inside each the reports sorted by competition.
    for path in sorted(path for path in sources if not (path / PLAN).is_file()):
        for found in sorted(read_reports(path), key=lambda r: str(r.get("competition_id"))):
            name = found.get("competition_id")
            if not isinstance(name, str):
                raise InputError(f"{path}: a report has no competition_id; give a grading report")
            agent = str(found.get("alias") or alias or _agent_of(path))
            reports.setdefault(agent, {}).setdefault(name, []).append(found)
            competitions.setdefault(name)
    if not reports:
        raise InputError(f"{', '.join(map(str, sources))}: hold no graded run yet")
    return Results(reports, sorted(competitions))


def _read_sweep(
    folder: Path,
    reports: dict[str, dict[str, list[Report | None]]],
    competitions: dict[str, None],
) -> None:
    for cell in read_plan(folder):
        report = report_of(folder, cell)
        record = record_of(folder, cell)
        name = str(report["competition_id"]) if report else cell.competition.rpartition("/")[2]
        if report is None and record is not None:  # its folder is gone; its record counts
            report = {"competition_id": name, "any_medal": bool(record.score_binarized)}
        reports.setdefault(cell.agent.alias, {}).setdefault(name, []).append(report)
        competitions.setdefault(name)


def read_reports(path: Path) -> list[Report]:
    """Return the reports of a file: one, or those of an aggregate.

    Raises
    ------
    InputError
        It is no grading report.
    """
    try:
        with open(path, "rb") as handle:
            content = json.loads(handle.read(_MAX_REPORT_BYTES))
        reports = content.get("competition_reports", [content])
        if not all(isinstance(report, dict) for report in reports):
            raise ValueError("reports must be objects")
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise InputError(
            f"{path}: neither a sweep nor a grading report ({error}); give one of them"
        ) from None
    return list(reports)


def _agent_of(path: Path) -> str:
    """Return the agent that the name of a run group ends with, or the file's name."""
    found = _RUN_GROUP.search(path.parent.name)
    return found.group(1) if found else path.stem
