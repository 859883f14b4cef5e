"""From run records to a multiverse: universes, and on request prior sensitivity and influence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.errors import InputError
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.data.runs import Runs
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
    sensitivity, influence : bool
        Whether priors are changed, and families left out, one by one.
    model : HorizonOptions
        The model they are changed in.
    workers : int or None
        Processes; None for one a core.
    """

    grid: Path | None = None
    universes: int | None = None
    sensitivity: bool = False
    influence: bool = False
    model: HorizonOptions = CORE
    seed: int = 1
    workers: int | None = None

    def __post_init__(self) -> None:
        for name in ("universes", "workers"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise InputError(f"{name}={value}: must be at least 1")


DEFAULT_STUDY = StudyOptions()


@dataclass(frozen=True)
class Study:
    """All that was found; tables that were not asked for are None."""

    options: StudyOptions
    multiverse: Multiverse
    sensitivity: pd.DataFrame | None
    influence: pd.DataFrame | None
    runs: Runs


def study(
    runs: Runs, options: StudyOptions = DEFAULT_STUDY, *, progress: Progress = SILENT
) -> Study:
    """Fit every universe; everything is checked before the first fit."""
    design, dates = runs.design, runs.release_dates
    grid = None if options.grid is None else read_grid(options.grid, progress=progress)
    universes = default_grid(design) if grid is None else grid
    _check_trends(universes, options, bool(dates))
    if options.influence:
        check_families(design)
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
    return Study(options, multiverse, sensitivity, influence, runs)


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
