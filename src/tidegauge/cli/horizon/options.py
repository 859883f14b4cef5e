"""Options that the horizon commands share: the model, its agents, and filters of rows.

The model's flags are made from its options: a new one needs nothing here.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidegauge.cli.options import Command
from tidegauge.errors import InputError
from tidegauge.horizon.model.option_file import MODELS, OPTION_NAMES, resolve
from tidegauge.horizon.model.options import CHOICES, HorizonOptions

if TYPE_CHECKING:
    from tidegauge.horizon import Runs
    from tidegauge.horizon.model.option_file import ModelChoice
    from tidegauge.progress import Progress


def model_options(command: Command) -> Command:
    """Add ``--model``, what it starts from and a flag per option; the command gets a `choice`."""

    @functools.wraps(command)
    def resolved(
        *arguments: Any,
        model: str | None,
        options_file: Path | None,
        defaults: bool | None,
        **values: Any,
    ) -> Any:
        given = {name: values.pop(name) for name in OPTION_NAMES}
        flags = {name: value for name, value in given.items() if value is not None}
        choice: ModelChoice = resolve(
            model=model, file=options_file, flags=flags, defaults=defaults
        )
        return command(*arguments, choice=choice, **values)

    described = _descriptions()
    decorated: Command = resolved
    for field in reversed(dataclasses.fields(HorizonOptions)):
        decorated = _flag(field.name, described.get(field.name, ""))(decorated)
    decorated = click.option(
        "--options",
        "options_file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="YAML of model, options and priors; flags win over it.",
    )(decorated)
    decorated = click.option(
        "--defaults/--no-defaults",
        default=None,
        help="Start full from its defaults, or from core: then the options given are all it has.",
    )(decorated)
    return click.option(
        "--model",
        type=click.Choice(list(MODELS)),
        help="The plan to the letter, or what its reviewers asked for.  [default: core]",
    )(decorated)


def runs_options(command: Command) -> Command:
    """Add RUNS and ``--only``, ``--exclude``; the command gets `read`, which reads the runs.

    `read` takes what else `tidegauge.horizon.read_runs` takes.
    """

    @functools.wraps(command)
    def reading(
        *arguments: Any,
        runs: tuple[str, ...],
        only: tuple[str, ...],
        exclude: tuple[str, ...],
        progress: Progress,
        **values: Any,
    ) -> Any:
        def read(**facts: Any) -> Runs:
            from tidegauge.horizon import read_runs

            return read_runs(runs, only=only, exclude=exclude, progress=progress, **facts)

        return command(*arguments, read=read, progress=progress, **values)

    form, tail = "FIELD=VALUE", "also VALUE,VALUE, FIELD~PATTERN, FIELD>=NUMBER."
    decorated: Command = reading
    for flag, help_line in (
        ("--exclude", f"Leave out rows by any field; {tail}"),
        ("--only", f"Keep only such rows; {tail}"),
    ):
        decorated = click.option(flag, multiple=True, metavar=form, help=help_line)(decorated)
    return click.argument("runs", nargs=-1, required=True, metavar="RUNS...")(decorated)


def agent_options(command: Command) -> Command:
    """Add what is known of the agents: `release_dates`, `groups`, `since`, `frontier`."""

    @functools.wraps(command)
    def dated(*arguments: Any, since: datetime.datetime | None, **values: Any) -> Any:
        return command(*arguments, since=since.date() if since else None, **values)

    yaml_file = click.Path(exists=True, dir_okay=False, path_type=Path)
    decorated: Command = dated
    for option in (
        click.option("--frontier", is_flag=True, help="Trend through record holders only."),
        click.option(
            "--since",
            type=click.DateTime(["%Y-%m-%d", "%Y-%m", "%Y"]),
            metavar="DATE",
            help="Trend through agents released since then only.",
        ),
        click.option("--groups", type=yaml_file, help="YAML of agents and groups to pool them in."),
        click.option(
            "--release-dates",
            type=yaml_file,
            help="YAML of agents and dates, as METR publishes it.",
        ),
    ):
        decorated = option(decorated)
    return decorated


def check_groups(choice: ModelChoice, groups: Path | None) -> None:
    """Refuse groups that the model would not use."""
    if groups and choice.options.pooling not in ("lab", "family"):
        raise InputError("--groups is used by --pooling lab and --pooling family; add one")


def sampler_options(command: Command) -> Command:
    """Add ``--draws``, ``--tune`` and ``--chains``."""
    for option in (
        click.option("--chains", type=click.IntRange(1), help="Chains (4)."),
        click.option("--tune", type=click.IntRange(10), help="Tuning draws per chain (500)."),
        click.option("--draws", type=click.IntRange(4), help="Draws kept per chain (1500)."),
    ):
        command = option(command)
    return command


def _flag(name: str, help_line: str) -> Any:
    flag = name.replace("_", "-")
    if name in CHOICES:
        return click.option(f"--{flag}", name, type=click.Choice(CHOICES[name]), help=help_line)
    return click.option(f"--{flag}/--no-{flag}", name, default=None, help=help_line)


def _descriptions() -> dict[str, str]:
    """Read what each option does from the documentation of the options themselves."""
    text = inspect.getdoc(HorizonOptions) or ""
    entries = re.findall(r"^(\w+) : \w+\n((?:    .*\n?)+)", text, re.M)
    return {name: " ".join(lines.replace("`", "").split()) for name, lines in entries}
