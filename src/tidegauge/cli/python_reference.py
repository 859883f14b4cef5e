"""Write docs/python-api.md: the public names of each capability, from their docstrings.

``python -m tidegauge.cli.python_reference > docs/python-api.md``, or ``make docs``.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from tidegauge.horizon.model.option_file import make_model

_PACKAGES = ("tidegauge.horizon", "tidegauge.bench", "tidegauge.fvc")
_WIDTH = 96
_HEAD = """# Python reference

The public names of each capability. This page is written by `make docs` from the docstrings in
`src/tidegauge/`; edit those instead. [quickstart.md](quickstart.md) shows the names in use.

Bad input raises an error of `tidegauge.errors`. Doubts about a result are warnings of type
`tidegauge.errors.TideGaugeWarning`. Where a function takes `progress`, the default prints nothing.
"""


def page_text() -> str:
    """Return the page."""
    parts = [_HEAD]
    for package in map(importlib.import_module, _PACKAGES):
        names = getattr(package, "__all__", ())
        if names:
            parts += [f"## {package.__name__}\n", *to_markdown(inspect.getdoc(package) or "")]
        for name in names:
            found = getattr(package, name)
            # `horizon.model` is a package that can be called: this is what the call does.
            parts += _entry(make_model if inspect.ismodule(found) else found, name)
    return "\n".join(parts)


def _entry(found: Any, name: str, *, level: str = "###") -> Iterator[str]:
    """Yield the blocks of one name; those of a class with the members it defines itself."""
    yield f"{level} {name}\n"
    text = inspect.getdoc(found) or ""
    made_by_call = inspect.isclass(found) and "Attributes\n----" not in text
    if made_by_call or inspect.isfunction(found) or inspect.ismethod(found):
        yield f"```\n{call_text(found, name)}\n```\n"
    yield from to_markdown(text)
    if inspect.isclass(found):
        yield from _members(found, name)


def _members(found: type, name: str) -> Iterator[str]:
    """Yield properties as a list and methods as sections, without those of the base class."""
    base = found.__mro__[1]
    if base.__module__.startswith("tidegauge."):
        yield f"Has all members of `{base.__name__}`, and these.\n"
    own = {member: value for member, value in vars(found).items() if not member.startswith("_")}
    own = {
        m: v for m, v in own.items() if v.__doc__ != getattr(getattr(base, m, None), "__doc__", "")
    }
    properties = {
        member: inspect.getdoc(value) or ""
        for member, value in own.items()
        if isinstance(value, property | functools.cached_property)
    }
    if properties:
        yield "**Properties**\n"
        yield "\n".join(_item(f"`{member}`", text) for member, text in properties.items()) + "\n"
    for member, value in own.items():
        if inspect.isfunction(value) or isinstance(value, classmethod | staticmethod):
            yield from _entry(getattr(found, member), f"{name}.{member}", level="####")


def call_text(function: Callable[..., Any], name: str) -> str:
    """Return a function's signature with its annotations, one parameter a line where it is long."""
    signature = inspect.signature(function)
    shown = [_bare(p) for p in signature.parameters.values() if p.name != "self"]
    pieces = [str(parameter) for parameter in shown]
    kinds = [parameter.kind for parameter in shown]
    if inspect.Parameter.VAR_POSITIONAL not in kinds and inspect.Parameter.KEYWORD_ONLY in kinds:
        pieces.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    gives = signature.return_annotation
    end = ")" if gives in (signature.empty, None) else f") -> {gives}"
    line = f"{name}({', '.join(pieces)}{end}"
    return line if len(line) <= _WIDTH else f"{name}(\n    " + ",\n    ".join(pieces) + f",\n{end}"


class _Bare(str):
    """Text whose repr has no quotes, as annotations are to be printed."""

    __slots__ = ()
    __repr__ = str.__str__


def _bare(parameter: inspect.Parameter) -> inspect.Parameter:
    default, annotation = parameter.default, parameter.annotation
    opaque = dataclasses.is_dataclass(default) or " at 0x" in repr(default)
    if opaque:  # nothing a reader could type
        default = _Bare("...")
    if annotation is not parameter.empty:
        annotation = _Bare(annotation)
    return parameter.replace(default=default, annotation=annotation)


def to_markdown(docstring: str) -> Iterator[str]:
    """Yield the blocks of a numpydoc docstring as Markdown."""
    text, *sections = re.split(r"^(\w[\w ]*)\n-{3,}\n", docstring, flags=re.M)
    yield from _prose(text)
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        yield f"**{title}**\n"
        if title in ("Examples", "Notes", "References"):
            yield from _prose(body)
        else:
            yield "\n".join(_items(body)) + "\n"


def _prose(text: str) -> Iterator[str]:
    """Yield paragraphs, and examples of an interactive session as code."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if paragraph.startswith(">>>"):
            yield f"```pycon\n{paragraph}\n```\n"
        elif paragraph:
            yield _code(paragraph) + "\n"


def _items(body: str) -> Iterator[str]:
    """Yield ``name : type`` with the indented text below it, one item of a list each."""
    for entry in re.split(r"\n(?=\S)", body.strip("\n")):
        head, _, below = entry.partition("\n")
        name, _, kind = head.partition(" : ")
        title = f"`{name}`" + (f" ({_code(kind)})" if kind else "")
        yield _item(title, textwrap.dedent(below))


def _item(title: str, text: str) -> str:
    text = _code(" ".join(text.split()))
    item = f"{title}: {text}" if text else title
    return textwrap.fill(item, _WIDTH, initial_indent="- ", subsequent_indent="  ")


def _code(text: str) -> str:
    return text.replace("``", "`")


if __name__ == "__main__":
    sys.stdout.write(page_text())
