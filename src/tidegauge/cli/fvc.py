"""``tidegauge fvc``: forecast lung capacity from one visit and one scan."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegauge.cli.options import OutputFolder, json_option, quiet_option, seed_option
from tidegauge.cli.output import print_json, print_tables

if TYPE_CHECKING:
    from tidegauge.progress import Progress

_folder = click.Path(path_type=Path, file_okay=False)
_made_folder = OutputFolder(path_type=Path, file_okay=False)
_file = click.Path(path_type=Path, dir_okay=False)

input_option = click.option(
    "--input", "folder", type=_folder, required=True, help="Folder with train.csv and test.csv."
)
workers_option = click.option(
    "--workers", type=click.IntRange(min=1), help="Processes; one for each core by default."
)
scans_option = click.option(
    "--scans/--no-scans", default=True, help="Use scans where the input has them (default)."
)


@click.group()
def fvc() -> None:
    """Forecast lung capacity from one visit and one scan."""


@fvc.command("simulate")
@click.option("--out", type=_made_folder, required=True, help="A folder that is empty or new.")
@click.option("--patients", type=click.IntRange(2, 50_000), default=176, show_default=True)
@click.option("--test-share", type=float, default=0.1, show_default=True)
@click.option("--scans/--no-scans", default=False, help="Draw a DICOM phantom of every patient.")
@seed_option
@quiet_option
def simulate_command(
    out: Path, patients: int, test_share: float, scans: bool, seed: int, progress: Progress
) -> None:
    """Make a cohort with a known truth.

    Example: tidegauge fvc simulate --out cohort
    """
    from tidegauge.simulate.osic import simulate_cohort, write_input

    cohort = simulate_cohort(n_patients=patients, seed=seed)
    write_input(cohort, out, test_share=test_share, scans=scans, seed=seed, progress=progress)
    click.echo(f"{out}: {patients} patients, {len(cohort.visits):,} visits, truth in {out}/truth")


@fvc.command("crossval")
@input_option
@click.option("--out", type=_made_folder, required=True, help="Folder for tables and charts.")
@click.option("--repeats", type=click.IntRange(1, 1000), default=10, show_default=True)
@click.option("--folds", type=click.IntRange(2, 20), default=5, show_default=True)
@scans_option
@workers_option
@seed_option
@json_option
@quiet_option
def crossval_command(
    folder: Path,
    out: Path,
    repeats: int,
    folds: int,
    scans: bool,
    workers: int | None,
    seed: int,
    as_json: bool,
    progress: Progress,
) -> None:
    """Score every forecaster, and the choice among them, on patients they never saw.

    Prints the mean score of each.

    Example: tidegauge fvc crossval --input cohort --out scores --repeats 2
    """
    from tidegauge.fvc.crossval import crossval
    from tidegauge.fvc.data.folder import add_scans, has_scans, read_training
    from tidegauge.report.fvc.page import write_crossval

    cohort = read_training(folder, progress=progress)
    if scans and has_scans(folder, "train"):
        cohort = add_scans(cohort, folder / "train", workers=workers, progress=progress)
    result = crossval(
        cohort, repeats=repeats, folds=folds, seed=seed, workers=workers, progress=progress
    )
    write_crossval(result, out)
    if as_json:
        print_tables(out, ["scores"], warnings=result.warnings())
    else:
        click.echo(result.scores().to_string(index=False, float_format=lambda x: f"{x:.4f}"))
    for line in result.warnings():
        click.echo(f"warning: {line}", err=True)


@fvc.command("fit")
@input_option
@click.option("--model", "model_folder", type=_made_folder, required=True, help="Folder to write.")
@scans_option
@workers_option
@seed_option
@quiet_option
def fit_command(
    folder: Path,
    model_folder: Path,
    scans: bool,
    workers: int | None,
    seed: int,
    progress: Progress,
) -> None:
    """Choose and fit a forecaster, and save it.

    Example: tidegauge fvc fit --input cohort --model model
    """
    from tidegauge.fvc.data.folder import add_scans, has_scans, read_training
    from tidegauge.fvc.solve import fit_model
    from tidegauge.fvc.store import save_model

    cohort = read_training(folder, progress=progress)
    if scans and has_scans(folder, "train"):
        cohort = add_scans(cohort, folder / "train", workers=workers, progress=progress)
    model = fit_model(cohort, seed=seed, workers=workers, progress=progress)
    save_model(model, model_folder)
    click.echo(f"{model_folder}: {model.chosen}, fitted on {cohort.n_patients} patients")


@fvc.command("predict")
@click.option("--model", "model_folder", type=_folder, required=True, help="What `fit` wrote.")
@click.option(
    "--input", "folder", type=_folder, required=True, help="Folder with test.csv and keys."
)
@click.option("--output", type=_file, required=True, help="Submission file to write.")
@workers_option
@quiet_option
def predict_command(
    model_folder: Path, folder: Path, output: Path, workers: int | None, progress: Progress
) -> None:
    """Forecast patients that a saved model never saw.

    Example: tidegauge fvc predict --model model --input cohort --output submission.csv
    """
    from tidegauge.fvc.predict import predict

    n_rows = predict(model_folder, folder, output, workers=workers, progress=progress)
    click.echo(f"{output}: {n_rows:,} rows")


@fvc.command("solve")
@input_option
@click.option("--output", type=_file, required=True, help="Submission file to write.")
@click.option("--time-limit", default="12h", show_default=True, help="Such as 12h, 30m or 90s.")
@click.option("--validate-url", help="Also ask this validation server.")
@click.option(
    "--standing/--no-standing",
    default=True,
    help="Print the cross-validated score and medal odds in the end.",
)
@workers_option
@seed_option
@json_option
@quiet_option
def solve_command(
    folder: Path,
    output: Path,
    time_limit: str,
    validate_url: str | None,
    standing: bool,
    workers: int | None,
    seed: int,
    as_json: bool,
    progress: Progress,
) -> None:
    """Write a valid submission in seconds, then improve it until done or out of time.

    Prints its cross-validated score and its odds of a medal.

    Example: tidegauge fvc solve --input cohort --output submission.csv
    """
    from tidegauge.fvc.solve import parse_duration, solve
    from tidegauge.fvc.submit import validate_at

    solution = solve(
        folder,
        output,
        seed=seed,
        time_limit_seconds=parse_duration(time_limit),
        standing=standing,
        workers=workers,
        progress=progress,
    )
    answer = validate_at(validate_url, output) if validate_url else None
    if as_json:
        print_json({"output": output, **asdict(solution), "validation": answer})
        return
    click.echo(
        f"{output}: {solution.n_rows:,} rows for {solution.n_patients} patients by "
        f"{solution.chosen}, valid, {solution.seconds:.0f} s"
    )
    for line in solution.standing.lines() if solution.standing else []:
        click.echo(line)
    if validate_url:
        click.echo(f"{validate_url}: {answer}")


@fvc.command("report")
@input_option
@click.option("--out", type=_folder, required=True, help="Folder for report.html and charts.")
@click.option("--model", "model_folder", type=_folder, help="A saved model; fitted if not given.")
@scans_option
@workers_option
@seed_option
@quiet_option
def report_command(
    folder: Path,
    out: Path,
    model_folder: Path | None,
    scans: bool,
    workers: int | None,
    seed: int,
    progress: Progress,
) -> None:
    """Write a prognosis of every patient and a calibration page as one HTML file.

    Example: tidegauge fvc report --input cohort --out report
    """
    from tidegauge.report.fvc.page import write_report

    page = write_report(
        folder,
        out,
        model_folder=model_folder,
        scans=scans,
        workers=workers,
        seed=seed,
        progress=progress,
    )
    click.echo(page)
