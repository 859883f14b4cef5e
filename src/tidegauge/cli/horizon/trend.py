"""``tidegauge horizon trend``: shapes of the trend, fitted jointly, compared and mixed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidegauge.cli.horizon.options import (
    agent_options,
    check_groups,
    model_options,
    runs_options,
    sampler_options,
)
from tidegauge.cli.options import (
    json_option,
    out_option,
    quiet_option,
    seed_option,
)
from tidegauge.cli.output import print_tables
from tidegauge.errors import InputError

if TYPE_CHECKING:
    from tidegauge.horizon import Runs
    from tidegauge.horizon.model.option_file import ModelChoice
    from tidegauge.progress import Progress


@click.command("trend")
@runs_options
@out_option
@model_options
@agent_options
@click.option(
    "--success",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    multiple=True,
    metavar="RATE",
    help="Trend of the horizon at this success rate too; may be repeated. Those at 0.5, 0.8, 0.9, "
    "0.95 and 0.99 are always there.",
)
@sampler_options
@seed_option
@json_option
@quiet_option
def trend_command(
    read: Callable[..., Runs],
    out: Path,
    choice: ModelChoice,
    release_dates: Path | None,
    groups: Path | None,
    as_json: bool,
    progress: Progress,
    sizes: Any,
    **choices: Any,
) -> int:
    """Fit every shape of trend of horizons over release date, compare and mix them.

    Prints doubling times, scores and weights, then the trend by success rate.

    Example: tidegauge horizon trend runs.jsonl --release-dates dates.yaml --out trend --since 2024
    """
    import tidegauge.horizon as th
    from tidegauge.horizon.store.studies import write_trends
    from tidegauge.io import check_writable

    if release_dates is None:
        raise InputError("a trend needs --release-dates, a YAML of agents and dates")
    if choice.options.trend != "none":
        raise InputError(f"trend={choice.options.trend}: every shape is fitted; leave it out")
    check_groups(choice, groups)
    check_writable(out)
    runs = read(release_dates=release_dates, groups=groups)
    comparison = th.compare_trends(runs, choice, progress=progress, **sizes, **choices)
    with progress.step(f"writing {out}"):
        write_trends(comparison, out)

    from tidegauge.report.charts import save_charts
    from tidegauge.report.horizon.terminal import trends_text
    from tidegauge.report.horizon.trend_charts import trend_charts

    if as_json:
        print_tables(out, ["trends", "trend_dates", "shapes"], converged=not comparison.unconverged)
    else:
        click.echo(trends_text(comparison))
    code = _echo_verdict(comparison.unconverged)
    save_charts(trend_charts(comparison), out / "plots")
    return code


def _echo_verdict(unconverged: Sequence[str]) -> int:
    """Say on stderr which fits did not converge; return the exit code."""
    for name in unconverged:
        click.echo(
            f"not converged: trend {name}; its files are written, but do not rely on them. Try "
            "more draws (--draws 4000 --tune 2000) or another --seed.",
            err=True,
        )
    return 1 if unconverged else 0
