"""A command line as data: canonical words, what they read, and what they write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from tidegauge.cli.options import OutputFolder
from tidegauge.manifest import RecordedCommand

_PRESENTATION = frozenset({"progress", "as_json"})  # no part of what is written


@dataclass(frozen=True)
class Invocation:
    """A command with the values given to it, as texts.

    Attributes
    ----------
    path : tuple of str
        The names that lead to the command, such as ``("horizon", "fit")``.
    values : dict
        Parameter to what was given: a text, several, or the state of a flag.
    """

    path: tuple[str, ...]
    command: click.Command
    values: dict[str, Any]

    def words(self, place: Callable[[click.Parameter, str], str] | None = None) -> list[str]:
        """Return the command line: options by their long names in declared order, then arguments.

        `place` may put another path in the place of one that was given.
        """
        options: list[str] = []
        arguments: list[str] = []
        for parameter in self.command.params:
            if parameter.name in self.values:
                given = self.texts(parameter)
                if place is not None and isinstance(parameter.type, click.Path):
                    given = [place(parameter, text) for text in given]
                if isinstance(parameter, click.Argument):
                    arguments += given
                elif getattr(parameter, "is_flag", False):
                    options.append(self._flag(parameter))
                else:
                    name = max(parameter.opts, key=len)
                    options += [word for text in given for word in (name, text)]
        looks_like_option = any(text.startswith("-") and text != "-" for text in arguments)
        return [*self.path, *options, *(["--"] if looks_like_option else []), *arguments]

    def _flag(self, parameter: click.Parameter) -> str:
        on = self.values[str(parameter.name)]
        return max(parameter.opts if on else parameter.secondary_opts, key=len)

    def texts(self, parameter: click.Parameter) -> list[str]:
        """Return what a parameter was given, one or more."""
        given = self.values[str(parameter.name)]
        return list(given) if isinstance(given, list | tuple) else [str(given)]

    def paths(self, *, written: bool) -> list[str]:
        """Return the paths that the command writes, or those that it reads."""
        return [
            text
            for parameter in self.command.params
            if parameter.name in self.values and isinstance(parameter.type, click.Path)
            if isinstance(parameter.type, OutputFolder) == written
            for text in self.texts(parameter)
        ]

    def record(self) -> RecordedCommand | None:
        """Return what a manifest keeps; None for a command that makes no single folder."""
        written = self.paths(written=True)
        if len(written) != 1:
            return None
        return RecordedCommand(self.words(), self.paths(written=False), written[0])


def read_invocation(root: click.Group, words: Sequence[str]) -> Invocation:
    """Parse a command line without running it.

    Raises
    ------
    click.UsageError
        There is no such command or option.
    """
    command: click.Command = root
    context = click.Context(root, info_name="tidegauge")
    rest, path = list(words), []
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None, name  # else click has raised
        command = found
        context = click.Context(command, info_name=name, parent=context)
        path.append(str(name))
    given, _, _ = command.make_parser(context).parse_args(args=rest)
    names = {parameter.name for parameter in command.params} - _PRESENTATION
    values = {
        name: value
        for name, value in given.items()
        if name in names and isinstance(value, str | bool | list | tuple)  # else not given
    }
    return Invocation(tuple(path), command, values)
