"""Fits of simulated records beside the truth they were drawn from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class TruthComparison:
    """Horizons of several methods beside the truth.

    `table` has one row per agent and method: agent, method, true, p50, low, high (minutes), inside
    (whether the 95 % interval holds the truth).
    """

    table: pd.DataFrame


def read_truth(path: Path) -> dict[str, float]:
    """Return the true 50 % horizon of each agent, minutes.

    Raises
    ------
    InputError
        Not a truth that ``horizon simulate`` wrote.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {name: float(agent["p50"]) for name, agent in content["agents"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path}: not a truth.json of horizon simulate ({error}); simulate again"
        ) from error


def compare_with_truth(
    tables: Mapping[str, pd.DataFrame], truth: Mapping[str, float]
) -> TruthComparison:
    """Put the horizons of each method beside the truth."""
    import pandas as pd

    rows = []
    for agent in truth:
        for method, table in tables.items():
            found = table[table["agent"] == agent]
            if found.empty:
                continue
            low, high = float(found["p50q0.025"].iloc[0]), float(found["p50q0.975"].iloc[0])
            rows.append(
                {
                    "agent": agent,
                    "method": method,
                    "true": truth[agent],
                    "p50": float(found["p50"].iloc[0]),
                    "low": low,
                    "high": high,
                    "inside": low <= truth[agent] <= high,
                }
            )
    return TruthComparison(pd.DataFrame(rows))
