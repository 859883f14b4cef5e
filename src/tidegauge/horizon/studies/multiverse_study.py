"""From run records to a multiverse: universes, and on request prior sensitivity and influence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.errors import InputError
from tidegauge.horizon.data.agents import read_release_dates, undated_note, with_agent_facts
from tidegauge.horizon.data.counts import read_tally
from tidegauge.horizon.data.design import Design, build_design
from tidegauge.horizon.data.filters import RowFilter
from tidegauge.horizon.model.options import CORE, HorizonOptions
from tidegauge.horizon.studies.influence import check_families, leave_families_out
from tidegauge.horizon.studies.multiverse import Multiverse, explore
from tidegauge.horizon.studies.specifications import Universe, default_grid, read_grid
from tidegauge.progress import SILENT, Progress

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """What to explore.

    Attributes
    ----------
    grid : Path or None
        YAML file of universes; None for the default grid.
    universes : int or None
        Fit so many of them, drawn at random; None for all.
    release_dates : Path or None
        YAML file, for doubling times.
    sensitivity, influence : bool
        Whether priors are changed, and families left out, one by one.
    model : HorizonOptions
        The model they are changed in.
    filters : sequence of RowFilter
        Which rows are read at all.
    workers : int or None
        Processes; None for one a core.
    """

    grid: Path | None = None
    universes: int | None = None
    release_dates: Path | None = None
    sensitivity: bool = False
    influence: bool = False
    model: HorizonOptions = CORE
    filters: Sequence[RowFilter] = ()
    seed: int = 1
    workers: int | None = None

    def __post_init__(self) -> None:
        for name in ("universes", "workers"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise InputError(f"{name}={value}: must be at least 1")


@dataclass(frozen=True)
class Study:
    """All that was found; tables that were not asked for are None."""

    options: StudyOptions
    multiverse: Multiverse
    sensitivity: pd.DataFrame | None
    influence: pd.DataFrame | None
    inputs: Mapping[str, str]
    notes: Sequence[str]


def study(
    runs: Sequence[Path | str], options: StudyOptions, *, progress: Progress = SILENT
) -> Study:
    """Read run records and fit every universe; everything is checked before the first fit."""
    dates = read_release_dates(options.release_dates)
    grid = None if options.grid is None else read_grid(options.grid, progress=progress)
    tally = read_tally(runs, filters=options.filters, progress=progress)
    design = build_design(tally)
    if dates:
        design = with_agent_facts(design, dates=dates)
    universes = default_grid(design) if grid is None else grid
    _check_trends(universes, options, bool(dates))
    if options.influence:
        check_families(design)
    notes = [*design.notes, *undated_note(design.agents, dates)]
    for note in notes:
        progress.note(note)
    multiverse = explore(
        design,
        universes,
        dates=dates,
        sample=options.universes,
        seed=options.seed,
        workers=options.workers,
        progress=progress,
    )
    sensitivity, influence = _extras(design, options, progress)
    return Study(options, multiverse, sensitivity, influence, tally.sha256, notes)


def _check_trends(universes: Sequence[Universe], options: StudyOptions, dated: bool) -> None:
    shapes = {universe.model.trend for universe in universes} | {options.model.trend}
    if not dated and shapes != {"none"}:
        raise InputError("a trend is asked for, but no release dates; give them too")


def _extras(
    design: Design, options: StudyOptions, progress: Progress
) -> tuple[pd.DataFrame | None, pd.DataFrame | None]:
    sensitivity = influence = None
    if options.sensitivity:
        from tidegauge.horizon.studies.sensitivity import prior_sensitivity

        sensitivity = prior_sensitivity(
            design,
            options=options.model,
            seed=options.seed,
            workers=options.workers,
            progress=progress,
        )
    if options.influence:
        influence = leave_families_out(
            design,
            options=options.model,
            seed=options.seed,
            workers=options.workers,
            progress=progress,
        )
    return sensitivity, influence
