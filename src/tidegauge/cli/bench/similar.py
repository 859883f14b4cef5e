"""``tidegauge bench similar``: an agent's code beside known solutions."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from tidegauge.cli.bench.options import file_type
from tidegauge.cli.options import json_option, quiet_option
from tidegauge.cli.output import print_json
from tidegauge.progress import Progress

place_type = click.Path(path_type=Path)


@click.command()
@click.argument("code", type=place_type)
@click.option("--against", type=place_type, required=True, help="Known solutions.")
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    default=0.6,
    show_default=True,
    help="Share of the code found elsewhere that disqualifies it.",
)
@click.option("--report", type=file_type, help="Report of the run, to be marked.")
@click.option("--top", type=click.IntRange(1), default=20, show_default=True, help="Rows shown.")
@json_option
@quiet_option
def similar(
    code: Path,
    against: Path,
    threshold: float,
    report: Path | None,
    top: int,
    as_json: bool,
    progress: Progress,
) -> int:
    """Compare code with known solutions; exit 1 if any is too similar.

    Prints the most similar pairs.

    Example: tidegauge bench similar runs/naive-seed1-1a2b3c4d/workspace --against solutions
    """
    from tidegauge.bench.plagiarism import compare_code, mark_report

    matches = compare_code(code, against, progress=progress)
    if report is not None:
        mark_report(report, matches, threshold=threshold)
    if as_json:
        print_json({"matches": [asdict(match) for match in matches[:top]]})
    else:
        click.echo("similarity  shared  code  reference")
        for match in matches[:top]:
            shown = f"{match.similarity:>9.1%} {match.tokens:>8,}"
            click.echo(f"{shown}  {match.code}  {match.reference}")
    return 1 if matches[0].similarity >= threshold else 0
