"""Write docs/cli-reference.md: every command's help, as the program prints it.

``python -m tidegauge.cli.reference > docs/cli-reference.md``, or ``make docs``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from tidegauge.cli.main import cli

_WIDTH = 96
_HEAD = """# Command line reference

Every command with its options, as `--help` prints them. This page is written by `make docs`; edit
the commands in `src/tidegauge/cli/` instead.

Data go to stdout and progress to stderr. Exit codes: 0 done, 1 done but a check failed (not
converged, submission invalid, result differs), 2 bad input or usage, 130 interrupted. With `--json`
stdout holds one JSON document: NaN is `null`, infinities are `"inf"` and `"-inf"`.
"""


def walk_commands(
    group: click.Group, parent: click.Context | None = None
) -> Iterator[tuple[click.Context, click.Command]]:
    """Yield every command and group below a group, with the context its help is printed in."""
    if parent is None:
        settings = {**group.context_settings, "terminal_width": _WIDTH}
        parent = click.Context(group, info_name="tidegauge", **settings)
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        assert command is not None, name
        below = click.Context(command, info_name=name, parent=parent, terminal_width=_WIDTH)
        yield below, command
        if isinstance(command, click.Group):
            yield from walk_commands(command, below)


def reference_text() -> str:
    """Return the page."""
    parts = [_HEAD]
    for context, command in walk_commands(cli):
        level = "#" * min(len(context.command_path.split()), 3)
        parts.append(f"{level} {context.command_path}\n\n```\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(reference_text())
