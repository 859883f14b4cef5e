"""ArviZ is imported without writing to the user's cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_sampling_is_imported_where_the_cache_cannot_be_written(tmp_path: Path) -> None:
    """ArviZ alone fails here: it notes in the cache the day of its announcement."""
    blocked = tmp_path / "cache"
    blocked.write_text("a file, no folder")
    environment = {**os.environ, "XDG_CACHE_HOME": str(blocked), "MPLCONFIGDIR": str(tmp_path)}
    code = (
        "import tidegauge.engine.sampling; from tidegauge.engine.arviz_import import arviz; arviz()"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
