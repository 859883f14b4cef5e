"""Run records as an analysis takes them: from files or from a data frame, with dates and groups."""

from __future__ import annotations

import datetime
import html
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.errors import InputError
from tidegauge.horizon.data.agents import (
    read_groups,
    read_release_dates,
    undated_note,
    with_agent_facts,
)
from tidegauge.horizon.data.counts import Tally, count_rows, read_tally
from tidegauge.horizon.data.design import Design, build_design
from tidegauge.horizon.data.filters import RowFilter, parse_filter
from tidegauge.horizon.data.summary import RunsSummary, summarise
from tidegauge.progress import SILENT, Progress

if TYPE_CHECKING:
    import pandas as pd

Dates = Mapping[str, datetime.date | str] | Path | str | None
Groups = Mapping[str, str] | Path | str | None


@dataclass(frozen=True, repr=False)
class Runs:
    """Runs of agents and people at tasks, ready to be fitted.

    Made by `read_runs` or `Runs.from_frame`. Shows what it holds when it is printed.

    Attributes
    ----------
    design : Design
        The arrays a model is fitted to.
    release_dates : dict
        Agent to date.
    groups : dict
        Agent to the lab or model family it is pooled with; empty to read them from the names.
    sha256 : dict
        Name of each input to the hash of its bytes.
    filters : tuple of str
        Conditions by which rows were left out.
    counted : RunsSummary or None
        Counts of everything that was read.
    read_seconds : float
        How long that took.
    """

    design: Design
    release_dates: Mapping[str, datetime.date] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    sha256: Mapping[str, str] = field(default_factory=dict, compare=False)
    filters: tuple[str, ...] = field(default=(), compare=False)
    counted: RunsSummary | None = field(default=None, compare=False)
    read_seconds: float = field(default=0.0, compare=False)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        release_dates: Dates = None,
        groups: Groups = None,
        only: Sequence[str] = (),
        exclude: Sequence[str] = (),
        conflicts: str = "error",
    ) -> Runs:
        """Take run records from a table with METR's columns, one row a run.

        Parameters
        ----------
        frame : pandas.DataFrame, polars.DataFrame, pyarrow.Table or list of dict
            Or any other table with the Arrow stream or the data frame interchange protocol.
            Missing values count as fields that are not there.
        release_dates : mapping or path, optional
            Agents to dates, or a YAML file of them.
        groups : mapping or path, optional
            Agents to the lab or model family they are pooled with.
        only, exclude : sequence of str
            Conditions on rows, as ``task_source=SWAA`` or ``human_minutes>=1``.
        conflicts : {"error", "geomean", "first"}
            As of `read_runs`.

        Returns
        -------
        Runs

        Raises
        ------
        RunFileError
            A column is missing or a value is impossible; names rows (counted from 1) and fields.

        Examples
        --------
        >>> import pandas as pd
        >>> run = {"task_id": "a/1", "task_family": "a", "alias": "GPT-4o", "score_binarized": 1,
        ...        "human_minutes": 8.0, "human_source": "estimate"}
        >>> Runs.from_frame(pd.DataFrame([run]), release_dates={"GPT-4o": "2024-05-13"})
        1 agent, 1 task in 1 family, 1 agent run, 0 human runs
        note: no successful timed human run: task lengths rest on estimates alone
        note: GPT-4o always succeeds: its horizon is bounded on one side only
        """
        filters = _filters(only, exclude)
        dates, known = read_release_dates(release_dates), read_groups(groups)
        tally = count_rows(_rows_of(frame), filters=filters, conflicts=conflicts)
        return _runs_of(tally, dates, known, filters)

    @property
    def notes(self) -> list[str]:
        """What was done about odd but valid input."""
        return [*self.design.notes, *undated_note(self.design.agents, self.release_dates)]

    def summary(self) -> pd.DataFrame:
        """Return what ``tidegauge horizon check`` prints, one row a count."""
        import pandas as pd

        return pd.DataFrame(self.lines(), columns=["what", "count"])

    def lines(self) -> list[tuple[str, str]]:
        """Return the rows of `summary` without pandas."""
        return self.counted.lines() if self.counted else _design_lines(self.design)

    @property
    def _headline(self) -> str:
        design, counted = self.design, self.counted
        people = design.run_task.size + design.failed_task.size
        counts = [
            (len(design.agents), "agent"),
            (len(design.tasks), "task"),
            (len(design.families), "family"),
            (int(design.attempts.sum()), "agent run"),
            (counted.human_total if counted else people, "human run"),
        ]
        agents, tasks, families, runs, human = (_counted(n, what) for n, what in counts)
        return f"{agents}, {tasks} in {families}, {runs}, {human}"

    def __repr__(self) -> str:
        return "\n".join([self._headline, *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        listed = f"<ul>{notes}</ul>" if notes else ""
        return f"<p><strong>{html.escape(self._headline)}</strong></p>{listed}"


def read_runs(
    sources: Path | str | Iterable[Path | str],
    *,
    only: Sequence[str] = (),
    exclude: Sequence[str] = (),
    release_dates: Dates = None,
    groups: Groups = None,
    conflicts: str = "error",
    progress: Progress = SILENT,
) -> Runs:
    """Read run records from JSON lines with METR's field names.

    Parameters
    ----------
    sources : path or iterable of paths
        Plain or gzipped; ``-`` is stdin.
    only, exclude : sequence of str
        Conditions on rows, as ``task_source=SWAA``, ``alias~gpt*`` or ``human_minutes>=1``.
    release_dates : mapping or path, optional
        Agents to dates, or a YAML file of them, as METR publishes it.
    groups : mapping or path, optional
        Agents to the lab or model family they are pooled with, or a YAML file of them.
    conflicts : {"error", "geomean", "first"}
        What a task whose rows disagree on human_minutes gets: an error, the geometric mean of
        its values, or the value read first.

    Returns
    -------
    Runs

    Raises
    ------
    RunFileError
        Faulty lines: all are counted, the first twenty are shown as ``file:line: field=value``.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "runs.jsonl"
    >>> run = {"task_id": "a/1", "task_family": "a", "alias": "GPT-4o", "score_binarized": 0,
    ...        "human_minutes": 8.0, "human_source": "estimate"}
    >>> _ = path.write_text(json.dumps(run))
    >>> read_runs(path).design.agents
    ('GPT-4o',)
    """
    began = time.perf_counter()
    filters = _filters(only, exclude)
    dates, known = read_release_dates(release_dates), read_groups(groups)
    paths = [sources] if isinstance(sources, Path | str) else list(sources)
    tally = read_tally(paths, filters=filters, conflicts=conflicts, progress=progress)
    runs = _runs_of(tally, dates, known, filters)
    runs = replace(runs, read_seconds=time.perf_counter() - began)
    for note in runs.notes:
        progress.note(note)
    return runs


def _filters(only: Sequence[str], exclude: Sequence[str]) -> tuple[RowFilter, ...]:
    for name, texts in (("only", only), ("exclude", exclude)):
        if isinstance(texts, str):
            raise InputError(f'{name}={texts}: must be a list of conditions, as ["{texts}"]')
    kept = (parse_filter(text, keep=True) for text in only)
    return (*kept, *(parse_filter(text, keep=False) for text in exclude))


def _runs_of(
    tally: Tally,
    dates: Mapping[str, datetime.date],
    groups: Mapping[str, str],
    filters: Sequence[RowFilter],
) -> Runs:
    design = build_design(tally)
    return Runs(
        design=with_agent_facts(design, dates=dates, groups=groups) if dates or groups else design,
        release_dates=dates,
        groups=groups,
        sha256=tally.sha256,
        filters=tuple(map(str, filters)),
        counted=summarise(tally),
    )


def _rows_of(frame: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of any table as plain Python values."""
    if isinstance(frame, list | tuple):
        batches: Iterable[Any] = [frame]
    elif hasattr(frame, "itertuples"):  # pandas: columns may mix types, which Arrow's may not
        batches = [frame.astype(object).where(frame.notna(), None).to_dict("records")]
    else:
        batches = (batch.to_pylist() for batch in _arrow_batches(frame))
    for batch in batches:
        for row in batch:
            yield {str(name): _plain(value) for name, value in row.items()}


def _arrow_batches(frame: Any) -> Iterable[Any]:
    import pyarrow
    from pyarrow.interchange import from_dataframe

    if hasattr(frame, "__arrow_c_stream__"):
        batches: Iterable[Any] = pyarrow.RecordBatchReader.from_stream(frame)
        return batches
    if hasattr(frame, "__dataframe__"):
        batches = from_dataframe(frame).to_batches()
        return batches
    raise InputError(
        f"{type(frame).__name__}: not a table; give a pandas, polars or Arrow table, a list of "
        "rows, or read a file with read_runs"
    )


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    known = value is None or isinstance(value, str | int | float | list | dict)
    return value if known else str(value)


def _counted(number: int, what: str) -> str:
    plural = what.replace("family", "families") if what == "family" else f"{what}s"
    return f"{number:,} {what if number == 1 else plural}"


def _design_lines(design: Design) -> list[tuple[str, str]]:
    sizes = {
        "agents": len(design.agents),
        "tasks": len(design.tasks),
        "families": len(design.families),
        "agent runs": int(design.attempts.sum()),
        "human runs used as timings": design.run_task.size,
        "estimates": design.estimate_task.size,
    }
    return [(name, f"{size:,}") for name, size in sizes.items()]
