"""``tidegauge doctor``: what is installed here, what is missing, and how to get it.

It imports nothing of ours but what the command line itself needs, so that it answers where
an import is broken.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import click

from tidegauge import __version__
from tidegauge.cli.options import json_option
from tidegauge.system import available_cores

OK, MISSING, BROKEN = "ok", "missing", "broken"
_REQUIREMENT = re.compile(r"([\w.-]+)\s*([^;]*?)\s*(?:;\s*(.*))?$")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")
_EXTRAS = {
    "inspect": "horizon import inspect, competitions as Inspect tasks",
    "dask": "work on a Dask cluster",
    "dvc": "the pipeline of pipelines/horizon",
}
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for.

    Attributes
    ----------
    status : str
        ``ok``, ``missing`` (something optional is not there) or ``broken`` (a plain install
        needs it).
    found : str
        Its version, place or error.
    used_for, remedy : str
        What needs it, and how to get it where it is not there.
    """

    name: str
    status: str
    found: str
    used_for: str
    remedy: str = ""


@click.command()
@json_option
def doctor(as_json: bool) -> int:
    """Look at this installation: what is there, what is missing, how to get it.

    Prints a line for each thing.

    Exit 0, or 1 if something that a plain install needs is broken.

    Example: tidegauge doctor
    """
    findings = [*_system(), *_libraries(), *_extras(), *_programs()]
    broken = [finding for finding in findings if finding.status == BROKEN]
    if as_json:
        from tidegauge.cli.output import print_json

        print_json({"ok": not broken, "findings": [asdict(finding) for finding in findings]})
    else:
        _print_table(findings)
    for finding in broken:
        click.echo(f"broken: {finding.name} ({finding.found}): {finding.remedy}", err=True)
    return 1 if broken else 0


def _system() -> Iterator[Finding]:
    yield Finding("tidegauge", OK, __version__, "")
    yield Finding("python", OK, platform.python_version(), "everything")
    system = f"{platform.system()} {platform.machine()}"
    if sys.platform == "linux":
        yield Finding("system", OK, system, "everything")
    else:
        remedy = "a Linux container or virtual machine"
        yield Finding("system", MISSING, system, "bench run, which needs Linux", remedy)
    yield Finding("cores", OK, str(available_cores()), "chains and workers")


def _requirements() -> list[tuple[str, str, str | None]]:
    """Return (distribution, versions, extra) of everything that our own metadata asks for."""
    found = []
    for text in importlib.metadata.requires("tidegauge") or ():
        if form := _REQUIREMENT.match(text):
            extra = _EXTRA.search(form[3] or "")
            found.append((form[1], form[2], extra[1] if extra else None))
    return found


def _libraries() -> Iterator[Finding]:
    try:
        needed = [(name, versions) for name, versions, extra in _requirements() if extra is None]
    except importlib.metadata.PackageNotFoundError:
        found = "run from a source tree that is not installed: libraries cannot be listed"
        yield Finding("installation", MISSING, found, "`tidegauge`", "pip install -e .")
        return
    modules = _modules()
    for name, versions in needed:
        yield _library(name, versions, modules.get(_normal(name), ()))


def _library(name: str, versions: str, modules: Sequence[str]) -> Finding:
    remedy = f"pip install --force-reinstall '{name}{versions}'"
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, BROKEN, "not installed", "a plain install", remedy)
    if not _allows(versions, version):
        found = f"{version}, but {versions} is needed"
        return Finding(name, BROKEN, found, "a plain install", remedy)
    try:
        for module in modules:
            importlib.import_module(module)
    except Exception as error:  # a broken library can fail in any way
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return Finding(name, BROKEN, f"{version}, {reason}", "a plain install", remedy)
    return Finding(name, OK, version, "a plain install")


def _modules() -> dict[str, list[str]]:
    """Return the module to import of each distribution: of its own name, or its first."""
    offered: dict[str, list[str]] = {}
    for module, owners in importlib.metadata.packages_distributions().items():
        for owner in owners:
            offered.setdefault(_normal(owner), []).append(module)
    chosen = {}
    for owner, modules in offered.items():
        own = [module for module in modules if _normal(module) == owner]
        public = [
            module for module in sorted(modules) if module.isidentifier() and module[0] != "_"
        ]
        chosen[owner] = own or public[:1]
    return chosen


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _allows(versions: str, version: str) -> bool:
    try:
        from packaging.specifiers import SpecifierSet
    except ImportError:  # no dependency of ours: without it the version is shown, not judged
        return True
    return SpecifierSet(versions).contains(version, prereleases=True)


def _extras() -> Iterator[Finding]:
    try:
        requirements = _requirements()
    except importlib.metadata.PackageNotFoundError:
        return
    for extra, used_for in _EXTRAS.items():
        names = [name for name, _, own in requirements if own == extra]
        remedy = f"pip install 'tidegauge[{extra}]'"
        try:
            found = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
            yield Finding(f"extra {extra}", OK, found, used_for)
        except importlib.metadata.PackageNotFoundError:
            yield Finding(f"extra {extra}", MISSING, "not installed", used_for, remedy)


def _programs() -> Iterator[Finding]:
    yield _program(
        "C compiler",
        (os.environ.get("CXX", ""), "g++", "clang++"),
        "installing from source, PyMC's own compilation; not for fits",
        "apt-get install g++, or xcode-select --install",
    )
    bubblewrap = _program(
        "bubblewrap",
        ("bwrap",),
        "bench run with agents you do not know",
        "apt-get install bubblewrap",
    )
    if bubblewrap.status == OK and not _bubblewrap_works():
        found = f"{bubblewrap.found}, but it may not make namespaces here"
        remedy = "allow user namespaces, or run as root with --isolation user"
        bubblewrap = Finding("bubblewrap", MISSING, found, bubblewrap.used_for, remedy)
    yield bubblewrap
    remedy = "apt-get install chromium"
    yield _program("chromium", _BROWSERS, "browser tests of the reports; not for reports", remedy)


def _bubblewrap_works() -> bool:
    from tidegauge.bench.run.isolation import bubblewrap_works

    return bubblewrap_works()


def _program(name: str, commands: Sequence[str], used_for: str, remedy: str) -> Finding:
    found = next(filter(None, (shutil.which(command) for command in commands if command)), None)
    if found is None:
        return Finding(name, MISSING, "not found", used_for, remedy)
    return Finding(name, OK, found, used_for)


def _print_table(findings: Sequence[Finding]) -> None:
    """Print a table: by rich on a terminal, plain columns elsewhere or where rich is broken."""
    columns = ("", "status", "found", "used for", "how to get it")
    rows = [tuple(asdict(finding).values()) for finding in findings]
    if sys.stdout.isatty():
        try:
            from rich.console import Console
            from rich.table import Table
            from rich.text import Text
        except Exception:  # shown as broken in the table itself
            pass
        else:
            colours = {OK: "green", MISSING: "yellow", BROKEN: "red"}
            table = Table(*columns, box=None)
            for row in rows:
                name, status, *others = row
                table.add_row(name, Text(status, colours[status]), *map(Text, others))
            Console().print(table, highlight=False)
            return
    widths = [max(len(row[i]) for row in (columns, *rows)) for i in range(len(columns))]
    for row in (columns, *rows):
        cells = (f"{text:<{width}}" for text, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())
