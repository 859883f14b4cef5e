"""``tidegauge bench table``, ``report``, ``export``, ``import``: what sweeps and reports show."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from tidegauge.cli.bench.options import file_type, folder_type
from tidegauge.cli.options import Choice, json_option, quiet_option, seed_option
from tidegauge.cli.output import print_json
from tidegauge.progress import Progress

_sources = click.argument(
    "sources", nargs=-1, required=True, metavar="SWEEP|REPORT...", type=click.Path(path_type=Path)
)


@click.command()
@_sources
@click.option("--by", type=Choice(["agent", "competition"]), default="agent", show_default=True)
@click.option("--pad", is_flag=True, help="Count missing runs as failures, as MLE-bench can.")
@click.option("--seeds", type=click.IntRange(1), help="Only the first so many.")
@click.option("--alias", help="The agent of reports that name none.")
@click.option("--pair", nargs=2, metavar="A B", help="Also compare two agents.")
@click.option("--drop", help="Kinds of notices whose competitions are left out: leak,broken,...")
@click.option("--mlebench-json", is_flag=True, help="MLE-bench's own aggregate, by its names.")
@seed_option
@json_option
def table(
    sources: tuple[Path, ...],
    by: str,
    pad: bool,
    seeds: int | None,
    alias: str | None,
    pair: tuple[str, str] | None,
    drop: str | None,
    mlebench_json: bool,
    seed: int,
    as_json: bool,
) -> None:
    """Tabulate sweeps and grading reports: medals, and how sure they are.

    Prints MLE-bench's percentage and error, then the errors from runs, tasks and test rows.

    Example: tidegauge bench table sweep
    """
    from tidegauge.bench.mlebench.notices import KINDS
    from tidegauge.bench.sweep.results import read_results
    from tidegauge.bench.sweep.table import (
        aggregate_seeds,
        compare_agents,
        make_competition_table,
        make_table,
    )

    results = read_results(sources, alias=alias)
    if mlebench_json:
        print_json(
            {a: aggregate_seeds(results, a, pad=pad, seeds=seeds).document()
             for a in results.agents}
        )  # fmt: skip
        return
    if by == "competition":
        rows: list[Any] = list(make_competition_table(results))
    else:
        rows = list(make_table(results, pad=pad, seeds=seeds))
    document: dict[str, Any] = {"rows": [asdict(row) for row in rows]}
    if drop is not None:
        kinds = drop.split(",")
        if unknown := [kind for kind in kinds if kind not in KINDS]:
            raise click.UsageError(f"--drop {unknown[0]}: choose from {', '.join(KINDS)}")
        kept = make_table(results.without(kinds), pad=pad, seeds=seeds)
        document[f"without {drop}"] = [asdict(row) for row in kept]
    if pair is not None:
        document["pair"] = asdict(compare_agents(results, *pair, seed=seed))
    if as_json:
        print_json(document)
        return
    for name, part in document.items():
        if name != "rows":
            click.echo(f"\n{name}")
        _print_rows(part if isinstance(part, list) else [part])
    missing = sum(row.get("missing", 0) for row in document["rows"] if row.get("split") == "all")
    if missing:
        how = "counted as failures" if pad else "left out"
        click.echo(f"{missing} runs are missing; {how}")


def _print_rows(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=None, pad_edge=False)
    for name in rows[0]:
        right = isinstance(rows[0][name], int | float) or rows[0][name] is None
        shown.add_column(name, justify="right" if right else "left", no_wrap=True)
    for row in rows:
        shown.add_row(*map(_cell, row.values()))
    Console(markup=False, highlight=False, width=400).print(shown)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@click.command()
@_sources
@click.option("--out", type=file_type, default=Path("sweep.html"), show_default=True)
@click.option("--pad", is_flag=True, help="Count missing runs as failures, as MLE-bench can.")
@click.option("--alias", help="The agent of reports that name none.")
def report(sources: tuple[Path, ...], out: Path, pad: bool, alias: str | None) -> None:
    """Make one self-contained page of sweeps and grading reports.

    Example: tidegauge bench report sweep --out sweep.html
    """
    from tidegauge.bench.sweep.results import read_results
    from tidegauge.report.bench.page import write_sweep_page

    write_sweep_page(read_results(sources, alias=alias), out, pad=pad)
    click.echo(out)


@click.command()
@click.argument("sweep", type=folder_type)
@click.option("--to", "form", type=Choice(["mlebench"]), required=True)
@click.option("--out", type=folder_type, required=True, help="Where the run groups go.")
def export(sweep: Path, form: str, out: Path) -> None:
    """Write a sweep as MLE-bench's run groups, each with its grading report.

    Example: tidegauge bench export sweep --to mlebench --out runs
    """
    from tidegauge.bench.sweep.exchange import export_run_groups

    for folder in export_run_groups(sweep, out):
        click.echo(folder)


@click.command("import")
@click.argument("form", type=Choice(["mlebench"]))
@click.argument("folder", type=folder_type)
@click.option("--runs", type=file_type, default=Path("runs.jsonl"), show_default=True)
@quiet_option
def import_command(form: str, folder: Path, runs: Path, progress: Progress) -> None:
    """Append the grading reports of MLE-bench's run groups to a file of records.

    Example: tidegauge bench import mlebench mle-bench/runs --runs runs.jsonl
    """
    from tidegauge.bench.sweep.exchange import import_run_groups

    click.echo(f"{import_run_groups(folder, runs):,} new records in {runs}")
