"""How the compiled functions of the horizon model are compiled: cached, and free to vectorise."""

from __future__ import annotations

import functools
import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba

_HERE = Path(__file__).parent
_PACKAGE = _HERE.parents[1]
_SOURCES = (
    *(_HERE, _HERE.parent / "model", _HERE.parent / "sampler"),
    _PACKAGE / "engine" / "priors.py",  # codes of the kinds of priors
)


@functools.cache
def source_hash(*places: Path) -> str:
    """Return a hash of the names and contents of these Python files, or of those in folders."""
    digest = hashlib.sha256()
    files = [
        path for place in places for path in (place.glob("*.py") if place.is_dir() else [place])
    ]
    for path in sorted(files):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@contextmanager
def content_cache() -> Iterator[None]:
    """Let numba cache what is declared here in a folder named by the hash of its sources.

    Numba compares a cached function with the time and size of its own file only, but constants
    and inlined functions come from other files: after a change of one of those, or a move of
    them all, it would run the old code.
    """
    before = numba.config.CACHE_DIR
    parent = Path(before) if before else _HERE / "__pycache__"
    folder = parent / f"tidegauge-{source_hash(*_SOURCES)}"
    if not folder.exists():
        for stale in parent.glob("tidegauge-*"):
            shutil.rmtree(stale, ignore_errors=True)
    numba.config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


def _declare(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    # Inlined whole: a function that calls another may get another copy of it in the process that
    # compiled it than from the cache, and the first fit would differ from the next in the last
    # bit.
    compile_ = numba.njit(cache=True, error_model="numpy", forceinline=True, **options)

    @functools.wraps(compile_)
    def declare(function: Callable[..., Any]) -> Any:
        with content_cache():
            return compile_(function)

    return declare


jit = _declare(fastmath={"contract", "reassoc", "nsz"})
jit_exact = _declare(fastmath={"contract"})  # order matters
