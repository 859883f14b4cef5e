"""``tidegauge horizon``: check, simulate, graph, fit; the others have files of their own."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidegauge.cli.horizon.compare import compare_command
from tidegauge.cli.horizon.imports import import_group
from tidegauge.cli.horizon.multiverse import multiverse_command
from tidegauge.cli.horizon.options import (
    agent_options,
    filter_options,
    method_options,
    model_options,
    sampler_options,
)
from tidegauge.cli.horizon.report import report
from tidegauge.cli.horizon.trend import trend_command
from tidegauge.cli.options import (
    Choice,
    json_option,
    out_option,
    quiet_option,
    runs_argument,
    seed_option,
)
from tidegauge.cli.output import print_json, print_tables

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.horizon.analysis import Analysis
    from tidegauge.horizon.data.filters import RowFilter
    from tidegauge.horizon.model.option_file import ModelChoice
    from tidegauge.horizon.trend.frontier import AgentFacts
    from tidegauge.progress import Progress


@click.group()
def horizon() -> None:
    """How long a task an AI agent can finish, from run records."""


horizon.add_command(import_group)
horizon.add_command(compare_command)
horizon.add_command(multiverse_command)
horizon.add_command(report)
horizon.add_command(trend_command)


@horizon.command()
@runs_argument
@filter_options
@json_option
@quiet_option
def check(
    runs: tuple[str, ...], filters: tuple[RowFilter, ...], as_json: bool, progress: Progress
) -> None:
    """Check run records. Prints what they hold.

    Example: tidegauge horizon check runs.jsonl
    """
    from tidegauge.horizon.data.counts import read_tally
    from tidegauge.horizon.data.summary import summarise

    summary = summarise(read_tally(runs, filters=filters, progress=progress))
    if as_json:
        print_json(summary)
    else:
        width = max(len(name) for name, _ in summary.lines())
        for name, value in summary.lines():
            click.echo(f"{name:<{width}}  {value}")
    for note in summary.notes:
        progress.note(note)


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
    help="The model that is true; full has difficulty beyond length, wild human times and more.",
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
@runs_argument
@model_options
@agent_options
@filter_options
@quiet_option
def graph(
    runs: tuple[str, ...],
    choice: ModelChoice,
    release_dates: Path | None,
    facts: AgentFacts,
    filters: tuple[RowFilter, ...],
    progress: Progress,
) -> None:
    """Print the model's graph as Mermaid, without fitting anything.

    Example: tidegauge horizon graph runs.jsonl
    """
    from tidegauge.horizon.analysis import AnalysisOptions, read_design
    from tidegauge.horizon.model.specification import build_model, model_graph

    options = AnalysisOptions(
        model=choice.options,
        priors=choice.priors,
        release_dates=release_dates,
        facts=facts,
        filters=filters,
    )
    design = read_design(runs, options, progress=progress).design
    click.echo(model_graph(build_model(design, priors=choice.priors, options=choice.options)))


@horizon.command()
@runs_argument
@out_option
@method_options
@agent_options
@filter_options
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
    runs: tuple[str, ...],
    out: Path,
    plots: bool,
    as_json: bool,
    progress: Progress,
    **choices: Any,
) -> int:
    """Fit time horizons and write them, with their diagnostics, to a folder.

    Prints the horizons of each agent.

    Example: tidegauge horizon fit runs.jsonl --out fit --plots
    """
    from tidegauge.horizon.analysis import analyse
    from tidegauge.horizon.store.fit_folder import write_outputs
    from tidegauge.io import check_writable

    options = _analysis_options(**choices)
    check_writable(out)
    analysis = analyse(runs, options, progress=progress)
    with progress.step(f"writing {out}"):
        write_outputs(analysis.outputs, out)
    if as_json:
        print_tables(out, ["horizons"], diagnostics=analysis.outputs.diagnostics)
    else:
        echo_horizons(analysis.outputs.horizons)
    code = _echo_verdict(analysis)
    if plots:  # last: a chart that cannot be drawn must not cost the fit
        from tidegauge.report.charts import save_charts
        from tidegauge.report.horizon.fit_charts import fit_charts

        with progress.step("drawing"):
            save_charts(fit_charts(analysis), out / "plots")
    return code


def _analysis_options(
    method: str, choice: ModelChoice, seed: int, sizes: dict[str, int], **choices: Any
) -> Any:
    from tidegauge.horizon.analysis import AnalysisOptions
    from tidegauge.horizon.methods.registry import parse_regression
    from tidegauge.horizon.methods.regression import RegressionOptions
    from tidegauge.horizon.model.options import DEFAULT_SAMPLER

    regression = {name: choices.pop(name) for name in ("weighting", "regularisation", "replicates")}
    name, _, variant = method.partition(":")
    if name == "regression":
        regression |= parse_regression(variant)
    return AnalysisOptions(
        method=name,
        model=choice.options,
        priors=choice.priors,
        sampler=dataclasses.replace(DEFAULT_SAMPLER, seed=seed, **sizes),
        patient=not sizes,  # who names the sizes gets exactly those
        regression=RegressionOptions(**regression),
        **choices,
    )


def echo_horizons(table: pd.DataFrame) -> None:
    """Print each agent's horizons in minutes with their 95 % intervals."""
    width = max(len("agent"), *(len(agent) for agent in table["agent"]))
    header = (
        f"{'50 % horizon (min)':>20} {'95 % interval':>22} {'80 %':>9} {'beyond':>7} {'runs':>7}"
    )
    click.echo(f"{'agent':<{width}} {header}")
    for row in table.to_dict("records"):
        interval = f"{row['p50q0.025']:.3g} to {row['p50q0.975']:.3g}"
        click.echo(
            f"{row['agent']:<{width}} {row['p50']:>20.4g} {interval:>22} {row['p80']:>9.3g} "
            f"{row['p50_beyond']:>7.1%} {row['n_runs']:>7,}"
        )


def _echo_verdict(analysis: Analysis) -> int:
    """Say on stderr what failed and what to try; return the exit code."""
    diagnostics = analysis.outputs.diagnostics
    failed = [check for check in diagnostics["checks"] if check["passed"] is False]
    for check_ in failed:
        click.echo(f"check failed: {check_['name']}: {check_['detail']}", err=True)
    if diagnostics["converged"]:
        return 0
    click.echo(
        "not converged: the files are written, but do not rely on them. Try more draws "
        "(--draws 4000 --tune 2000), another --seed, or look at the rank plots (--plots).",
        err=True,
    )
    return 1
