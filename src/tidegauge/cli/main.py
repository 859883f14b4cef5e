"""The ``tidegauge`` command: a lazy group, so that ``--help`` imports nothing heavy."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Sequence

import click

from tidegauge import __version__
from tidegauge.errors import TideGaugeError, TideGaugeWarning, did_you_mean
from tidegauge.manifest import RecordedCommand, recorded_command

_COMMANDS = {
    "demo": ("tidegauge.cli.demo:demo", "Simulate, fit and compare: the whole tour in a minute."),
    "horizon": ("tidegauge.cli.horizon:horizon", "How long a task an AI agent can finish."),
    "bench": ("tidegauge.cli.bench:bench", "Pose ML competitions offline and grade them."),
    "fvc": ("tidegauge.cli.fvc:fvc", "Forecast lung capacity from one visit and one scan."),
    "rerun": ("tidegauge.cli.rerun:rerun", "Make a result again from its manifest and compare."),
    "doctor": ("tidegauge.cli.doctor:doctor", "What is installed, what is missing, how to get it."),
    "completion": ("tidegauge.cli.completion:completion", "Completion of commands for a shell."),
}
_WORDS = "tidegauge.words"


class LazyGroup(click.Group):
    """A group that imports a subcommand when it is called, not when it is listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the documentation."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one subcommand."""
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand; a misspelt one is answered by the nearest."""
        if not ctx.resilient_parsing and args[0] not in _COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(
                f"No such command {args[0]!r}{did_you_mean(args[0], _COMMANDS)}.", ctx
            )
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words as they came, for the manifests."""
        ctx.meta[_WORDS] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; a reader of stdout that left early (head, less) is not an error."""

        def describe() -> RecordedCommand | None:
            from tidegauge.cli.invocation import read_invocation

            return read_invocation(self, ctx.meta[_WORDS]).record()

        try:
            with recorded_command(describe):
                return super().invoke(ctx)
        except BrokenPipeError:  # click itself would exit 1
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_line) for name, (_, help_line) in _COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tidegauge")
def cli() -> None:
    """Time horizons of AI agents, ML competitions offline, lung-function forecasts."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: exit 0 done, 1 a check failed, 2 bad input, 130 interrupted."""
    # The commands print what fails; Python's own warnings of it are for a notebook.
    warnings.simplefilter("ignore", TideGaugeWarning)
    try:
        result = cli.main(args=arguments, prog_name="tidegauge", standalone_mode=False)
        code = result if isinstance(result, int) else 0
    except TideGaugeError as error:
        click.echo(f"error: {error}", err=True)
        code = error.exit_code
    except click.ClickException as error:
        error.show()
        code = 2
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        code = 130
    sys.exit(code)


def run() -> None:
    """Be the program: as `main`, but an interrupted process ends at once.

    Threads of the sampler may still run after Ctrl-C and would crash in an interpreter that is
    being taken down; and an interrupt that met an import can make Python end by the signal
    instead of the exit code. All clean-up that matters was done on the way up here.
    """
    try:
        main()
    except SystemExit as done:
        if done.code == 130:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError, AttributeError):
                    stream.flush()
            os._exit(130)
        raise
