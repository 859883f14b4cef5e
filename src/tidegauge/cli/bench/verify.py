"""``tidegauge bench verify``: a run graded again, and compared with its report."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from tidegauge.cli.bench.options import (
    checkout_options,
    competition_argument,
    file_type,
    folder_type,
    leaderboard_option,
    open_competition,
    prepared_option,
)
from tidegauge.cli.options import json_option
from tidegauge.cli.output import print_json


@click.command()
@competition_argument
@click.argument("run", type=folder_type)
@prepared_option
@checkout_options
@click.option("--runs", type=file_type, help="Record file, to compare the run's line too.")
@leaderboard_option
@json_option
def verify(
    competition: str,
    run: Path,
    prepared: Path | None,
    runs: Path | None,
    leaderboard: Path | None,
    as_json: bool,
) -> int:
    """Grade a run's submission again; exit 1 if anything differs from its report.

    Prints what differs.

    Example: tidegauge bench verify osic runs/naive-seed1-1a2b3c4d --prepared prepared
    """
    import tidegauge.bench as tb

    found = open_competition(competition, prepared)
    differences = tb.verify(run, found, runs=runs, leaderboard=leaderboard)
    if as_json:
        print_json({"run": run, "differences": [asdict(each) for each in differences]})
    else:
        click.echo("\n".join(map(str, differences)) or "nothing differs")
    return 1 if differences else 0
