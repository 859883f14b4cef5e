"""``tidegauge horizon report``: a fit's folder as one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegauge.cli.options import quiet_option

if TYPE_CHECKING:
    from tidegauge.progress import Progress


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--out", type=click.Path(path_type=Path), help="The page; DIR/report.html.")
@click.option("--charts", type=click.Path(path_type=Path), help="Folder for PNG and SVG charts.")
@quiet_option
def report(folder: Path, out: Path | None, charts: Path | None, progress: Progress) -> None:
    """Make one self-contained HTML page of what horizon fit wrote to DIR.

    Example: tidegauge horizon report fit --charts charts
    """
    from tidegauge.report.horizon_page import write_horizon_report

    page = out or folder / "report.html"
    write_horizon_report(folder, page, charts=charts, progress=progress)
    click.echo(page)
