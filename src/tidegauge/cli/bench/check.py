"""``tidegauge bench check``: whether the competitions of a checkout work here."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from tidegauge.cli.bench.options import checkout_options, folder_type
from tidegauge.cli.options import json_option, quiet_option
from tidegauge.cli.output import print_json
from tidegauge.progress import Progress


@click.command()
@click.argument("competition", nargs=-1)
@click.option("--split", help="All competitions of a split: low, medium, high, split75, dev, ...")
@click.option("--prepared", type=folder_type, help="Of one competition; DATA/<id> by default.")
@checkout_options
@json_option
@quiet_option
def check(
    competition: tuple[str, ...],
    split: str | None,
    prepared: Path | None,
    as_json: bool,
    progress: Progress,
) -> int:
    """Grade gold, sample and spoiled copies by a checkout's grader; exit 1 if one is broken.

    Prints what is wrong with each competition, and the remedy.

    Example: tidegauge bench check mlebench/spaceship-titanic
    """
    from tidegauge.bench.mlebench.check import check_competition
    from tidegauge.bench.mlebench.checkout import PREFIX, open_checkout

    checkout = open_checkout()
    names = [name.removeprefix(PREFIX) for name in competition]
    names += checkout.split(split) if split else []
    names = list(dict.fromkeys(names or checkout.competition_ids))
    if prepared is not None and len(names) != 1:
        raise click.UsageError("--prepared is the folder of one competition")
    results = []
    with progress.step("checking", total=len(names)) as step:
        for done, name in enumerate(names):
            step.update(done, name)
            results.append(check_competition(checkout, name, prepared))
    if as_json:
        print_json({"competitions": [{**asdict(r), "passed": r.passed} for r in results]})
    else:
        for result in results:
            click.echo(f"{result.competition_id}: {'ok' if result.passed else 'BROKEN'}")
            for text in result.problems:
                click.echo(f"  - {text}")
            for text in result.facts:
                click.echo(f"    {text}")
    return 0 if all(result.passed for result in results) else 1
