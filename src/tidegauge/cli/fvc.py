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
table_option = click.option(
    "--scan-features",
    "feature_table",
    type=click.Path(path_type=Path, dir_okay=False),
    help="CSV of further features, one row a Patient; a missing patient is missing.",
)


@click.group()
def fvc() -> None:
    """Forecast lung capacity from one visit and one scan."""


@fvc.command("simulate")
@click.option("--out", type=_made_folder, required=True, help="A folder that is empty or new.")
@click.option("--patients", type=click.IntRange(2, 50_000), default=176, show_default=True)
@click.option("--test-share", type=float, default=0.1, show_default=True)
@click.option("--scans/--no-scans", default=False, help="Draw a DICOM phantom of every patient.")
@click.option(
    "--scan-correlation",
    type=click.FloatRange(0, 0.85),
    default=0.2,
    show_default=True,
    help="Of fibrosis on the scan with the speed of decline; an assumption.",
)
@seed_option
@quiet_option
def simulate_command(
    out: Path,
    patients: int,
    test_share: float,
    scans: bool,
    scan_correlation: float,
    seed: int,
    progress: Progress,
) -> None:
    """Make a cohort with a known truth.

    Example: tidegauge fvc simulate --out cohort
    """
    from tidegauge.simulate.osic import simulate_cohort, write_input

    cohort = simulate_cohort(n_patients=patients, scan_correlation=scan_correlation, seed=seed)
    write_input(cohort, out, test_share=test_share, scans=scans, seed=seed, progress=progress)
    click.echo(f"{out}: {patients} patients, {len(cohort.visits):,} visits, truth in {out}/truth")


@fvc.command("crossval")
@input_option
@click.option("--out", type=_made_folder, required=True, help="Folder for tables and charts.")
@click.option("--repeats", type=click.IntRange(1, 1000), default=10, show_default=True)
@click.option("--folds", type=click.IntRange(2, 20), default=5, show_default=True)
@click.option(
    "--visits", type=click.IntRange(2, 20), help="Also score forecasts from up to so many visits."
)
@scans_option
@table_option
@workers_option
@seed_option
@json_option
@quiet_option
def crossval_command(
    folder: Path,
    out: Path,
    repeats: int,
    folds: int,
    visits: int | None,
    scans: bool,
    feature_table: Path | None,
    workers: int | None,
    seed: int,
    as_json: bool,
    progress: Progress,
) -> None:
    """Score every forecaster, and the choice among them, on patients they never saw.

    Prints the mean score of each.

    Example: tidegauge fvc crossval --input cohort --out scores --repeats 2
    """
    from tidegauge.fvc.data.folder import FeatureSource, add_features, read_training
    from tidegauge.fvc.followup import crossval_visits
    from tidegauge.fvc.validation import crossval
    from tidegauge.report.fvc.page import write_crossval

    cohort = read_training(folder, progress=progress)
    source = FeatureSource(scans, feature_table)
    cohort = add_features(cohort, folder, "train", source, workers=workers, progress=progress)
    by_visits = None
    if visits is not None:  # before the rest: it may be refused
        by_visits = crossval_visits(
            cohort,
            most=visits,
            repeats=repeats,
            folds=folds,
            seed=seed,
            workers=workers,
            progress=progress,
        )
    result = crossval(
        cohort, repeats=repeats, folds=folds, seed=seed, workers=workers, progress=progress
    )
    write_crossval(result, out, by_visits=by_visits)
    if as_json:
        print_tables(out, ["scores", "visits"], warnings=result.warnings())
    else:
        for table in (result.scores(), by_visits):
            if table is not None:
                click.echo(table.to_string(index=False, float_format=lambda x: f"{x:.4f}"))
    for line in result.warnings():
        click.echo(f"warning: {line}", err=True)


@fvc.command("fit")
@input_option
@click.option("--model", "model_folder", type=_made_folder, required=True, help="Folder to write.")
@scans_option
@table_option
@workers_option
@seed_option
@quiet_option
def fit_command(
    folder: Path,
    model_folder: Path,
    scans: bool,
    feature_table: Path | None,
    workers: int | None,
    seed: int,
    progress: Progress,
) -> None:
    """Choose and fit a forecaster, and save it.

    Example: tidegauge fvc fit --input cohort --model model
    """
    from tidegauge.fvc.data.folder import FeatureSource
    from tidegauge.fvc.prediction import fit
    from tidegauge.fvc.store import save_model

    source = FeatureSource(scans, feature_table)
    model = fit(folder, source=source, seed=seed, workers=workers, progress=progress)
    save_model(model, model_folder)
    click.echo(f"{model_folder}: {model.chosen}, fitted on {model.training['n_patients']} patients")


@fvc.command("predict")
@click.option("--model", "model_folder", type=_folder, required=True, help="What `fit` wrote.")
@click.option(
    "--input", "folder", type=_folder, required=True, help="Folder with test.csv and keys."
)
@click.option("--output", type=_file, required=True, help="Submission file to write.")
@click.option(
    "--first-visit-only", "first_only", is_flag=True, help="Leave later visits out of the forecast."
)
@scans_option
@table_option
@workers_option
@quiet_option
def predict_command(
    model_folder: Path,
    folder: Path,
    output: Path,
    first_only: bool,
    scans: bool,
    feature_table: Path | None,
    workers: int | None,
    progress: Progress,
) -> None:
    """Forecast patients that a saved model never saw, from every visit they have.

    Example: tidegauge fvc predict --model model --input cohort --output submission.csv
    """
    from tidegauge.fvc.data.folder import FeatureSource
    from tidegauge.fvc.prediction import predict

    n_rows = predict(
        model_folder,
        folder,
        output,
        source=FeatureSource(scans, feature_table),
        first_only=first_only,
        workers=workers,
        progress=progress,
    )
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
@scans_option
@table_option
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
    scans: bool,
    feature_table: Path | None,
    workers: int | None,
    seed: int,
    as_json: bool,
    progress: Progress,
) -> None:
    """Write a valid submission in seconds, then improve it until done or out of time.

    Prints its cross-validated score and its odds of a medal.

    Example: tidegauge fvc solve --input cohort --output submission.csv
    """
    from tidegauge.fvc.data.folder import FeatureSource
    from tidegauge.fvc.solver import parse_duration, solve
    from tidegauge.fvc.submit import validate_at

    solution = solve(
        folder,
        output,
        seed=seed,
        time_limit_seconds=parse_duration(time_limit),
        source=FeatureSource(scans, feature_table),
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
@table_option
@workers_option
@seed_option
@quiet_option
def report_command(
    folder: Path,
    out: Path,
    model_folder: Path | None,
    scans: bool,
    feature_table: Path | None,
    workers: int | None,
    seed: int,
    progress: Progress,
) -> None:
    """Write a prognosis of every patient and a calibration page as one HTML file.

    Example: tidegauge fvc report --input cohort --out report
    """
    from tidegauge.fvc.data.folder import FeatureSource
    from tidegauge.fvc.outlook import find_outlook
    from tidegauge.report.fvc.page import write_report

    outlook = find_outlook(
        folder,
        model_folder=model_folder,
        source=FeatureSource(scans, feature_table),
        workers=workers,
        seed=seed,
        progress=progress,
    )
    click.echo(write_report(outlook, out))


@fvc.command("scan")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--out", type=_folder, required=True, help="Folder for features, mask and overlay.")
@click.option("--fvc", "fvc_ml", type=click.FloatRange(min=0), help="Measured FVC in ml.")
@click.option("--sex", type=click.Choice(["male", "female"]))
@click.option("--height", "height_cm", type=click.FloatRange(100, 230), help="In cm.")
def scan_command(
    folder: Path, out: Path, fvc_ml: float | None, sex: str | None, height_cm: float | None
) -> None:
    """Measure one CT scan: features.json, mask.npz and overlay.png.

    Exits 1 with the reason when the scan cannot be trusted.

    Example: tidegauge fvc scan cohort/train/ID1 --out measured
    """
    from tidegauge.fvc.scans.plausibility import Person
    from tidegauge.fvc.scans.scan import ScanTask, scan_to_folder
    from tidegauge.fvc.scans.workers import call_in_worker

    person = Person(fvc_ml, sex, height_cm)
    lines, refusals = call_in_worker(scan_to_folder, ScanTask(folder, out, person))
    for line in lines:
        click.echo(line)
    for reason in refusals:
        click.echo(f"cannot be trusted: {reason}; look at {out / 'overlay.png'}", err=True)
    if refusals:
        raise SystemExit(1)
