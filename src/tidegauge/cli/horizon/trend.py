"""``tidegauge horizon trend``: shapes of the trend, fitted jointly, compared and stacked."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegauge.cli.horizon.options import (
    agent_options,
    filter_options,
    model_options,
    sampler_options,
)
from tidegauge.cli.options import (
    json_option,
    out_option,
    quiet_option,
    runs_argument,
    seed_option,
)
from tidegauge.cli.output import print_tables
from tidegauge.errors import InputError

if TYPE_CHECKING:
    from tidegauge.horizon.data.filters import RowFilter
    from tidegauge.horizon.model.option_file import ModelChoice
    from tidegauge.horizon.trend.frontier import AgentFacts
    from tidegauge.progress import Progress


@click.command("trend")
@runs_argument
@out_option
@model_options
@agent_options
@filter_options
@sampler_options
@seed_option
@json_option
@quiet_option
def trend_command(
    runs: tuple[str, ...],
    out: Path,
    choice: ModelChoice,
    release_dates: Path | None,
    facts: AgentFacts,
    filters: tuple[RowFilter, ...],
    seed: int,
    as_json: bool,
    progress: Progress,
    sizes: dict[str, int],
) -> int:
    """Fit every shape of trend of horizons over release date, compare and stack them.

    Prints doubling times, scores and weights.

    Example: tidegauge horizon trend runs.jsonl --release-dates dates.yaml --out trend --since 2024
    """
    from tidegauge.horizon.model.options import DEFAULT_SAMPLER
    from tidegauge.horizon.store.trend_folder import trends_text, write_trends
    from tidegauge.horizon.trend.comparison import TrendOptions, compare_trends
    from tidegauge.io import check_writable

    if release_dates is None:
        raise InputError("a trend needs --release-dates, a YAML of agents and dates")
    options = TrendOptions(
        release_dates=release_dates,
        model=choice.options,
        priors=choice.priors,
        sampler=dataclasses.replace(DEFAULT_SAMPLER, seed=seed, **sizes),
        patient=not sizes,  # who names the sizes gets exactly those
        facts=facts,
        filters=filters,
    )
    check_writable(out)
    comparison = compare_trends(runs, options, progress=progress)
    from tidegauge.report.horizon.trend_charts import trend_plots  # after the input's faults

    with progress.step(f"writing {out}"):
        write_trends(comparison, out, plots=trend_plots(comparison))
    if as_json:
        print_tables(out, ["trends", "shapes"], converged=not comparison.unconverged)
    else:
        click.echo(trends_text(comparison))
    return _echo_verdict(comparison.unconverged)


def _echo_verdict(unconverged: Sequence[str]) -> int:
    """Say on stderr which fits did not converge; return the exit code."""
    for name in unconverged:
        click.echo(
            f"not converged: trend {name}; its files are written, but do not rely on them. Try "
            "more draws (--draws 4000 --tune 2000) or another --seed.",
            err=True,
        )
    return 1 if unconverged else 0
