"""``tidegauge bench``: pose ML competitions offline, run agents on them, grade them."""

from __future__ import annotations

from pathlib import Path

import click

from tidegauge.cli.bench.check import check
from tidegauge.cli.bench.listing import list_command
from tidegauge.cli.bench.options import (
    always_json_option,
    checkout_options,
    competition_argument,
    file_type,
    folder_type,
    leaderboard_option,
    open_competition,
    prepared_option,
    print_report,
)
from tidegauge.cli.bench.run import run
from tidegauge.cli.bench.similar import similar
from tidegauge.cli.bench.sweep import sweep
from tidegauge.cli.bench.table import export, import_command, table
from tidegauge.cli.bench.table import report as report_command
from tidegauge.cli.bench.verify import verify
from tidegauge.cli.options import (
    CompetitionName,
    OutputFolder,
    json_option,
    quiet_option,
    seed_option,
)
from tidegauge.cli.output import print_json
from tidegauge.progress import Progress


@click.group()
def bench() -> None:
    """Pose ML competitions offline, run agents on them, grade them.

    Example: tidegauge bench prepare osic --simulate --out prepared
    """


bench.add_command(list_command)
bench.add_command(check)
bench.add_command(run)
bench.add_command(similar)
bench.add_command(sweep)
bench.add_command(table)
bench.add_command(report_command)
bench.add_command(export)
bench.add_command(import_command)
bench.add_command(verify)


@bench.command()
@click.argument("competition", type=CompetitionName(), required=False)
@click.option(
    "--raw",
    type=click.Path(path_type=Path),
    help="Folder with the competition's own files, or a .zip of it.",
)
@click.option("--simulate", is_flag=True, help="Make raw data of the same shape instead.")
@click.option("--scans", is_flag=True, help="With --simulate: make scans too.")
@click.option(
    "--out",
    type=OutputFolder(file_okay=False, path_type=Path),
    help="Where public/ and private/ go; for mlebench/<id> by default DATA/<id>.",
)
@click.option(
    "--salt",
    help="With --simulate: make data that can be made again, by agents too; random by default.",
)
@click.option("--no-verify", is_flag=True, help="Take data other than the original.")
@click.option("--copy", is_flag=True, help="Copy scans even where they could be linked.")
@click.option("--split", help="Prepare all competitions of a checkout's split; skip what is done.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="With --split.")
@click.option("--network", is_flag=True, help="Let a checkout's preparer use the network.")
@checkout_options
@seed_option
@quiet_option
def prepare(
    competition: str | None,
    raw: Path | None,
    simulate: bool,
    scans: bool,
    out: Path | None,
    salt: str | None,
    no_verify: bool,
    copy: bool,
    split: str | None,
    jobs: int,
    network: bool,
    seed: int,
    progress: Progress,
) -> int:
    """Split raw data into public files and private answers.

    Example: tidegauge bench prepare osic --raw kaggle/osic.zip --out prepared
    """
    import tidegauge.bench as tb
    from tidegauge.bench.mlebench.competition import CheckoutCompetition

    if (split is None) == (competition is None):
        raise click.UsageError("name a competition, or give --split")
    if split is not None:
        from tidegauge.bench.mlebench.preparation import prepare_split

        done = prepare_split(
            split, jobs=jobs, verify=not no_verify, network=network, progress=progress
        )
        for name, fault in done.items():
            click.echo(f"{name}: {fault or 'prepared'}")
        return 1 if any(done.values()) else 0
    assert competition is not None
    found = tb.get_competition(competition)
    if isinstance(found, CheckoutCompetition):
        from tidegauge.bench.mlebench.preparation import prepare_checkout

        if simulate:
            raise click.UsageError("competitions of a checkout cannot be simulated; give --raw")
        ready = prepare_checkout(
            found, raw, out, verify=not no_verify, network=network, progress=progress
        )
        click.echo(f"{found.competition_id}: {ready.n_rows:,} rows to predict, in {ready.root}")
        return 0
    if simulate == (raw is not None):
        raise click.UsageError("give either --raw or --simulate")
    if out is None:
        raise click.UsageError("Missing option '--out'.")
    if raw is None:
        prepared = tb.simulate(found, out, seed=seed, scans=scans, salt=salt, progress=progress)
    else:
        prepared = tb.prepare(found, raw, out, verify=not no_verify, copy=copy, progress=progress)
    click.echo(f"{found.competition_id}: {prepared.n_rows:,} rows to predict, in {out}")
    return 0


@bench.command()
@competition_argument
@prepared_option
@checkout_options
@click.option("--out", type=folder_type, required=True, help="A new folder.")
@click.option(
    "--hours",
    type=float,
    default=12.0,
    show_default=True,
    help="Budget stated in the instructions.",
)
@click.option(
    "--steps", type=int, default=500, show_default=True, help="Budget stated in the instructions."
)
@click.option("--without-leaks", is_flag=True, help="Leave out files known to leak answers.")
def workspace(
    competition: str,
    prepared: Path | None,
    out: Path,
    hours: float,
    steps: int,
    without_leaks: bool,
) -> None:
    """Make the folder an agent works in.

    Example: tidegauge bench workspace osic --prepared prepared --out workspace
    """
    import tidegauge.bench as tb

    limits = tb.Limits(hours, steps)
    found = open_competition(competition, prepared)
    click.echo(tb.make_workspace(found, out, limits=limits, without_leaks=without_leaks))


@bench.command()
@competition_argument
@prepared_option
@checkout_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=5001, show_default=True)
@click.option(
    "--also", type=click.IntRange(0, 65535), default=5000, show_default=True, help="0 for none."
)
@click.option(
    "--max-mib",
    type=click.IntRange(1, 64),
    help="Largest upload; by default from the rows asked for.",
)
@click.option(
    "--upload-seconds", type=float, default=60.0, show_default=True, help="Longest upload."
)
@quiet_option
def serve(
    competition: str,
    prepared: Path | None,
    host: str,
    port: int,
    also: int,
    max_mib: int | None,
    upload_seconds: float,
    progress: Progress,
) -> None:
    """Answer POST /validate until stopped; never with a score.

    Example: tidegauge bench serve osic --prepared prepared
    """
    from tidegauge.bench import server

    found = open_competition(competition, prepared)
    ports = [port, also] if also else [port]
    sockets = [server.listen(host, number) for number in ports]
    for bound in sockets:
        address, number = bound.getsockname()[:2]
        progress.note(f"validating {competition} on http://{address}:{number}/validate")
    max_bytes = max_mib * 2**20 if max_mib else found.max_bytes
    limits = server.ServerLimits(max_bytes, upload_seconds)
    found.make_ready()
    app = server.make_app(found.check, limits, is_slow=found.checks_slowly)
    server.serve(app, sockets)
    progress.note("stopped")


@bench.command()
@competition_argument
@click.argument("submission", type=file_type)
@prepared_option
@checkout_options
@json_option
def validate(competition: str, submission: Path, prepared: Path | None, as_json: bool) -> int:
    """Check a submission by the code that the server and the grader use.

    Prints every fault.

    Example: tidegauge bench validate osic submission.csv --prepared prepared
    """
    verdict = open_competition(competition, prepared).check(submission)
    if as_json:
        print_json({"valid": verdict.valid, "problems": verdict.problems, "notes": verdict.notes})
    else:
        click.echo(verdict.sentence() if verdict.valid else _listed(verdict.problems))
    return 0 if verdict.valid else 1


def _listed(problems: list[str]) -> str:
    return "\n".join(["Submission invalid!", *(f"- {problem}" for problem in problems)])


@bench.command()
@competition_argument
@click.argument("submission", type=file_type, required=False)
@prepared_option
@checkout_options
@click.option("--strict", is_flag=True, help="Of a checkout: what the sample forbids is invalid.")
@click.option(
    "--se-seconds",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    help="Of a checkout: time for the standard error, 0 for none.",
)
@click.option(
    "--se-draws",
    type=click.IntRange(2),
    default=200,
    show_default=True,
    help="Of a checkout: random halves at most.",
)
@click.option("--report", type=file_type, help="Also write the report to this file.")
@leaderboard_option
@seed_option
@always_json_option
@quiet_option
def grade(
    competition: str,
    submission: Path | None,
    prepared: Path | None,
    strict: bool,
    se_seconds: float,
    se_draws: int,
    report: Path | None,
    leaderboard: Path | None,
    seed: int,
    progress: Progress,
) -> int:
    """Grade a submission, or every line of a .jsonl file of them. Prints the report.

    A .jsonl file in place of the competition is MLE-bench's: each line names its competition.

    Example: tidegauge bench grade osic submission.csv --prepared prepared --report report.json
    """
    from dataclasses import replace

    from tidegauge.bench.competition_folder import Prepared
    from tidegauge.bench.grading import grade_many, grade_submission
    from tidegauge.bench.mlebench.competition import CheckoutPrepared, GradeOptions

    def adjust(found: Prepared) -> Prepared:
        if isinstance(found, CheckoutPrepared):
            return replace(found, options=GradeOptions(strict, se_seconds, se_draws))
        if strict:
            raise click.UsageError("--strict is for checkouts: others are always graded so")
        return found

    if submission is None:
        if not competition.endswith(".jsonl"):
            raise click.UsageError("Missing argument 'SUBMISSION'.")
        submission, found = Path(competition), None
    else:
        found = adjust(open_competition(competition, prepared))
    if found is None or submission.suffix == ".jsonl":
        result = grade_many(
            submission,
            found,
            leaderboard=leaderboard,
            seed=seed,
            progress=progress,
            adjust=adjust,
        )
        passed = result["total_valid_submissions"] == result["total_runs"]
    else:
        graded = grade_submission(found, submission, leaderboard=leaderboard, seed=seed)
        result, passed = graded.report(found.competition), graded.valid
    print_report(result, report)
    return 0 if passed else 1
