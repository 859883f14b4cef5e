"""How the compiled functions of the horizon model are compiled: cached, and free to vectorise."""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path

import numba

_HERE = Path(__file__).parent
_SOURCES = (
    *("jit.py", "options.py", "layout.py", "packing.py", "kernel*.py", "tree.py"),
    *("scatter.py", "evidence.py", "groups.py", "coordinates.py", "whitening.py"),
)


def _drop_stale_cache() -> None:
    """Remove compiled functions that are older than any file they are made from.

    Numba compares a cached function with its own file only, but constants and inlined functions
    come from the other files: after a change of one of those it would run the old code.
    """
    sources = [path for name in _SOURCES for path in _HERE.glob(name)]
    newest = max(path.stat().st_mtime for path in sources)
    folders = [_HERE / "__pycache__"]
    if numba.config.CACHE_DIR:
        folders += Path(numba.config.CACHE_DIR).glob(f"{_HERE.name}_*")
    for folder in folders:
        for index in folder.glob("*.nbi"):
            with contextlib.suppress(OSError):  # another process, or a folder that is not ours
                if index.stat().st_mtime < newest:
                    index.unlink()


_drop_stale_cache()
# Inlined whole: a function that calls another may get another copy of it in the process that
# compiled it than from the cache, and the first fit would differ from the next in the last bit.
_compile = functools.partial(numba.njit, cache=True, error_model="numpy", forceinline=True)
jit = _compile(fastmath={"contract", "reassoc", "nsz"})
jit_exact = _compile(fastmath={"contract"})  # order matters
