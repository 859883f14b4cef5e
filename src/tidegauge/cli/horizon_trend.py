"""``tidegauge horizon trend``: shapes of the trend, fitted jointly, compared and stacked."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidegauge.cli.options import quiet_option, seed_option

if TYPE_CHECKING:
    from tidegauge.progress import Progress


@click.command("trend")
@click.argument("runs", nargs=-1, required=True, metavar="RUNS...")
@click.option(
    "--release-dates",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="YAML of agents and dates, as METR publishes it.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder to write to.")
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d", "%Y"]),
    metavar="DATE",
    help="Leave agents released before this date (2024, 2024-03-01) out of the trend.",
)
@click.option("--frontier", is_flag=True, help="Only agents that were the best at their release.")
@click.option("--model", type=click.Choice(["core", "full"]), default="core", show_default=True)
@click.option("--draws", type=click.IntRange(4), help="Draws kept per chain (1500).")
@click.option("--tune", type=click.IntRange(10), help="Tuning draws per chain (500).")
@click.option("--chains", type=click.IntRange(1), help="Chains (4).")
@seed_option
@quiet_option
def trend_command(
    runs: tuple[str, ...], out: Path, since: datetime | None, progress: Progress, **choices: Any
) -> int:
    """Fit every shape of trend of horizons over release date, compare and stack them.

    Example: tidegauge horizon trend runs.jsonl --release-dates dates.yaml --out trend --since 2024
    """
    from tidegauge.horizon.options import CORE, DEFAULT_SAMPLER, FULL
    from tidegauge.horizon.trend_compare import TrendOptions, compare_trends
    from tidegauge.horizon.trend_outputs import trends_text, write_trends
    from tidegauge.io import check_writable

    check_writable(out)
    sizes = {name: choices[name] for name in ("draws", "tune", "chains") if choices[name]}
    options = TrendOptions(
        release_dates=choices["release_dates"],
        model=FULL if choices["model"] == "full" else CORE,
        sampler=dataclasses.replace(DEFAULT_SAMPLER, seed=choices["seed"], **sizes),
        patient=not sizes,  # who names the sizes gets exactly those
        since=since.date() if since else None,
        frontier=choices["frontier"],
    )
    comparison = compare_trends(runs, options, progress=progress)
    from tidegauge.report.horizon_trend import trend_plots  # after the input's faults

    with progress.step(f"writing {out}"):
        write_trends(comparison, out, plots=trend_plots(comparison))
    click.echo(trends_text(comparison))
    for name in comparison.unconverged:
        click.echo(
            f"not converged: trend {name}; its files are written, but do not rely on them. Try "
            "more draws (--draws 4000 --tune 2000) or another --seed.",
            err=True,
        )
    return 1 if comparison.unconverged else 0
