"""What commands print on stdout: JSON in one form, the tables of a result folder among it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_TEXTS = dict.fromkeys(("agent", "method", "shape", "forecaster", "family", "release_date"), str)


def print_json(value: Any) -> None:
    """Print one JSON document: NaN as null, infinities as "inf" and "-inf", as in our files."""
    from tidegauge.manifest import plain

    text = json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write(text + "\n")


def print_tables(folder: Path, names: Sequence[str], **facts: Any) -> None:
    """Print tables that were just written to a folder, by name, and further facts.

    From the files, so that what is printed is what they hold; those not there are left out.
    """
    import pandas as pd

    tables = {
        # An agent may be called 4 or NA.
        name: pd.read_csv(
            folder / f"{name}.csv", dtype=_TEXTS, keep_default_na=False, na_values=[""]
        )
        for name in names
        if (folder / f"{name}.csv").exists()
    }
    records = {name: table.to_dict("records") for name, table in tables.items()}
    print_json({"folder": folder, **facts, **records})
