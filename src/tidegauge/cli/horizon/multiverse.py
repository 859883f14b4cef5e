"""``tidegauge horizon multiverse``: the same runs under every set of choices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegauge.cli.horizon.options import filter_options, release_dates_option, workers_option
from tidegauge.cli.options import (
    Choice,
    json_option,
    out_option,
    quiet_option,
    runs_argument,
    seed_option,
)
from tidegauge.cli.output import print_tables

if TYPE_CHECKING:
    from tidegauge.horizon.data.filters import RowFilter
    from tidegauge.horizon.studies.multiverse import Multiverse
    from tidegauge.progress import Progress

_yaml_file = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("multiverse")
@runs_argument
@out_option
@release_dates_option
@click.option("--grid", type=_yaml_file, help="YAML of the universes; 64 of our own without it.")
@click.option("--universes", type=click.IntRange(1), help="Fit so many of them, drawn at random.")
@click.option("--sensitivity", is_flag=True, help="Also change every prior in turn.")
@click.option("--influence", is_flag=True, help="Also leave out every family in turn.")
@click.option(
    "--model",
    type=Choice(["core", "full"]),
    default="core",
    show_default=True,
    help="The model of --sensitivity and --influence.",
)
@click.option("--plots", is_flag=True, help="Save the charts as PNG and SVG too.")
@workers_option
@filter_options
@seed_option
@json_option
@quiet_option
def multiverse_command(
    runs: tuple[str, ...],
    out: Path,
    release_dates: Path | None,
    grid: Path | None,
    universes: int | None,
    sensitivity: bool,
    influence: bool,
    model: str,
    plots: bool,
    workers: int | None,
    filters: tuple[RowFilter, ...],
    seed: int,
    as_json: bool,
    progress: Progress,
) -> int:
    """Refit under every set of choices and report which choice moves the horizons most.

    Prints horizons over all universes, and the choices by their effect.

    Example: tidegauge horizon multiverse runs.jsonl --out multiverse --plots
    """
    from tidegauge.horizon.model.options import CORE, FULL
    from tidegauge.horizon.store.multiverse_folder import study_text, write_study
    from tidegauge.horizon.studies.multiverse_study import StudyOptions, study
    from tidegauge.io import check_writable

    check_writable(out)
    options = StudyOptions(
        grid=grid,
        universes=universes,
        release_dates=release_dates,
        sensitivity=sensitivity,
        influence=influence,
        model=FULL if model == "full" else CORE,
        filters=filters,
        seed=seed,
        workers=workers,
    )
    found = study(runs, options, progress=progress)
    charts = None
    if plots:
        from tidegauge.report.horizon.multiverse_charts import (
            study_plots,
        )  # after the input's faults

        charts = study_plots(found)
    with progress.step(f"writing {out}"):
        write_study(found, out, plots=charts)
    if as_json:
        tables = ["multiverse", "doubling", "choices", "levels", "sensitivity", "influence"]
        print_tables(out, tables)
    else:
        click.echo(study_text(found))
    return _echo_verdict(found.multiverse)


def _echo_verdict(multiverse: Multiverse) -> int:
    """Say on stderr which universes are not to be relied on; return the exit code."""
    for one in multiverse.failed:
        click.echo(f"universe {one.number} failed: {one.reason}", err=True)
    if multiverse.unconverged:
        numbers = ", ".join(str(one.number) for one in multiverse.unconverged)
        click.echo(
            f"not converged: universes {numbers}; they are in the tables, marked. Fit such a "
            "choice with `horizon fit`, which takes longer chains.",
            err=True,
        )
    return 1 if multiverse.failed or multiverse.unconverged else 0
