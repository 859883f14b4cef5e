"""Files: whole or not at all.

Artefacts replace atomically, a set of artefacts replaces as one, and records are appended as
whole lines that concurrent writers cannot interleave.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, BinaryIO, cast

from tidegauge.errors import InputError

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
    if str(path) == "-":
        return sys.stdin.buffer
    try:
        stream = open(path, "rb")  # noqa: SIM115 - the caller closes it
        magic = stream.read(2)
        if magic == b"\x1f\x8b":
            stream.seek(0)
            return cast(BinaryIO, gzip.GzipFile(fileobj=stream))
        # A pipe cannot seek back, so the two bytes are looked at through a buffer instead.
        if not stream.seekable():
            return cast(BinaryIO, _Replay(magic, stream))
        stream.seek(0)
        return stream
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror or error}; check the path and its permissions"
        ) from error


class _Replay:
    """A pipe whose first bytes were already read."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head, self._rest = head, rest

    def readline(self, limit: int = -1) -> bytes:
        if not self._head:
            return self._rest.readline(limit)
        head, self._head = self._head, b""
        if (newline := head.find(b"\n")) >= 0:
            self._head = head[newline + 1 :]
            return head[: newline + 1]
        return head + self._rest.readline(limit - len(head) if limit >= 0 else -1)

    def read(self, size: int = -1) -> bytes:
        head, self._head = self._head, b""
        return head + self._rest.read(size - len(head) if size >= 0 else -1)

    def close(self) -> None:
        self._rest.close()


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
    make_folder(path.parent)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
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
    folder = Path(folder)
    make_folder(folder)
    finish_commit(folder)
    _remove_abandoned_staging(folder)
    staging = Path(tempfile.mkdtemp(prefix=f"{_STAGING_PREFIX}{os.getpid()}-", dir=folder))
    try:
        yield staging
        stale = [name for name in owned if not (staging / name).exists()]
        (staging / _STALE).write_text("\n".join(stale), encoding="utf-8")
        for path in staging.rglob("*"):
            if path.is_file():
                _flush_to_disk(path)
        os.rename(staging, folder / _COMMITTING)  # from here on the new files win
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    finish_commit(folder)


def finish_commit(folder: Path | str) -> None:
    """Complete a replacement that a kill interrupted half-way; otherwise do nothing."""
    folder = Path(folder)
    committing = folder / _COMMITTING
    if not committing.is_dir():
        return
    with contextlib.suppress(FileNotFoundError):
        for name in (committing / _STALE).read_text(encoding="utf-8").split("\n"):
            if name:
                _remove(folder / name)
    for path in sorted(committing.rglob("*")):
        if path.name == _STALE:
            continue
        target = folder / path.relative_to(committing)
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
        if not Path("/proc", pid).exists():
            shutil.rmtree(path, ignore_errors=True)


def _flush_to_disk(path: Path) -> None:
    with open(path, "rb") as handle:
        os.fsync(handle.fileno())


def make_folder(folder: Path) -> Path:
    """Create a folder and its parents.

    Raises
    ------
    InputError
        Something else is in the way, or the place is not writable.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot create this folder ({error.strerror}); choose another place"
        ) from error
    return folder


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
    with open(path, "ab+") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
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
