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

from tidegauge.cli.options import Choice, Command, runs_argument
from tidegauge.errors import InputError
from tidegauge.horizon.methods.registry import (
    NAMES,
    VARIANTS,
    current_name,
    find_method,
    parse_variant,
)
from tidegauge.horizon.model.option_file import MODELS, OPTION_NAMES, ModelChoice, resolve
from tidegauge.horizon.model.options import CHOICES, HorizonOptions

if TYPE_CHECKING:
    from tidegauge.horizon import Runs
    from tidegauge.progress import Progress

_YAML_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_MODELS = (
    "core: hierarchical, lognormal human times, logistic success. full: adds difficulty beyond "
    "length, runs of a cell that are alike, rounded times, biased estimates, pooled slopes."
)


def runs_options(command: Command) -> Command:
    """Add RUNS, ``--only``, ``--exclude`` and ``--conflicts``.

    The command gets `read`, which reads the runs and takes what else
    `tidegauge.horizon.read_runs` takes.
    """

    @functools.wraps(command)
    def reading(
        *arguments: Any,
        runs: tuple[str, ...],
        only: tuple[str, ...],
        exclude: tuple[str, ...],
        conflicts: str,
        progress: Progress,
        **values: Any,
    ) -> Any:
        def read(**facts: Any) -> Runs:
            from tidegauge.horizon import read_runs

            return read_runs(
                runs, only=only, exclude=exclude, conflicts=conflicts, progress=progress, **facts
            )

        return command(*arguments, read=read, progress=progress, **values)

    form, tail = "FIELD=VALUE", "also VALUE,VALUE, FIELD~PATTERN, FIELD>=NUMBER."
    decorated: Command = click.option(
        "--conflicts",
        type=Choice(["error", "geomean", "first"]),
        default="error",
        show_default=True,
        help="A task whose rows disagree on human_minutes: refuse, take the geometric mean of its "
        "values, or the first.",
    )(reading)
    for flag, help_line in (
        ("--exclude", f"Leave out rows by any field; {tail}"),
        ("--only", f"Keep only such rows; {tail}"),
    ):
        decorated = click.option(flag, multiple=True, metavar=form, help=help_line)(decorated)
    return runs_argument(decorated)


def complete_method(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the methods, and variants of core with one option, that begin so."""
    return [name for name in (*NAMES, *VARIANTS) if name.startswith(incomplete)]


def sampler_options(command: Command) -> Command:
    """Add sizes of the chains; the command gets `sizes`, which has those that were given."""

    @functools.wraps(command)
    def gathered(
        *arguments: Any, draws: int | None, tune: int | None, chains: int | None, **values: Any
    ) -> Any:
        given = {"draws": draws, "tune": tune, "chains": chains}
        sizes = {name: size for name, size in given.items() if size}
        return command(*arguments, sizes=sizes, **values)

    decorated: Command = gathered
    for option in (
        click.option("--chains", type=click.IntRange(1), help="Chains (4)."),
        click.option("--tune", type=click.IntRange(10), help="Tuning draws per chain (500)."),
        click.option("--draws", type=click.IntRange(4), help="Draws kept per chain (1500)."),
    ):
        decorated = option(decorated)
    return decorated


def workers_option(command: Command) -> Command:
    """Add ``--workers``."""
    decorated: Command = click.option(
        "--workers", type=click.IntRange(1), help="Processes; one a core without it."
    )(command)
    return decorated


def release_dates_option(command: Command) -> Command:
    """Add ``--release-dates``."""
    decorated: Command = click.option(
        "--release-dates", type=_YAML_FILE, help="YAML of agents and dates, as METR publishes it."
    )(command)
    return decorated


def model_options(command: Command) -> Command:
    """Add ``--model``, what it starts from and a flag per option; the command gets a `choice`."""

    @functools.wraps(command)
    def resolved(*arguments: Any, model: str | None, **values: Any) -> Any:
        choice = resolve(model=model, **_pop_options(values))
        return command(*arguments, choice=choice, **values)

    decorated = _option_flags(resolved)
    return click.option(
        "--model",
        type=click.Choice(list(MODELS)),
        help=f"{_MODELS}  [default: core]",
    )(decorated)


def method_options(command: Command) -> Command:
    """Add ``--method`` and a flag per option of the models.

    The command gets `method`, the text, and `choice`, the model where the method is one.
    """

    @functools.wraps(command)
    def resolved(*arguments: Any, method: str | None, model: str | None, **values: Any) -> Any:
        if model is not None:
            note(f"--model {model} is now --method {model}")
            if method in (None, "hierarchical"):
                method = model
        method = None if method is None else current_name(method, note)
        given = _pop_options(values)
        name, _, variant = (method or "").partition(":")
        if method is not None and name not in MODELS:
            find_method(method)  # refuses what there is not
            choice = ModelChoice()
            if any(value not in (None, {}) for value in given.values()) or model is not None:
                raise InputError(
                    f"method={name}: has no options of the hierarchical model; leave them out, or "
                    "use --method full"
                )
        else:
            if variant.endswith((".yaml", ".yml")):
                given["file"] = given["file"] or Path(variant)
            else:
                given["flags"] = {**parse_variant(variant), **given["flags"]}
            choice = resolve(model=name or None, **given)
            method = name or choice.model
        return command(*arguments, method=method, choice=choice, **values)

    decorated = _option_flags(resolved)
    decorated = click.option("--model", type=click.Choice(list(MODELS)), hidden=True)(decorated)
    return click.option(
        "--method",
        metavar="NAME[:OPTION=VALUE,...]",
        shell_complete=complete_method,
        help="regression: METR's, with its bootstrap. exact: each agent's own posterior, task "
        f"lengths taken as known. {_MODELS} A variant is written full:noise=student_t.  "
        "[default: core]",
    )(decorated)


def note(sentence: str) -> None:
    """Say something beside the data: on stderr."""
    click.echo(f"note: {sentence}", err=True)


def _pop_options(values: dict[str, Any]) -> dict[str, Any]:
    """Take the options of a model out of a command's values, as `resolve` wants them."""
    given = {name: values.pop(name) for name in OPTION_NAMES}
    return {
        "file": values.pop("options_file"),
        "defaults": values.pop("defaults"),
        "flags": {name: value for name, value in given.items() if value is not None},
    }


def _option_flags(command: Command) -> Command:
    described = _descriptions()
    decorated: Command = command
    for field in reversed(dataclasses.fields(HorizonOptions)):
        decorated = _flag(field.name, described.get(field.name, ""))(decorated)
    decorated = click.option(
        "--options",
        "options_file",
        type=_YAML_FILE,
        help="YAML of model, options and priors; flags win over it.",
    )(decorated)
    decorated = click.option(
        "--defaults/--no-defaults",
        default=None,
        help="Start full from its defaults, or from core: then the options given are all it has.",
    )(decorated)
    return decorated


def agent_options(command: Command) -> Command:
    """Add what is known of the agents: `release_dates`, `groups`, `since`, `frontier`."""

    @functools.wraps(command)
    def dated(*arguments: Any, since: datetime.datetime | None, **values: Any) -> Any:
        return command(*arguments, since=since.date() if since else None, **values)

    decorated: Command = dated
    for option in (
        click.option(
            "--frontier",
            is_flag=True,
            help="Trend through record holders only. They are chosen by noisy measurements, so the "
            "trend lies too high (winner's curse).",
        ),
        click.option(
            "--since",
            type=click.DateTime(["%Y-%m-%d", "%Y-%m", "%Y"]),
            metavar="DATE",
            help="Trend through agents released since then only.",
        ),
        click.option(
            "--groups", type=_YAML_FILE, help="YAML of agents and groups to pool them in."
        ),
        release_dates_option,
    ):
        decorated = option(decorated)
    return decorated


def check_groups(choice: ModelChoice, groups: Path | None) -> None:
    """Refuse groups that the model would not use."""
    if groups and choice.options.pooling not in ("lab", "family"):
        raise InputError("--groups is used by --pooling lab and --pooling family; add one")


def _flag(name: str, help_line: str) -> Any:
    flag = name.replace("_", "-")
    if name in CHOICES:
        return click.option(f"--{flag}", name, type=Choice(CHOICES[name]), help=help_line)
    return click.option(f"--{flag}/--no-{flag}", name, default=None, help=help_line)


def _descriptions() -> dict[str, str]:
    """Read what each option does from the documentation of the options themselves."""
    text = inspect.getdoc(HorizonOptions) or ""
    entries = re.findall(r"^(\w+) : \w+\n((?:    .*\n?)+)", text, re.M)
    return {name: " ".join(lines.replace("`", "").split()) for name, lines in entries}
