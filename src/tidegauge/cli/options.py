"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from tidegauge.progress import Progress, make_progress

Command = Callable[..., Any]


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
