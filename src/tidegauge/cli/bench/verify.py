"""``tidegauge bench verify``: a run graded again, and compared with its report."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from tidegauge.cli.bench.options import (
    competition_argument,
    file_type,
    folder_type,
    leaderboard_option,
    open_competition,
    prepared_option,
)


@click.command()
@competition_argument
@click.argument("run", type=folder_type)
@prepared_option
@click.option("--runs", type=file_type, help="Record file, to compare the run's line too.")
@leaderboard_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def verify(
    competition: str,
    run: Path,
    prepared: Path,
    runs: Path | None,
    leaderboard: Path | None,
    as_json: bool,
) -> int:
    """Grade a run's submission again; exit 1 if anything differs from its report.

    Example: tidegauge bench verify osic runs/naive-seed1-1a2b3c4d --prepared prepared
    """
    import tidegauge.bench as tb

    found = open_competition(competition, prepared)
    differences = tb.verify(run, found, runs=runs, leaderboard=leaderboard)
    for difference in differences:
        click.echo(json.dumps(asdict(difference)) if as_json else str(difference))
    if not differences and not as_json:
        click.echo("nothing differs")
    return 1 if differences else 0
