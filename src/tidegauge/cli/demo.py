"""``tidegauge demo``: the whole tour on simulated data, compared with its truth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegauge.cli.options import quiet_option, seed_option

if TYPE_CHECKING:
    from tidegauge.horizon.model.option_file import ModelChoice
    from tidegauge.progress import Progress


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="Folder to write to.",
)
@click.option(
    "--method",
    default="core",
    show_default=True,
    metavar="NAME[:OPTION=VALUE,...]",
    help="The hierarchical model: core, full, or a variant, as full:noise=student_t.",
)
@seed_option
@quiet_option
def demo(out: Path, method: str, seed: int, progress: Progress) -> int:
    """Fit simulated run records, and pose, solve and grade a simulated competition.

    Example: tidegauge demo --out demo
    """
    from tidegauge.horizon.methods.registry import model_choice

    choice = model_choice(*method.split(":", 1))
    click.echo("horizon: how long a task can each agent finish?")
    code = horizon_tour(out / "horizon", choice, seed, progress)
    click.echo("\nbench and fvc: three agents forecast the lung capacity of 18 patients")
    return max(code, competition_tour(out / "competition", seed, progress))


def horizon_tour(out: Path, choice: ModelChoice, seed: int, progress: Progress) -> int:
    """Simulate from the model, check, fit, compare; return the exit code."""
    import tidegauge.horizon as th
    from tidegauge.horizon.studies.recovery import compare_with_truth, read_truth
    from tidegauge.report.charts import save_chart, save_charts
    from tidegauge.report.horizon.fit_charts import fit_charts, truth_chart
    from tidegauge.report.horizon.terminal import truth_text
    from tidegauge.simulate.records import write_simulation
    from tidegauge.simulate.runs import scaled_shape, simulate_runs

    shape = scaled_shape(agents=12, tasks=90)
    data = out / "data"
    simulated = simulate_runs(shape, seed=seed, full=choice.model == "full")
    write_simulation(simulated, data, progress=progress)
    runs = th.read_runs(data / "runs.jsonl", release_dates=data / "release_dates.yaml")
    for name, value in runs.summary().head(4).itertuples(index=False):
        click.echo(f"  {name}: {value}")
    sampled = th.fit(runs, choice, seed=seed, progress=progress)
    results = {
        choice.model: sampled,
        "regression": th.fit_regression(runs, seed=seed, progress=progress),
        "exact": th.fit_exact(runs, progress=progress),
    }
    for method, result in results.items():
        with progress.step(f"writing {out / method}"):
            result.save(out / method)
            save_charts(fit_charts(result), out / method / "plots")
    tables = {method: result.metr_table() for method, result in results.items()}
    comparison = compare_with_truth(tables, read_truth(data / "truth.json"))
    click.echo(truth_text(comparison))
    save_chart(truth_chart(comparison), out / "comparison")
    page = out / choice.model / "report.html"
    th.write_report(page, sampled, progress=progress)
    click.echo(f"\nstart with {out / 'comparison.png'} and the report {page}")
    return 0 if sampled.converged else 1


def competition_tour(out: Path, seed: int, progress: Progress) -> int:
    """Prepare, run three agents, grade and record them; return the exit code."""
    from tidegauge.bench.agents import SHIPPED
    from tidegauge.bench.competitions.registry import get_competition
    from tidegauge.bench.preparation import simulate_and_prepare
    from tidegauge.bench.run.isolation import choose_isolation
    from tidegauge.bench.run.options import RunOptions
    from tidegauge.bench.run.runner import run_agent
    from tidegauge.errors import InputError
    from tidegauge.horizon import read_runs

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
    rows = read_runs(runs).summary()["count"].iloc[0]
    click.echo(f"{runs}: {rows} records that `tidegauge horizon` reads")
    return 0 if valid else 1
