"""What the commands of ``tidegauge bench`` share: options, and how they print a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegauge.cli.options import CompetitionName
from tidegauge.cli.output import print_json
from tidegauge.progress import Progress

if TYPE_CHECKING:
    from tidegauge.bench.competition_folder import Prepared

folder_type = click.Path(file_okay=False, path_type=Path)
file_type = click.Path(dir_okay=False, path_type=Path)
competition_argument = click.argument("competition", type=CompetitionName())
prepared_option = click.option(
    "--prepared", type=folder_type, required=True, help="Folder that `bench prepare` wrote."
)
always_json_option = click.option(
    "--json", is_flag=True, expose_value=False, help="Print the report as JSON; it always is."
)
leaderboard_option = click.option(
    "--leaderboard", type=file_type, help="CSV with a column `score`: medals by Kaggle's rules."
)


def open_competition(name: str, folder: Path) -> Prepared:
    """Open a prepared competition by its name."""
    import tidegauge.bench as tb

    return tb.open_prepared(name, folder)


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
