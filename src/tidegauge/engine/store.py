"""How results are written: tables as CSV, everything else as JSON, with a manifest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.manifest import MANIFEST, manifest, plain, write_json

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MANIFEST", "manifest", "plain", "write_csv", "write_json"]


def write_csv(path: Path, table: pd.DataFrame) -> None:
    """Write a table with enough digits to be read back and few enough to be read."""
    table.to_csv(path, index=False, float_format="%.10g", lineterminator="\n")
