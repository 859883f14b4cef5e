"""What the commands of ``tidegauge bench`` share: options, and how they print a run."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegauge.cli.options import Command, CompetitionName
from tidegauge.cli.output import print_json
from tidegauge.progress import Progress

if TYPE_CHECKING:
    from tidegauge.bench.competition_folder import Prepared

folder_type = click.Path(file_okay=False, path_type=Path)
file_type = click.Path(dir_okay=False, path_type=Path)
competition_argument = click.argument("competition", type=CompetitionName())
prepared_option = click.option(
    "--prepared",
    type=folder_type,
    help="Folder that `bench prepare` wrote; for mlebench/<id> by default DATA/<id>.",
)
always_json_option = click.option(
    "--json", is_flag=True, expose_value=False, help="Print the report as JSON; it always is."
)
leaderboard_option = click.option(
    "--leaderboard", type=file_type, help="CSV with a column `score`: medals by Kaggle's rules."
)


def open_competition(name: str, folder: Path | None) -> Prepared:
    """Open a prepared competition by its name."""
    import tidegauge.bench as tb

    return tb.open_prepared(name, folder)


@contextlib.contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _set_variable(ctx: click.Context, parameter: click.Parameter, value: Path | None) -> None:
    """Name the checkout for this command and the processes that it starts."""
    if value is not None:
        ctx.with_resource(_variable(f"TIDEGAUGE_{_VARIABLES[parameter.name or '']}", str(value)))


_VARIABLES = {
    "mlebench": "MLEBENCH",
    "mlebench_python": "MLEBENCH_PYTHON",
    "data": "MLEBENCH_DATA",
}


def checkout_options(command: Command) -> Command:
    """Add the options that name a checkout of MLE-bench, its Python and its data."""
    for name, text in (
        ("--data", "MLE-bench's data; TIDEGAUGE_MLEBENCH_DATA, or ~/.cache/mle-bench/data."),
        ("--mlebench-python", "Python of the checkout's graders; CHECKOUT/.venv by default."),
        ("--mlebench", "A checkout of MLE-bench; by default TIDEGAUGE_MLEBENCH."),
    ):
        command = click.option(
            name,
            type=click.Path(path_type=Path),
            callback=_set_variable,
            expose_value=False,
            help=text,
        )(command)
    return command


def settle_killed_runs(progress: Progress) -> None:
    """Record the runs of killed runners, and print their ids."""
    from tidegauge.bench.run.record import settle_interrupted

    for run_id in settle_interrupted():
        progress.note(f"run {run_id} was killed; it is now recorded as interrupted")


def print_report(result: dict[str, object], path: Path | None) -> None:
    """Print a report, and write it to a file if one is named."""
    from tidegauge.io import atomic_write

    if path is not None:
        with atomic_write(path) as handle:
            handle.write(json.dumps(result, indent=2, allow_nan=False) + "\n")
    print_json(result)
