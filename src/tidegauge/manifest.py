"""The manifest of a result: what made it, from which bytes, with which settings.

The command line states here which command is running (`recorded_command`), so that every
manifest written meanwhile holds it and ``tidegauge rerun`` can repeat it.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import math
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tidegauge import __version__
from tidegauge.io import open_binary, sha256_of

MANIFEST = "manifest.json"
_LIBRARIES = ("numpy", "scipy", "numba", "nutpie", "pymc", "arviz")
_STDIN = {"-": "<stdin>"}  # as the reader of run records names it


@dataclass(frozen=True)
class RecordedCommand:
    """A command as the user gave it.

    Attributes
    ----------
    arguments : sequence of str
        Its words in canonical order, paths as given: relative to the folder it ran in.
    inputs : sequence of str
        Those of the words that name files and folders it reads.
    out : str
        The one that names the folder it writes.
    """

    arguments: Sequence[str]
    inputs: Sequence[str]
    out: str


_running: ContextVar[Callable[[], RecordedCommand | None]] = ContextVar(
    "running command", default=lambda: None
)


@contextlib.contextmanager
def recorded_command(describe: Callable[[], RecordedCommand | None]) -> Iterator[None]:
    """Record this command in every manifest that the block writes."""
    token = _running.set(describe)
    try:
        yield
    finally:
        _running.reset(token)


def manifest(
    *, kind: str, inputs: Mapping[str, str], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Describe a result.

    Parameters
    ----------
    kind : str
        Such as ``horizon/core``.
    inputs : mapping
        File name to SHA-256 of the uncompressed bytes.
    settings : mapping
        Seeds, options, priors: plain values or dataclasses.
    """
    described = {
        "kind": kind,
        "tidegauge": __version__,
        "created_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "libraries": _library_versions(),
        "inputs": dict(inputs),
        "settings": plain(settings),
    }
    if command := _running.get()():
        described["command"] = {
            "arguments": list(command.arguments),
            "inputs": {
                name: inputs.get(_STDIN.get(name, name))
                or input_sha256(Path(name), besides=Path(command.out))
                for name in command.inputs
            },
            "out": command.out,
        }
    return described


def _library_versions() -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def input_sha256(path: Path, *, besides: Path) -> str:
    """Return the SHA-256 of a file's uncompressed bytes, or of all names and files of a folder.

    The result itself may lie in that folder: what is in `besides` does not count.
    """
    if not path.is_dir():
        with open_binary(path) as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()  # type: ignore[arg-type]
    digest = hashlib.sha256()
    result = besides.resolve()
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        if file.resolve().is_relative_to(result):
            continue
        digest.update(f"{file.relative_to(path).as_posix()}\0{sha256_of(file)}\0".encode())
    return digest.hexdigest()


def plain(value: Any) -> Any:
    """Turn dataclasses, arrays, paths and dates into what JSON can hold; infinity to text."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy's arrays and numbers
        return plain(value.tolist())
    if isinstance(value, Path | datetime.date):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON with a final newline."""
    path.write_text(json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
