"""ArviZ imported quietly, by any number of processes at once and without a home to write to.

At its first import of a day ArviZ 0.23 announces its next major version, and notes the day in the
user's cache folder: two processes that do so at once can fail, and so does one that may not write
there.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch


@contextmanager
def quiet_arviz() -> Iterator[None]:
    """Let ArviZ, or what imports it, be imported here; the note goes to a folder of its own."""
    if "arviz" in sys.modules:
        yield
        return
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        with patch("platformdirs.user_cache_dir", lambda *_, **__: folder):
            yield


def arviz() -> Any:
    """Return ArviZ, imported quietly."""
    with quiet_arviz():
        import arviz as az
    return az
