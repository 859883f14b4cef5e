"""``tidegauge horizon import`` and ``export``: from other tools' logs, and for METR's code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegauge.cli.options import Choice, quiet_option, runs_argument
from tidegauge.progress import Progress

if TYPE_CHECKING:
    from tidegauge.horizon.data.importers import Imported

_place = click.Path(path_type=Path)
_out = click.option("--out", type=_place, help="Append to this file; to stdout by default.")


@click.group("import")
def import_group() -> None:
    """Turn other tools' logs into run records."""


def _alias_pairs(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    pairs = dict(value.rpartition("=")[::2] for value in values)
    if "" in pairs:
        raise click.BadParameter("must be MODEL=NAME")
    return pairs


@import_group.command("inspect")
@click.argument("logs", nargs=-1, required=True, type=_place)
@click.option("--tasks", type=_place, help="CSV or JSON lines: task_id, human_minutes.")
@click.option("--scorer", help="Scorer to use, or SCORER.KEY; needed if there are several.")
@click.option("--threshold", type=float, default=0.5, show_default=True, help="Success from here.")
@click.option("--alias", "aliases", multiple=True, metavar="MODEL=NAME", callback=_alias_pairs)
@click.option(
    "--errors",
    type=Choice(["fail", "skip"]),
    default="fail",
    show_default=True,
    help="Samples that ended in an error: failures, or left out.",
)
@_out
@quiet_option
def import_inspect_command(
    logs: tuple[Path, ...],
    tasks: Path | None,
    scorer: str | None,
    threshold: float,
    aliases: dict[str, str],
    errors: str,
    out: Path | None,
    progress: Progress,
) -> None:
    """Import Inspect's .eval logs.

    Example: tidegauge horizon import inspect logs/ --tasks tasks.csv --out runs.jsonl
    """
    from tidegauge.horizon.data.importers import InspectOptions, import_inspect, read_task_times

    times = read_task_times(tasks) if tasks else {}
    options = InspectOptions(scorer, threshold, aliases, errors)
    _write(import_inspect(logs, times, options), out, progress)


@import_group.command("mlebench")
@click.argument("reports", nargs=-1, required=True, type=_place)
@click.option("--tasks", type=_place, required=True, help="CSV: task_id, human_minutes.")
@click.option("--alias", help="The agent, where the reports name none.")
@click.option(
    "--success",
    type=Choice(["any_medal", "gold_medal", "above_median", "valid_submission"]),
    default="any_medal",
    show_default=True,
)
@_out
@quiet_option
def import_mlebench_command(
    reports: tuple[Path, ...],
    tasks: Path,
    alias: str | None,
    success: str,
    out: Path | None,
    progress: Progress,
) -> None:
    """Import MLE-bench's grading reports.

    Example: tidegauge horizon import mlebench report.json --tasks tasks.csv --alias my-agent
    """
    from tidegauge.horizon.data.importers import import_mlebench, read_task_times

    times = read_task_times(tasks)
    _write(import_mlebench(reports, times, alias=alias, success=success), out, progress)


def _write(imported: Imported, out: Path | None, progress: Progress) -> None:
    from tidegauge.schema.runs import append_runs, encode_run
    from tidegauge.schema.weights import with_task_weights

    records = list(imported.records)
    if out is None or not out.exists():  # beside other records, weights of these alone are wrong
        records = with_task_weights(records)
    added = len(records)
    if out is not None:
        added = append_runs(out, records)
    else:
        for record in records:
            click.echo(encode_run(record).decode())
    for reason, count in imported.skipped.items():
        progress.note(f"{count:,} run{'s' * (count != 1)} {reason}: left out")
    if held := len(imported.records) - added:
        progress.note(f"{held:,} run{'s' * (held != 1)} already in {out}: left out")
    progress.note(f"{added:,} runs imported")


@click.command("export")
@runs_argument
@click.option("--out", type=_place, required=True, help="File to write; .gz compresses it.")
@quiet_option
def export_command(runs: tuple[str, ...], out: Path, progress: Progress) -> None:
    """Write run records as METR's code reads them.

    Every row has every column of METR's format, and the task weights are of all records together.

    Example: tidegauge horizon export runs.jsonl --out metr.jsonl
    """
    from tidegauge.schema.weights import write_for_metr

    with progress.step(f"writing {out}"):
        written = write_for_metr(runs, out)
    progress.note(f"{written:,} rows in {out}")
