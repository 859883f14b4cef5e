"""``tidegauge rerun``: make a result again from its manifest, and check that it is the same."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from tidegauge.cli.invocation import Invocation, read_invocation
from tidegauge.cli.options import OutputFolder, json_option, quiet_option
from tidegauge.errors import InputError
from tidegauge.io import read_file
from tidegauge.manifest import MANIFEST, input_sha256
from tidegauge.progress import SILENT, Progress

if TYPE_CHECKING:
    from tidegauge.engine.folder_comparison import FileComparison, MonteCarlo


def _replacements(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    pairs = dict(value.partition("=")[::2] for value in values)
    if "" in pairs or "" in pairs.values():
        raise click.BadParameter("must be OLD=NEW")
    return pairs


@click.command()
@click.argument("manifest", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Keep the new files in this folder.")
@click.option(
    "--input",
    "moved",
    multiple=True,
    metavar="OLD=NEW",
    callback=_replacements,
    help="Where an input is now; may be repeated.",
)
@click.option("--exact", is_flag=True, help="Equal within Monte Carlo error is not enough.")
@json_option
@quiet_option
def rerun(
    manifest: Path,
    out: Path | None,
    moved: dict[str, str],
    exact: bool,
    as_json: bool,
    progress: Progress,
) -> int:
    """Make a result again from its MANIFEST (or its folder) and compare it.

    Prints a line for each file: "same", or "differs" with the largest relative difference of its
    numbers. Run it in the folder that the command ran in, or say with --input where the inputs
    are. Exit 0 if all files are the same, or if only numbers differ and the posterior means agree
    within Monte Carlo error (not with --exact); 1 if they differ; 2 if an input has changed.

    Example: tidegauge rerun fit/manifest.json
    """
    from tidegauge.engine.folder_comparison import compare_folders, monte_carlo_agreement

    file = manifest / MANIFEST if manifest.is_dir() else manifest
    described = _read_manifest(file)
    recorded = described.command
    invocation = _repeatable(file, recorded.arguments)
    _check_inputs(recorded.inputs, moved, result=file.parent)
    with _target(out, file.parent) as folder:
        words = _placed_words(invocation, folder, moved, quiet=progress is SILENT)
        progress.note(f"tidegauge {' '.join(words)}")
        _run(words)
        files = compare_folders(file.parent, folder)
        agreement = monte_carlo_agreement(file.parent, folder)
        versions = _other_versions(described, _read_manifest(folder / MANIFEST))
    verdict = _verdict(files, agreement)
    if as_json:
        _print_json(verdict, files, agreement, versions)
    else:
        _print_text(verdict, files, agreement, versions)
    return 0 if verdict == _SAME or (verdict == _WITHIN_ERROR and not exact) else 1


_MAX_MANIFEST_BYTES = 2**24
_SAME, _WITHIN_ERROR, _DIFFERS = "same", "same within Monte Carlo error", "differs"


class _Command(msgspec.Struct, frozen=True):
    """The command that made a result, as its manifest has it."""

    arguments: list[str]
    inputs: dict[str, str]
    out: str


class _Manifest(msgspec.Struct, frozen=True):
    """What is read of a manifest; it may come from somebody else."""

    command: _Command
    tidegauge: str = ""
    python: str = ""
    libraries: dict[str, str] = msgspec.field(default_factory=dict)


def _read_manifest(file: Path) -> _Manifest:
    try:
        return msgspec.json.decode(read_file(file, max_bytes=_MAX_MANIFEST_BYTES), type=_Manifest)
    except msgspec.ValidationError as error:
        raise InputError(
            f"{file}: records no command ({error}); it was made from Python or by an older "
            "version, so make the result once more with the command line"
        ) from error
    except (InputError, ValueError, RecursionError) as error:
        raise InputError(f"{file}: not readable as a manifest ({error}); name one") from error


def _check_inputs(recorded: Mapping[str, str], moved: Mapping[str, str], *, result: Path) -> None:
    """Refuse inputs that are not there or not the same, all of them in one message."""
    problems = [f"--input {name}: no such input" for name in moved if name not in recorded]
    for name, expected in recorded.items():
        place = moved.get(name, name)
        # Not a pipe or a device, which would be read for ever.
        there = os.path.isfile(place) or os.path.isdir(place)
        found = input_sha256(Path(place), besides=result) if there else None
        if found is None:
            reason = "was read from stdin" if place == "-" else "is not there"
            problems.append(f"{place}: {reason}; give its place with --input {name}=PATH")
        elif found != expected:
            problems.append(
                f"{place}: its contents have changed (SHA-256 {found[:12]}..., recorded "
                f"{expected[:12]}...); give the original with --input {name}=PATH"
            )
    if problems:
        raise InputError("\n".join(problems))


@contextlib.contextmanager
def _target(out: Path | None, old: Path) -> Iterator[Path]:
    if out is None:
        with tempfile.TemporaryDirectory(prefix="tidegauge-rerun-") as name:
            yield Path(name) / "out"
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out}: already there; name a new folder, so that {old} stays as it is")
    yield out


def _repeatable(file: Path, words: Sequence[str]) -> Invocation:
    """Parse the recorded command line; refuse one that does more than make a folder.

    The manifest may be somebody else's, and ``bench run --agent`` would run what it names.
    """
    invocation = read_invocation(_root(), words)
    if invocation.record() is None:
        raise InputError(
            f"{file}: `{' '.join(invocation.path)}` is no command that makes a result folder, so "
            "no manifest of ours records it; do not trust this one"
        )
    return invocation


def _placed_words(
    invocation: Invocation, out: Path, moved: Mapping[str, str], *, quiet: bool
) -> list[str]:
    """Return the recorded command line with the new folder and where the inputs are now."""

    def place(parameter: click.Parameter, text: str) -> str:
        return str(out) if isinstance(parameter.type, OutputFolder) else moved.get(text, text)

    placed = invocation.words(place)
    if quiet:
        placed.insert(len(invocation.path), "--quiet")
    return placed


def _run(words: Sequence[str]) -> None:
    """Run the command; what it prints is not ours to print."""
    with contextlib.redirect_stdout(io.StringIO()):
        _root().main(args=list(words), prog_name="tidegauge", standalone_mode=False)


def _root() -> click.Group:
    root = click.get_current_context().find_root().command
    assert isinstance(root, click.Group)
    return root


def _other_versions(old: _Manifest, new: _Manifest) -> dict[str, list[str]]:
    def versions(described: _Manifest) -> dict[str, str]:
        own = {"tidegauge": described.tidegauge, "python": described.python}
        return {**own, **described.libraries}

    before, after = versions(old), versions(new)
    return {
        name: [before.get(name, "none"), version]
        for name, version in after.items()
        if before.get(name) != version
    }


def _verdict(files: Sequence[FileComparison], agreement: MonteCarlo | None) -> str:
    from tidegauge.engine.folder_comparison import DRAWN, SAME

    unlike = [file for file in files if file.verdict not in (SAME, DRAWN)]
    if not unlike:
        return _SAME
    only_numbers = all(file.largest_relative_difference is not None for file in unlike)
    return _WITHIN_ERROR if only_numbers and agreement and agreement.agrees else _DIFFERS


def _print_json(
    verdict: str,
    files: Sequence[FileComparison],
    agreement: MonteCarlo | None,
    versions: Mapping[str, Sequence[str]],
) -> None:
    from tidegauge.cli.output import print_json

    print_json(
        {
            "verdict": verdict,
            "files": [asdict(file) for file in files],
            "monte_carlo": agreement and asdict(agreement),
            "other_versions": versions,
        }
    )


def _print_text(
    verdict: str,
    files: Sequence[FileComparison],
    agreement: MonteCarlo | None,
    versions: Mapping[str, Sequence[str]],
) -> None:
    width = max(len(file.name) for file in files)
    for file in files:
        about = file.detail
        if file.largest_relative_difference is not None:
            about = f"largest relative difference {file.largest_relative_difference:.2g}"
        click.echo(f"{file.name:<{width}}  {file.verdict}{f' ({about})' if about else ''}")
    for name, (before, after) in versions.items():
        click.echo(f"made with {name} {before}, now {after}", err=True)
    if verdict != _SAME and agreement:
        click.echo(
            f"posterior means of {agreement.n_parameters} parameters: largest difference "
            f"{agreement.largest_z:.2f} Monte Carlo standard errors, expected below "
            f"{agreement.limit:.2f}"
        )
    click.echo(f"verdict: {verdict}")
