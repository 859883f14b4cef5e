"""``tidegauge horizon compare``: methods side by side, judged on runs they did not see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegauge.cli.horizon.options import (
    complete_method,
    note,
    release_dates_option,
    runs_options,
    workers_option,
)
from tidegauge.cli.options import (
    Choice,
    json_option,
    out_option,
    quiet_option,
    seed_option,
)
from tidegauge.cli.output import print_tables
from tidegauge.horizon.methods.registry import NAMES, VARIANTS, current_name, find_method

if TYPE_CHECKING:
    from tidegauge.horizon import Runs
    from tidegauge.progress import Progress

# As studies/held_out.py has them, without importing it for --help.
_KINDS = ("task", "family", "agent")
_ALL = "all"


def _methods(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> list[str]:
    """Return the methods as they are spelt now; ``all`` is every one there is a name for."""
    names = [current_name(text, note) for text in value]
    return [*NAMES, *VARIANTS] if _ALL in names else names


def _number_of_folds(ctx: click.Context, parameter: click.Parameter, value: str) -> int | None:
    """Return the number of folds, or None for ``all``: one thing held out at a time."""
    if value == _ALL:
        return None
    if not value.isdecimal() or int(value) < 2:
        raise click.BadParameter(f"{value!r} must be a whole number of at least 2, or all")
    return int(value)


@click.command("compare")
@runs_options
@out_option
@click.option(
    "--method",
    "methods",
    multiple=True,
    shell_complete=complete_method,
    default=NAMES,
    show_default=True,
    metavar="NAME[:OPTION=VALUE,...]",
    callback=_methods,
    help="regression, exact, core, full, or a variant, as full:noise=student_t; all also has core "
    "with each option changed alone. May be repeated.",
)
@click.option(
    "--by",
    type=Choice(_KINDS),
    multiple=True,
    default=_KINDS,
    show_default=True,
    help="Hold out tasks, families, or a share of each agent's tasks; may be repeated.",
)
@click.option(
    "--folds",
    metavar="N|all",
    default="5",
    show_default=True,
    callback=_number_of_folds,
    help="Folds of each kind; all holds out one at a time.",
)
@release_dates_option
@workers_option
@seed_option
@json_option
@quiet_option
def compare_command(
    read: Callable[..., Runs],
    out: Path,
    methods: list[str],
    by: tuple[str, ...],
    folds: int | None,
    release_dates: Path | None,
    workers: int | None,
    seed: int,
    as_json: bool,
    progress: Progress,
) -> int:
    """Compare methods on the same runs: horizons, and prediction of runs held out.

    Prints horizons, scores and the worst fitted tasks.

    Example: tidegauge horizon compare runs.jsonl --out comparison
    """
    import tidegauge.horizon as th
    from tidegauge.horizon.store.studies import write_comparison
    from tidegauge.io import check_writable

    check_writable(out)
    for method in methods:
        find_method(method)  # an unknown one is refused before anything is read
    comparison = th.compare(
        read(release_dates=release_dates),
        methods,
        by=by,
        folds=folds,
        seed=seed,
        workers=workers,
        progress=progress,
    )
    with progress.step(f"writing {out}"):
        write_comparison(comparison, out)

    from tidegauge.report.charts import save_charts
    from tidegauge.report.horizon.study_charts import comparison_charts
    from tidegauge.report.horizon.terminal import comparison_text

    if as_json:
        tables = ["compare", "scores", "differences", "loo"]
        print_tables(out, tables, converged=not comparison.unconverged)
    else:
        click.echo(comparison_text(comparison))
    for name in comparison.unconverged:
        click.echo(
            f"not converged: {name} on all runs; its files are written, but do not rely on its "
            "horizons. Try another --seed, or look at `horizon fit --plots`.",
            err=True,
        )
    save_charts(comparison_charts(comparison), out / "plots")
    return 1 if comparison.unconverged else 0
