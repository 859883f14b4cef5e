"""Inspect's ``.eval`` logs, read as the ZIP archives they are: whole or crashed."""

from __future__ import annotations

import contextlib
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tidegauge.errors import InputError, MissingExtraError

_MAX_MEMBER_BYTES = 2**28  # of one sample, unpacked; a longer one is no log of a run
_DAMAGE = (
    OSError, EOFError, zipfile.BadZipFile, zlib.error, KeyError, ValueError, RecursionError,
    RuntimeError,  # an encrypted member
)  # fmt: skip
_ZSTANDARD = 93  # the ZIP method of recent logs, which Python learns only in 3.14


class EvalSample(msgspec.Struct, kw_only=True):
    """The fields of a sample that a run record needs; all others are skipped over."""

    id: Any
    epoch: int = 1
    scores: dict[str, dict[str, Any]] | None = None
    metadata: dict[str, Any] = {}
    model_usage: dict[str, dict[str, Any]] | None = None
    started_at: str | None = None
    completed_at: str | None = None
    uuid: str | None = None
    error: Any = None
    limit: Any = None
    invalidation: Any = None


class _Spec(msgspec.Struct, kw_only=True):
    task: str
    model: str = "unknown"


class _Header(msgspec.Struct, kw_only=True):
    eval: _Spec


@dataclass(frozen=True)
class EvalLog:
    """One evaluation: its task, its model and its samples."""

    task: str
    model: str
    samples: list[EvalSample]


def read_eval_log(path: Path) -> EvalLog:
    """Read a log; of a crashed run, what its journal holds.

    Raises
    ------
    InputError
        It is no such archive, or damaged.
    MissingExtraError
        It is compressed in a way that needs the ``inspect`` extra.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            header = "header.json" if "header.json" in names else "_journal/start.json"
            spec = msgspec.json.decode(_member(archive, header), type=_Header).eval
            return EvalLog(spec.task.rpartition("/")[2], spec.model, list(_samples(archive, names)))
    except _DAMAGE as error:
        raise InputError(
            f"{path}: not an Inspect log, or damaged ({error}); give .eval files"
        ) from error


def _samples(archive: zipfile.ZipFile, names: set[str]) -> Iterator[EvalSample]:
    """Yield each sample once: from its own file, or from a summary where it has none."""
    seen = set()
    for name in sorted(name for name in names if name.startswith("samples/")):
        sample = msgspec.json.decode(_member(archive, name), type=EvalSample)
        seen.add((str(sample.id), sample.epoch))
        yield sample
    summaries = [n for n in names if n == "summaries.json" or n.startswith("_journal/summaries/")]
    for name in sorted(summaries):
        for sample in msgspec.json.decode(_member(archive, name), type=list[EvalSample]):
            if (key := (str(sample.id), sample.epoch)) not in seen:
                seen.add(key)
                yield sample


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > _MAX_MEMBER_BYTES:
        raise ValueError(f"{name} is larger than {_MAX_MEMBER_BYTES:,} bytes")
    if archive.getinfo(name).compress_type == _ZSTANDARD:
        with contextlib.suppress(ImportError):
            import zipfile_zstd  # type: ignore[import-not-found, import-untyped, unused-ignore]  # noqa: F401
    try:
        return archive.read(name)
    except NotImplementedError:
        raise MissingExtraError("a log compressed with Zstandard", "inspect") from None
