"""``tidegauge horizon report``: a fit's folder as one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegauge.cli.options import quiet_option

if TYPE_CHECKING:
    from tidegauge.progress import Progress


_FOLDER = click.Path(path_type=Path)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--out", type=click.Path(path_type=Path), help="The page; DIR/report.html.")
@click.option("--charts", type=click.Path(path_type=Path), help="Folder for PNG and SVG charts.")
@click.option("--trend", type=_FOLDER, help="What horizon trend wrote, for the page.")
@click.option("--compare", type=_FOLDER, help="What horizon compare wrote.")
@click.option("--multiverse", type=_FOLDER, help="What horizon multiverse wrote.")
@quiet_option
def report(folder: Path, out: Path | None, progress: Progress, **places: Path | None) -> None:
    """Make one self-contained HTML page of what horizon fit wrote to DIR.

    Example: tidegauge horizon report fit --charts charts --trend trend
    """
    from tidegauge.horizon import write_report

    page = out or folder / "report.html"
    write_report(page, folder, **places, progress=progress)
    click.echo(page)
