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
    """Simulate run records, fit them by three methods and compare with the truth.

    Example: tidegauge demo --out demo
    """
    click.echo("horizon: how long a task can each agent finish?")
    return horizon_tour(out / "horizon", seed, progress)


def horizon_tour(out: Path, seed: int, progress: Progress) -> int:
    """Simulate, check, fit, compare; return the exit code."""
    import dataclasses

    from tidegauge.horizon.analysis import METHODS, AnalysisOptions, analyse
    from tidegauge.horizon.fit import DEFAULT_SAMPLER
    from tidegauge.horizon.frequentist import FrequentistOptions
    from tidegauge.horizon.outputs import write_outputs
    from tidegauge.horizon.summary import summarise
    from tidegauge.horizon.tally import read_tally
    from tidegauge.horizon.truth import compare_with_truth, read_truth
    from tidegauge.report.horizon import fit_plots, save_truth_chart
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
    click.echo(f"\nfiles and charts: {out}; start with {out / 'comparison.png'}")
    return 0 if converged else 1
