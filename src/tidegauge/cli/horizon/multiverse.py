"""``tidegauge horizon multiverse``: the same runs under every set of choices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegauge.cli.horizon.options import release_dates_option, runs_options, workers_option
from tidegauge.cli.options import (
    Choice,
    json_option,
    out_option,
    quiet_option,
    seed_option,
)
from tidegauge.cli.output import print_tables

if TYPE_CHECKING:
    from tidegauge.horizon import Runs
    from tidegauge.horizon.studies.multiverse import Multiverse
    from tidegauge.progress import Progress

_yaml_file = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("multiverse")
@runs_options
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
@seed_option
@json_option
@quiet_option
def multiverse_command(
    read: Callable[..., Runs],
    out: Path,
    release_dates: Path | None,
    grid: Path | None,
    universes: int | None,
    sensitivity: bool,
    influence: bool,
    model: str,
    plots: bool,
    workers: int | None,
    seed: int,
    as_json: bool,
    progress: Progress,
) -> int:
    """Refit under every set of choices and report which choice moves the horizons most.

    Prints horizons over all universes, and the choices by their effect.

    Example: tidegauge horizon multiverse runs.jsonl --out multiverse --plots
    """
    import tidegauge.horizon as th
    from tidegauge.horizon.store.studies import write_study
    from tidegauge.io import check_writable

    check_writable(out)
    runs = read(release_dates=release_dates)
    found = th.multiverse(
        runs,
        grid,
        universes=universes,
        sensitivity=sensitivity,
        influence=influence,
        model=model,
        seed=seed,
        workers=workers,
        progress=progress,
    )
    with progress.step(f"writing {out}"):
        write_study(found, out)

    from tidegauge.report.horizon.terminal import study_text

    if as_json:
        tables = ["multiverse", "doubling", "choices", "levels", "sensitivity", "influence"]
        print_tables(out, tables)
    else:
        click.echo(study_text(found))
    code = _echo_verdict(found.multiverse)
    if plots:
        from tidegauge.report.charts import save_charts
        from tidegauge.report.horizon.multiverse_charts import multiverse_charts

        save_charts(multiverse_charts(found), out / "plots")
    return code


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
