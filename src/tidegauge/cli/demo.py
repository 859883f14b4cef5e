"""``tidegauge demo``: the whole tour on simulated data, compared with its truth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegauge.cli.options import quiet_option, seed_option

if TYPE_CHECKING:
    from tidegauge.progress import Progress


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="Folder to write to.",
)
@seed_option
@quiet_option
def demo(out: Path, seed: int, progress: Progress) -> int:
    """Fit simulated run records, and pose, solve and grade a simulated competition.

    Example: tidegauge demo --out demo
    """
    click.echo("horizon: how long a task can each agent finish?")
    code = horizon_tour(out / "horizon", seed, progress)
    click.echo("\nbench and fvc: three agents forecast the lung capacity of 18 patients")
    return max(code, competition_tour(out / "competition", seed, progress))


def horizon_tour(out: Path, seed: int, progress: Progress) -> int:
    """Simulate, check, fit, compare; return the exit code."""
    import dataclasses

    from tidegauge.horizon.analysis import METHODS, AnalysisOptions, analyse
    from tidegauge.horizon.data.counts import read_tally
    from tidegauge.horizon.data.summary import summarise
    from tidegauge.horizon.methods.regression import FrequentistOptions
    from tidegauge.horizon.model.options import DEFAULT_SAMPLER
    from tidegauge.horizon.store.fit_folder import write_outputs
    from tidegauge.horizon.studies.recovery import compare_with_truth, read_truth
    from tidegauge.report.horizon.fit_charts import fit_plots, save_truth_chart
    from tidegauge.report.horizon.page import write_horizon_report
    from tidegauge.simulate.records import write_simulation
    from tidegauge.simulate.runs import scaled_shape, simulate_runs

    shape = scaled_shape(agents=12, tasks=90)
    write_simulation(simulate_runs(shape, seed=seed), out / "data", progress=progress)
    runs = out / "data" / "runs.jsonl"
    for name, value in summarise(read_tally([runs])).lines()[:4]:
        click.echo(f"  {name}: {value}")
    tables, converged = {}, True
    for method in METHODS:
        options = AnalysisOptions(
            method=method,
            sampler=dataclasses.replace(DEFAULT_SAMPLER, seed=seed),
            frequentist=FrequentistOptions(seed=seed),
            release_dates=out / "data" / "release_dates.yaml",
        )
        analysis = analyse([runs], options, progress=progress)
        with progress.step(f"writing {out / method}"):
            plots = fit_plots(analysis)
            write_outputs(dataclasses.replace(analysis.outputs, plots=plots), out / method)
        tables[method] = analysis.outputs.horizons
        converged = converged and analysis.outputs.diagnostics["converged"]
    truth = read_truth(out / "data" / "truth.json")
    comparison = compare_with_truth(tables, truth)
    click.echo(comparison.text())
    save_truth_chart(comparison, out / "comparison")
    page = out / METHODS[0] / "report.html"
    write_horizon_report(out / METHODS[0], page, progress=progress)
    click.echo(f"\nstart with {out / 'comparison.png'} and the report {page}")
    return 0 if converged else 1


def competition_tour(out: Path, seed: int, progress: Progress) -> int:
    """Prepare, run three agents, grade and record them; return the exit code."""
    from tidegauge.bench.agents import SHIPPED
    from tidegauge.bench.competitions.registry import get_competition
    from tidegauge.bench.preparation import simulate_and_prepare
    from tidegauge.bench.run.isolation import choose_isolation
    from tidegauge.bench.run.options import RunOptions
    from tidegauge.bench.run.runner import run_agent
    from tidegauge.errors import InputError
    from tidegauge.horizon.data.counts import read_tally
    from tidegauge.horizon.data.summary import summarise

    try:
        isolation = choose_isolation("auto")
    except InputError:
        isolation = "none"  # our own agents on simulated data: nothing to protect
    # The salt is fixed: these agents are ours, and the same seed shall give the same demo.
    prepared = simulate_and_prepare(
        get_competition("osic"), out / "prepared", seed=seed, salt="demo", progress=progress
    )
    runs, valid = out / "runs.jsonl", True
    runs.unlink(missing_ok=True)
    click.echo(f"{'agent':<8} {'score':>9} {'± se':>7} {'P(medal)':>9} {'seconds':>8}")
    for alias, command in SHIPPED.items():
        options = RunOptions(command=command, alias=alias, isolation=isolation)
        report = run_agent(prepared, out / "runs", runs, options, seed=seed, progress=progress)
        valid = valid and report["valid_submission"]
        click.echo(
            f"{alias:<8} {report['score']:>9.4f} {report['score_se']:>7.3f} "
            f"{report['p_bronze_or_better']:>9.1%} {report['seconds']:>8.1f}"
        )
    summary = summarise(read_tally([runs]))
    click.echo(f"{runs}: {summary.rows} records that `tidegauge horizon` reads")
    return 0 if valid else 1
