"""``tidegauge completion``: the script that lets a shell complete commands, options and names."""

from __future__ import annotations

import click

from tidegauge.cli.options import Choice

VARIABLE = "_TIDEGAUGE_COMPLETE"


@click.command()
@click.argument("shell", type=Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Write the completion script of a shell to stdout.

    For bash, put eval "$(tidegauge completion bash)" into ~/.bashrc; for zsh the same with zsh
    into ~/.zshrc; for fish, save it as ~/.config/fish/completions/tidegauge.fish.

    Example: tidegauge completion bash
    """
    from click.shell_completion import get_completion_class

    root = click.get_current_context().find_root().command
    made = get_completion_class(shell)
    assert made is not None  # all three are click's own
    # Not source(): for bash it would start one to ask for its version.
    script = made(root, {}, "tidegauge", VARIABLE)
    click.echo(script.source_template % script.source_vars())
