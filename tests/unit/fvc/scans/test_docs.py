"""The documented features are the measured ones."""

from __future__ import annotations

from pathlib import Path

from tidegauge.fvc.scans.features import FEATURES

DOCS = Path(__file__).parents[4] / "docs" / "scans.md"


def test_every_feature_is_documented_with_its_unit_and_range() -> None:
    documented = [line for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    assert documented == [
        f"| `{name}` | {f.unit} | {f.lowest:g} to {f.highest:g} | {f.meaning} |"
        for name, f in FEATURES.items()
    ]
