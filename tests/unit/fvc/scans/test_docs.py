"""The documented features are the measured ones."""

from __future__ import annotations

import re
from pathlib import Path

from tidegauge.fvc.scans import features, plausibility
from tidegauge.fvc.scans.features import FEATURES

DOCS = Path(__file__).parents[4] / "docs" / "scans.md"


def test_every_feature_is_documented_with_its_unit_and_range() -> None:
    text = DOCS.read_text().partition("<!-- features -->")[2].partition("<!-- /features -->")[0]
    documented = [line for line in text.splitlines() if line.startswith("| `")]
    assert documented == [
        f"| `{name}` | {f.unit} | {f.lowest:g} to {f.highest:g} | {f.meaning} |"
        for name, f in FEATURES.items()
    ]


def test_every_finding_is_documented() -> None:
    source = Path(plausibility.__file__).read_text() + Path(features.__file__).read_text()
    names = set(re.findall(r'Finding\(\s*"(\w+)"', source))
    assert len(names) >= 12
    assert {name for name in names if f"`{name}`" not in DOCS.read_text()} == set()
