"""``tidegauge horizon compare``: methods side by side, judged on runs they did not see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegauge.cli.horizon.options import runs_options
from tidegauge.cli.options import quiet_option, seed_option

if TYPE_CHECKING:
    from tidegauge.horizon import Runs
    from tidegauge.progress import Progress

# As studies/folds.py and methods/registry.py have them, without importing those for --help.
_KINDS = ("task", "family", "agent")
_METHODS = (
    *("frequentist", "grid", "core", "full", "core-censor"),
    *("core-residual-task", "core-residual-family", "core-student-t", "core-weibull"),
    *("core-per-source", "core-half-normal-2", "core-half-cauchy-1", "core-noise-growth"),
    *("core-rounding", "core-estimate-bias", "core-discrimination", "core-pooled"),
    *("core-pooled-lab", "core-pooled-family", "core-continuous"),
)
_ALL = "all"


def _number_of_folds(ctx: click.Context, parameter: click.Parameter, value: str) -> int | None:
    """Return the number of folds, or None for ``all``: one thing held out at a time."""
    if value == _ALL:
        return None
    if not value.isdecimal() or int(value) < 2:
        raise click.BadParameter(f"{value!r} must be a whole number of at least 2, or all")
    return int(value)


@click.command("compare")
@runs_options
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder to write to.")
@click.option(
    "--method",
    "methods",
    type=click.Choice((*_METHODS, _ALL)),
    multiple=True,
    default=_METHODS[:4],
    show_default=True,
    callback=lambda ctx, parameter, value: _METHODS if _ALL in value else value,
    help="What to compare: core-... is core with that one option. May be repeated.",
)
@click.option(
    "--by",
    type=click.Choice(_KINDS),
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
@seed_option
@quiet_option
def compare_command(
    read: Callable[..., Runs],
    out: Path,
    methods: tuple[str, ...],
    by: tuple[str, ...],
    folds: int | None,
    seed: int,
    progress: Progress,
) -> int:
    """Compare methods on the same runs: horizons, and prediction of runs held out.

    Example: tidegauge horizon compare runs.jsonl --out comparison
    """
    import tidegauge.horizon as th
    from tidegauge.horizon.store.studies import write_comparison
    from tidegauge.io import check_writable

    check_writable(out)
    runs = read()
    comparison = th.compare(runs, methods, by=by, folds=folds, seed=seed, progress=progress)
    with progress.step(f"writing {out}"):
        write_comparison(comparison, out)

    from tidegauge.report.charts import save_charts
    from tidegauge.report.horizon.study_charts import comparison_charts
    from tidegauge.report.horizon.terminal import comparison_text

    click.echo(comparison_text(comparison))
    for name in comparison.unconverged:
        click.echo(
            f"not converged: {name} on all runs; its files are written, but do not rely on its "
            "horizons. Try another --seed, or look at `horizon fit --plots`.",
            err=True,
        )
    save_charts(comparison_charts(comparison), out / "plots")
    return 1 if comparison.unconverged else 0
