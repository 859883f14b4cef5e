"""``tidegauge bench list``: the competitions there are, and what is known of each."""

from __future__ import annotations

from typing import Any

import click

from tidegauge.cli.bench.options import checkout_options, settle_killed_runs
from tidegauge.cli.options import Choice, json_option, quiet_option
from tidegauge.cli.output import print_json
from tidegauge.errors import InputError
from tidegauge.progress import Progress

Row = dict[str, Any]


@click.command("list")
@click.option(
    "--source",
    type=Choice(["packages", "mlebench"]),
    default="packages",
    help="Competitions of installed packages, or of a checkout of MLE-bench.",
)
@click.option("--split", help="Of a checkout: low, medium, high, split75, dev, ...")
@checkout_options
@json_option
@quiet_option
def list_command(source: str, split: str | None, as_json: bool, progress: Progress) -> None:
    """List the competitions. Prints a line for each.

    Example: tidegauge bench list
    """
    settle_killed_runs(progress)
    if source == "mlebench" or split is not None:
        rows = _of_checkout(split, progress)
    else:
        rows = _of_packages(progress)
    if as_json:
        print_json({"competitions": rows})
        return
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        click.echo(_line(row, width))
        for notice in row.get("notices", []):
            click.echo(f"    {notice}")


def _of_packages(progress: Progress) -> list[Row]:
    from tidegauge.bench.competitions.registry import competition_names, get_competition

    rows = []
    for name in competition_names():
        try:
            competition = get_competition(name)
        except InputError as error:
            progress.note(str(error))  # one broken package must not hide the others
            continue
        row = {
            "name": name,
            "competition_id": competition.competition_id,
            "title": competition.title,
            "is_lower_better": competition.lower_is_better,
            "human_minutes": competition.human_minutes,
        }
        rows.append(row)
    return rows


def _of_checkout(split: str | None, progress: Progress) -> list[Row]:
    from tidegauge.bench.mlebench.check import missing_packages
    from tidegauge.bench.mlebench.checkout import open_checkout
    from tidegauge.bench.mlebench.client import own_python_is_new
    from tidegauge.bench.mlebench.competition import checkout_competition, open_checkout_prepared

    checkout = open_checkout()
    if own_python_is_new(checkout):
        progress.note(
            "graders would run in tidegauge's own Python, whose pandas is too new for some of "
            "them; make a .venv in the checkout, or pass --mlebench-python"
        )
    names = checkout.split(split) if split else checkout.competition_ids
    missing = missing_packages(checkout, {name: checkout.imports(name, "grade") for name in names})
    rows = []
    for name in names:
        try:
            competition = checkout_competition(checkout, name)
        except InputError as error:
            progress.note(str(error))  # one broken competition must not hide the others
            continue
        try:
            open_checkout_prepared(competition)
            is_prepared = True
        except InputError:
            is_prepared = False
        row = {
            "name": competition.name,
            "competition_id": name,
            "title": competition.title,
            "split": competition.split,
            "is_lower_better": competition.lower_is_better,
            "human_minutes": competition.human_minutes,
            "teams": competition.n_teams,
            "is_prepared": is_prepared,
            "missing_packages": missing[name],
            "lacks": competition.lacks,
            "notices": [f"{notice.kind}: {notice.text}" for notice in competition.notices],
        }
        rows.append(row)
    return rows


def _line(row: Row, width: int) -> str:
    better = {True: "lower", False: "higher", None: "?"}[row["is_lower_better"]]
    if "is_prepared" not in row:
        text = f"{row['name']:<8} {row['competition_id']:<38} {better} is better  {row['title']}"
        return text
    parts = [
        f"{row['name']:<{width}} {row['split'] or '':<6} {better:<6}",
        f"{row['teams']:>5} teams" if row["teams"] else "no teams (git lfs pull)",
        "prepared" if row["is_prepared"] else "not prepared",
    ]
    if row["missing_packages"]:
        parts.append(f"needs {', '.join(row['missing_packages'])}")
    return "  ".join(parts)
