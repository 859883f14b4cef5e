"""Options and types that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidegauge.errors import did_you_mean
from tidegauge.progress import Progress, make_progress

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Command = Callable[..., Any]


class Choice(click.Choice[str]):
    """One of several names; a misspelt one is answered by the nearest."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return click's sentence and the nearest name."""
        message = super().get_invalid_choice_message(value, ctx)
        return message.removesuffix(".") + did_you_mean(str(value), self.choices) + "."


class OutputFolder(click.Path):
    """The folder that a command makes; any other path it is given, it reads.

    ``tidegauge rerun`` goes by this difference.
    """


class CompetitionName(click.ParamType[str]):
    """A competition's name; the registry refuses unknown ones, the shell completes known ones."""

    name = "competition"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that begin so."""
        from click.shell_completion import CompletionItem

        from tidegauge.bench.competitions.registry import competition_names

        return [CompletionItem(name) for name in competition_names() if name.startswith(incomplete)]


def _to_progress(ctx: click.Context, parameter: click.Parameter, quiet: bool) -> Progress:
    return make_progress(quiet=quiet)


quiet_option = click.option(
    "--quiet",
    "-q",
    "progress",
    is_flag=True,
    callback=_to_progress,
    help="No progress on stderr.",
)

seed_option = click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=1,
    show_default=True,
    help="The same seed gives the same result.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print it as one JSON document.")

runs_argument = click.argument(
    "runs", nargs=-1, required=True, metavar="RUNS...", type=click.Path(allow_dash=True)
)

out_option = click.option(
    "--out", type=OutputFolder(path_type=Path), required=True, help="Folder to write to."
)
