"""Files: whole or not at all.

Artefacts replace atomically, a set of artefacts replaces as one, and records are appended as
whole lines that concurrent writers cannot interleave.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import io
import math
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from tidegauge.errors import InputError
from tidegauge.system import file_lock, folder_lock, is_alive

_COMMITTING = ".tidegauge-commit"
_NOTE = ".commit"
_COMMIT_SECONDS = 1.0  # a handful of renames takes milliseconds
_MAX_YAML_CHARACTERS = 2**20  # files of options and dates; a longer one takes minutes to parse
_MAX_YAML_VALUES = 2**20
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
        with open(path, encoding="utf-8") as handle:
            text = handle.read(_MAX_YAML_CHARACTERS + 1)
        if len(text) > _MAX_YAML_CHARACTERS:
            raise ValueError(f"longer than {_MAX_YAML_CHARACTERS:,} characters")
        found = yaml.safe_load(text)
        if _expanded_size(found, {}) > _MAX_YAML_VALUES:
            raise ValueError("its aliases repeat each other without end")
        return found
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())  # YAML explains itself over several lines
        raise InputError(f"{path}: not readable as YAML ({reason}); check the file") from error


def _expanded_size(value: Any, known: dict[int, float]) -> float:
    """Count the values of a document as if every alias were written out; infinite in a circle."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        known[id(value)] = math.inf
        items = [*value, *value.values()] if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_expanded_size(item, known) for item in items)
    return known[id(value)]


def read_file(path: Path | str, *, max_bytes: int) -> bytes:
    """Return the bytes of a file that may come from somebody else.

    Raises
    ------
    InputError
        It is not there, is larger, or is no regular file: a pipe would be waited for for ever.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        with open(os.open(path, flags), "rb") as handle:
            status = os.fstat(handle.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InputError(f"{path}: not a regular file; replace it by one")
            if status.st_size > max_bytes:
                raise InputError(f"{path}: larger than {max_bytes:,} bytes; check the file")
            return handle.read()
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{path}: {reason}; check the path and its permissions") from error


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
        with _full_disks(path):
            with open(descriptor, mode, encoding=encoding, newline=newline) as handle:
                yield handle
                handle.flush()
                os.fsync(handle.fileno())
            os.chmod(name, _permissions(path))
            os.replace(name, path)
            _flush_to_disk(path.parent)
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
    old files; a kill during the handful of renames is completed by the next writer, and until
    then readers refuse the folder (`check_complete`).
    """
    folder = make_folder(Path(folder))
    finish_commit(folder)
    _remove_abandoned_staging(folder)
    with _refusals(folder):
        staging = Path(tempfile.mkdtemp(prefix=f"{_STAGING_PREFIX}{os.getpid()}-", dir=folder))
    try:
        with _full_disks(folder):
            yield staging
            for path in staging.rglob("*"):
                if path.is_file():
                    _flush_to_disk(path)
        with _refusals(folder), folder_lock(folder):
            _settle_commit(folder)  # another writer's, killed half-way
            _write_commit_note(folder, staging, owned)
            os.rename(staging, folder / _COMMITTING)  # from here on the new files win
            _settle_commit(folder)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def finish_commit(folder: Path | str) -> None:
    """Complete a replacement that a kill interrupted half-way; for writers of the folder only."""
    folder = Path(folder)
    if os.path.lexists(folder / _COMMITTING):
        with folder_lock(folder):
            _settle_commit(folder)


def check_complete(folder: Path | str) -> None:
    """Refuse to read a folder whose replacement was interrupted half-way; change nothing.

    One that goes on takes a moment and is waited for.

    Raises
    ------
    InputError
        Some of its files are of the older result and some of the newer.
    """
    gives_up_at = time.monotonic() + _COMMIT_SECONDS
    while os.path.lexists(Path(folder, _COMMITTING)) and time.monotonic() < gives_up_at:
        time.sleep(0.01)
    if os.path.lexists(Path(folder, _COMMITTING)):
        raise InputError(
            f"{folder}: writing it was interrupted, so its files are of two results; "
            "run the command that wrote it again"
        )


def _write_commit_note(folder: Path, staging: Path, owned: Sequence[str]) -> None:
    """Write down what the commit removes, and which folder it is.

    The inode identifies a commit made here: one that an archive or a copy brought has another.
    """
    note = "\0".join([_identity(staging), *_stale_names(folder, staging, owned)])
    (staging / _NOTE).write_text(note, encoding="utf-8")
    _flush_to_disk(staging / _NOTE)


def _identity(folder: Path) -> str:
    status = os.lstat(folder)
    return f"{status.st_dev}:{status.st_ino}"


def _stale_names(folder: Path, staging: Path, owned: Sequence[str]) -> list[str]:
    """List what an older result has and the new one does not, inside owned folders too."""
    stale = [name for name in owned if not (staging / name).exists()]
    for name in owned:
        if (staging / name).is_dir() and not (folder / name).is_symlink():
            older = sorted(path.relative_to(folder) for path in (folder / name).rglob("*"))
            stale += [str(path) for path in older if not (staging / path).exists()]
    return stale


def _settle_commit(folder: Path) -> None:
    """Complete the commit in `folder`; can be interrupted anywhere and done again.

    One that was not made by a writer here is discarded: its names are not to be trusted.
    """
    committing = folder / _COMMITTING
    if not os.path.lexists(committing):
        return
    stale = _stale_of(committing)
    if stale is None:
        _remove(committing)
        return
    for name in stale:
        if not _leads_through_link(folder, name):
            _remove(folder / name)
    _move_into(committing, folder)
    shutil.rmtree(committing)
    _flush_to_disk(folder)


def _stale_of(committing: Path) -> list[str] | None:
    """Return the names that a commit of ours removes; None if it is not ours."""
    note = committing / _NOTE
    if committing.is_symlink() or not committing.is_dir() or note.is_symlink():
        return None
    try:
        identity, *stale = note.read_text(encoding="utf-8").split("\0")
    except (OSError, UnicodeDecodeError):
        return None
    outside = [name for name in stale if Path(name).is_absolute() or ".." in Path(name).parts]
    return None if outside or identity != _identity(committing) else stale


def _leads_through_link(folder: Path, name: str) -> bool:
    return any((folder / parent).is_symlink() for parent in list(Path(name).parents)[:-1])


def _move_into(source: Path, target: Path) -> None:
    """Move the files of one folder over those of another; links in the target are replaced."""
    for path in sorted(source.iterdir()):
        place = target / path.name
        if path.name == _NOTE:
            continue
        if path.is_dir() and not path.is_symlink():
            if place.is_symlink() or not place.is_dir():
                _remove(place)
                place.mkdir()
            _move_into(path, place)
        else:
            if place.is_dir() and not place.is_symlink():
                _remove(place)
            os.replace(path, place)


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
    """Make a file's bytes, or a folder's names, survive a power cut."""
    if path.is_dir():
        if os.name == "posix":  # Windows opens no folders, and writes their names through
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        return
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


@contextlib.contextmanager
def _full_disks(path: Path) -> Iterator[None]:
    """Turn a disk that is full or fails, while something is written to it, into the user's error.

    Other errors of the system may be of something else that the block does.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG):
            raise
        raise InputError(
            f"{path}: cannot write there ({error.strerror}); make room, or choose another place"
        ) from error


def append_line(path: Path | str, line: str) -> None:
    """Append one whole line, safe beside other writers; see `append_lines`."""
    append_lines(path, lambda held: [line])


def append_lines(path: Path | str, lines_to_add: Callable[[BinaryIO], Sequence[str]]) -> int:
    """Append whole lines under a lock, all or none, on disk when this returns; return how many.

    Parameters
    ----------
    lines_to_add : callable
        Given the file at its start, while no other writer can change it, returns the lines.

    Raises
    ------
    InputError
        The file cannot be written, or the disk is full: it is then as it was before.
    """
    path = Path(path)
    make_folder(path.parent)
    with _refusals(path), open(path, "ab+") as handle, file_lock(handle.fileno()):
        size = handle.seek(0, os.SEEK_END)
        handle.seek(0)
        lines = [line.rstrip("\n") for line in lines_to_add(cast(BinaryIO, handle))]
        if any("\n" in line for line in lines):
            raise ValueError("each must be a single line")
        if lines:
            # A half line that a killed writer left is closed first: it must not swallow ours.
            start = b"" if size == 0 or _last_byte(handle) == b"\n" else b"\n"
            _write_or_restore(handle, start + "".join(f"{line}\n" for line in lines).encode(), size)
        if size == 0:
            _flush_to_disk(path.parent)  # the file's name
    return len(lines)


def _last_byte(handle: IO[bytes]) -> bytes:
    handle.seek(-1, os.SEEK_END)
    return handle.read(1)


def _write_or_restore(handle: IO[bytes], data: bytes, size: int) -> None:
    """Write all of `data` at the end, or cut the file back to `size` and raise."""
    try:
        # Not through the buffer, which would try again what failed when it is closed.
        while data:
            data = data[os.write(handle.fileno(), data) :]
        os.fsync(handle.fileno())
    except BaseException:
        os.ftruncate(handle.fileno(), size)
        raise


def sha256_of(path: Path | str) -> str:
    """Return the hexadecimal SHA-256 of a file's bytes."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
