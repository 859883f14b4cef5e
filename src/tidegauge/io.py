"""Files: whole or not at all.

Artefacts replace atomically, a set of artefacts replaces as one, and records are appended as
whole lines that concurrent writers cannot interleave.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from tidegauge.errors import InputError
from tidegauge.system import file_lock, folder_lock, is_alive

_COMMITTING = ".tidegauge-commit"
_STALE = ".stale"
_STAGING_PREFIX = ".tidegauge-staging-"


def open_binary(path: Path | str) -> BinaryIO:
    """Open a file for reading bytes: plain, gzip (by its first two bytes), or ``-`` for stdin.

    Raises
    ------
    InputError
        The file is missing, a folder, or not readable.
    """
    try:
        stream = _stdin() if str(path) == "-" else open(path, "rb")  # noqa: SIM115 - the caller's
        # A pipe cannot seek back, so the first two bytes are looked at without taking them.
        if stream.peek(2)[:2] != b"\x1f\x8b":
            return stream
        unzipped = gzip.GzipFile(fileobj=stream)
        unzipped.myfileobj = stream  # type: ignore[assignment]  # closed together
        return cast(BinaryIO, unzipped)
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror or error}; check the path and its permissions"
        ) from error


def read_yaml(path: Path) -> Any:
    """Read a YAML file.

    Raises
    ------
    InputError
        Not there, or not YAML; the reason is on one line.
    """
    import yaml

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())  # YAML explains itself over several lines
        raise InputError(f"{path}: not readable as YAML ({reason}); check the file") from error


def _stdin() -> io.BufferedReader:
    if sys.stdin is None:
        raise InputError("-: stdin is closed; name a file, or pipe the records in")
    return cast(io.BufferedReader, sys.stdin.buffer)


@contextlib.contextmanager
def atomic_write(path: Path | str, mode: str = "w") -> Iterator[IO[str]]:
    """Write a text file (UTF-8, newline as given) that appears whole when the block ends.

    An exception or a kill inside the block leaves what was there before.
    """
    with _atomic_handle(Path(path), mode, encoding="utf-8", newline="") as handle:
        yield cast("IO[str]", handle)


@contextlib.contextmanager
def atomic_write_bytes(path: Path | str) -> Iterator[BinaryIO]:
    """Write a binary file that appears whole when the block ends."""
    with _atomic_handle(Path(path), "wb", encoding=None, newline=None) as handle:
        yield cast(BinaryIO, handle)


@contextlib.contextmanager
def _atomic_handle(
    path: Path, mode: str, *, encoding: str | None, newline: str | None
) -> Iterator[IO[str] | IO[bytes]]:
    path = Path(os.path.realpath(path))  # a link stays a link to the new file
    if path.exists() and not path.is_file():
        if path.is_dir():
            raise InputError(f"{path}: is a folder; name a file to write to")
        with open(path, mode, encoding=encoding, newline=newline) as handle:  # a pipe, /dev/null
            yield handle
        return
    make_folder(path.parent)
    with _refusals(path):
        descriptor, name = tempfile.mkstemp(
            prefix=f".{path.name}.", suffix=".part", dir=path.parent
        )
    try:
        with open(descriptor, mode, encoding=encoding, newline=newline) as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        os.chmod(name, _permissions(path))
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _permissions(path: Path) -> int:
    """Return what the replaced file had, or what ``open`` would have given a new one."""
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_mode & 0o7777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


@contextlib.contextmanager
def atomic_folder(folder: Path | str, *, owned: Sequence[str] = ()) -> Iterator[Path]:
    """Yield a staging folder whose files replace those of `folder` together.

    Files and folders named in `owned` that the block did not write are removed, so that nothing
    of an older result stays beside the new one; all others stay. A kill before the end leaves the
    old files; a kill during the handful of renames is completed by the next `finish_commit` of
    that folder, which every reader and writer here calls first.
    """
    folder = make_folder(Path(folder))
    finish_commit(folder)
    _remove_abandoned_staging(folder)
    with _refusals(folder):
        staging = Path(tempfile.mkdtemp(prefix=f"{_STAGING_PREFIX}{os.getpid()}-", dir=folder))
    try:
        yield staging
        for path in staging.rglob("*"):
            if path.is_file():
                _flush_to_disk(path)
        with folder_lock(folder):
            _complete(folder)  # another writer's, killed half-way
            stale = "\0".join(_stale_names(folder, staging, owned))
            (staging / _STALE).write_text(stale, encoding="utf-8")
            _flush_to_disk(staging / _STALE)
            os.rename(staging, folder / _COMMITTING)  # from here on the new files win
            _complete(folder)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def _stale_names(folder: Path, staging: Path, owned: Sequence[str]) -> list[str]:
    """List what an older result has and the new one does not, inside owned folders too."""
    stale = [name for name in owned if not (staging / name).exists()]
    for name in owned:
        if (staging / name).is_dir():
            older = sorted(path.relative_to(folder) for path in (folder / name).rglob("*"))
            stale += [str(path) for path in older if not (staging / path).exists()]
    return stale


def finish_commit(folder: Path | str) -> None:
    """Complete a replacement that a kill interrupted half-way; otherwise do nothing."""
    folder = Path(folder)
    if (folder / _COMMITTING).is_dir():
        with folder_lock(folder):
            _complete(folder)


def _complete(folder: Path) -> None:
    """Move the committed files into place; can be interrupted anywhere and done again."""
    committing = folder / _COMMITTING
    if not committing.is_dir():
        return
    with contextlib.suppress(FileNotFoundError):
        for name in (committing / _STALE).read_text(encoding="utf-8").split("\0"):
            if name:
                _remove(folder / name)
    for path in sorted(committing.rglob("*")):
        if path == committing / _STALE:
            continue
        target = folder / path.relative_to(committing)
        if target.is_dir() != path.is_dir():
            _remove(target)
        if path.is_dir():
            target.mkdir(exist_ok=True)
        else:
            os.replace(path, target)
    shutil.rmtree(committing)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _remove_abandoned_staging(folder: Path) -> None:
    # A killed run leaves its staging folder behind; that of a living process is not ours to touch.
    for path in folder.glob(f"{_STAGING_PREFIX}*"):
        pid = path.name.removeprefix(_STAGING_PREFIX).partition("-")[0]
        if not (pid.isdecimal() and is_alive(int(pid))):
            shutil.rmtree(path, ignore_errors=True)


def _flush_to_disk(path: Path) -> None:
    with open(path, "rb+") as handle:  # Windows flushes only what could be written to
        os.fsync(handle.fileno())


def make_folder(folder: Path) -> Path:
    """Create a folder and its parents.

    Raises
    ------
    InputError
        Something else is in the way, or the place is not writable.
    """
    with _refusals(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def check_writable(folder: Path) -> None:
    """Fail before long work if `folder` could not be written to after it; create nothing.

    Raises
    ------
    InputError
        Something else is in the way, or the place is not writable.
    """
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise InputError(f"{folder}: {nearest} is not a folder; choose another place")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise InputError(f"{folder}: {nearest} is not writable; choose another place")


@contextlib.contextmanager
def _refusals(path: Path) -> Iterator[None]:
    """Turn the system's refusal of a place into the user's error."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{path}: cannot write there ({reason}); choose another place") from error


def append_line(path: Path | str, line: str) -> None:
    """Append one whole line, safe beside other writers.

    A half line that a killed writer left at the end is closed first, so it can never swallow the
    new record.
    """
    path = Path(path)
    make_folder(path.parent)
    data = line.rstrip("\n").encode() + b"\n"
    if b"\n" in data[:-1]:
        raise ValueError("append_line takes a single line")
    with _refusals(path):
        handle = open(path, "ab+")  # noqa: SIM115 - closed below
    with handle, file_lock(handle.fileno()):
        if handle.seek(0, os.SEEK_END) > 0:
            handle.seek(-1, os.SEEK_END)
            if handle.read(1) != b"\n":
                data = b"\n" + data
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())


def sha256_of(path: Path | str) -> str:
    """Return the hexadecimal SHA-256 of a file's bytes."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
