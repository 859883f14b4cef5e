"""``tidegauge horizon``: check, simulate, graph, fit; the others have files of their own."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidegauge.cli.horizon.compare import compare_command
from tidegauge.cli.horizon.imports import export_command, import_group
from tidegauge.cli.horizon.multiverse import multiverse_command
from tidegauge.cli.horizon.options import (
    agent_options,
    check_groups,
    method_options,
    model_options,
    runs_options,
    sampler_options,
)
from tidegauge.cli.horizon.report import report
from tidegauge.cli.horizon.trend import trend_command
from tidegauge.cli.options import (
    Choice,
    json_option,
    out_option,
    quiet_option,
    seed_option,
)
from tidegauge.cli.output import print_json, print_tables

if TYPE_CHECKING:
    import datetime

    from tidegauge.horizon import HorizonResult, Runs
    from tidegauge.horizon.model.option_file import ModelChoice
    from tidegauge.progress import Progress

    ReadRuns = Callable[..., Runs]
    Fit = Callable[[Runs], HorizonResult]


@click.group()
def horizon() -> None:
    """How long a task an AI agent can finish, from run records."""


horizon.add_command(import_group)
horizon.add_command(export_command)
horizon.add_command(compare_command)
horizon.add_command(multiverse_command)
horizon.add_command(report)
horizon.add_command(trend_command)


@horizon.command()
@runs_options
@json_option
@quiet_option
def check(read: ReadRuns, as_json: bool, progress: Progress) -> None:
    """Check run records. Prints what they hold.

    Example: tidegauge horizon check runs.jsonl
    """
    runs = read()
    if as_json:
        print_json(runs.counted)
        return
    lines = runs.lines()
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        click.echo(f"{name:<{width}}  {value}")


@horizon.command()
@out_option
@click.option("--agents", type=click.IntRange(1), help="Agents (33).")
@click.option("--tasks", type=click.IntRange(1), help="Tasks (170).")
@click.option("--rows", type=click.IntRange(1), help="Run records in all (41,629).")
@click.option(
    "--model",
    type=Choice(["core", "full"]),
    default="core",
    show_default=True,
    help="The model that is true; full has residuals, runs that are alike, biased estimates.",
)
@seed_option
@quiet_option
def simulate(
    out: Path,
    agents: int | None,
    tasks: int | None,
    rows: int | None,
    model: str,
    seed: int,
    progress: Progress,
) -> None:
    """Write run records with a known truth, by default at the published scale.

    Example: tidegauge horizon simulate --out simulated
    """
    from tidegauge.simulate.records import write_simulation
    from tidegauge.simulate.runs import PUBLISHED, scaled_shape, simulate_runs

    shape = PUBLISHED
    if agents or tasks or rows:
        shape = scaled_shape(agents=agents, tasks=tasks, rows=rows)
    simulated = simulate_runs(shape, seed=seed, full=model == "full")
    written = write_simulation(simulated, out, progress=progress)
    click.echo(f"{out / 'runs.jsonl'}: {written:,} rows; truth in {out / 'truth.json'}")


@horizon.command()
@runs_options
@model_options
@agent_options
@quiet_option
def graph(
    read: ReadRuns,
    choice: ModelChoice,
    release_dates: Path | None,
    groups: Path | None,
    since: datetime.date | None,
    frontier: bool,
    progress: Progress,
) -> None:
    """Print the model's graph as Mermaid, without fitting anything.

    Example: tidegauge horizon graph runs.jsonl
    """
    from tidegauge.horizon.model.specification import build_model, model_graph
    from tidegauge.horizon.trend.frontier import AgentFacts, place_agents

    check_groups(choice, groups)
    runs = read(release_dates=release_dates, groups=groups)
    placed = place_agents(runs, choice.options, AgentFacts(since=since, frontier=frontier))
    model = build_model(placed.design, priors=choice.priors, options=choice.options)
    click.echo(model_graph(model))


@horizon.command()
@runs_options
@out_option
@method_options
@agent_options
@click.option(
    "--success",
    "rates",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    multiple=True,
    metavar="RATE",
    help="Horizons at this success rate too, in rates.csv; may be repeated.",
)
@click.option("--by-source", is_flag=True, help="Refit each task source alone, in domains.csv.")
@click.option("--plots", is_flag=True, help="Save the checks as PNG and SVG too.")
@sampler_options
@click.option(
    "--regularisation",
    type=click.FloatRange(min=0, min_open=True),
    default=1e-5,
    show_default=True,
    help="Ridge of the regression; METR's first paper used 0.1.",
)
@click.option(
    "--weights",
    "weighting",
    type=Choice(["invsqrt", "equal", "none"]),
    default="invsqrt",
    show_default=True,
    help="Task weights of the regression.",
)
@click.option(
    "--replicates",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="Bootstrap replicates of the regression.",
)
@seed_option
@json_option
@quiet_option
def fit(
    read: ReadRuns,
    out: Path,
    release_dates: Path | None,
    groups: Path | None,
    rates: tuple[float, ...],
    by_source: bool,
    plots: bool,
    as_json: bool,
    progress: Progress,
    **choices: Any,
) -> int:
    """Fit time horizons and write them, with their diagnostics, to a folder.

    Prints the horizons of each agent.

    Example: tidegauge horizon fit runs.jsonl --out fit --plots
    """
    from tidegauge.horizon.horizons.tables import rates_table
    from tidegauge.io import check_writable
    from tidegauge.report.horizon.terminal import result_text

    method, refit = _method(groups=groups, progress=progress, **choices)
    check_writable(out)
    runs = read(release_dates=release_dates, groups=groups)
    result = method(runs)
    tables = {"rates.csv": rates_table(result.estimate, rates)} if rates else {}
    if by_source:
        tables |= _by_source(result, refit, progress)
    with progress.step(f"writing {out}"):
        result.save(out, tables=tables)
    if as_json:
        print_tables(out, ["horizons"], diagnostics=result.diagnostics)
    else:
        click.echo(result_text(result))
    code = _echo_verdict(result)
    if plots:  # last: a chart that cannot be drawn must not cost the fit
        from tidegauge.report.charts import save_charts
        from tidegauge.report.horizon.fit_charts import fit_charts

        with progress.step("drawing"):
            save_charts(fit_charts(result), out / "plots")
    return code


def _method(
    *,
    method: str,
    choice: ModelChoice,
    groups: Path | None,
    seed: int,
    progress: Progress,
    since: datetime.date | None,
    frontier: bool,
    weighting: str,
    regularisation: float,
    replicates: int,
    sizes: Any,
) -> tuple[Fit, Fit]:
    """Return what fits runs as they were asked for, and a source of tasks alone."""
    import tidegauge.horizon as th
    from tidegauge.horizon.methods.registry import parse_regression

    name, _, variant = method.partition(":")
    if name == "regression":
        flags = {
            "weighting": weighting,
            "regularisation": regularisation,
            "replicates": replicates,
        }
        regress = functools.partial(
            th.fit_regression,
            **{**flags, **parse_regression(variant)},
            seed=seed,
            progress=progress,
        )
        return regress, regress
    if name == "exact":
        exact = functools.partial(th.fit_exact, progress=progress)
        return exact, exact
    check_groups(choice, groups)
    sample: Any = functools.partial(th.fit, seed=seed, progress=progress, **sizes)
    alone = dataclasses.replace(choice.options, trend="none")
    return (
        functools.partial(sample, model=choice, since=since, frontier=frontier),
        functools.partial(sample, model=dataclasses.replace(choice, options=alone)),
    )


def _by_source(result: HorizonResult, refit: Fit, progress: Progress) -> dict[str, Any]:
    import pandas as pd

    from tidegauge.horizon.analysis import refit_sources

    refitted = refit_sources(result.runs, refit, progress=progress)
    own = result.tables().get("domains.csv")
    tables = [*([] if own is None else [own]), *refitted.tables]
    return {"domains.csv": pd.concat(tables, ignore_index=True)} if tables else {}


def _echo_verdict(result: HorizonResult) -> int:
    """Say on stderr what failed and what to try; return the exit code."""
    for check_ in result.findings:
        if check_.passed is False:
            click.echo(f"check failed: {check_.name}: {check_.detail}", err=True)
    if result.converged:
        return 0
    click.echo(
        "not converged: the files are written, but do not rely on them. Try more draws "
        "(--draws 4000 --tune 2000), another --seed, or look at the rank plots (--plots).",
        err=True,
    )
    return 1
