"""ARCHITECTURE.md names every module, and no module that is not there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_architecture_names_every_module() -> None:
    source = ROOT / "src" / "tidegauge"
    modules = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if path.name != "__init__.py"
    }
    named = set(re.findall(r"^- `([\w/]+\.py)`", (ROOT / "ARCHITECTURE.md").read_text(), re.M))
    assert modules - named == set(), "modules that ARCHITECTURE.md does not name"
    gone = {name for name in named if not (source / name).exists()}
    assert gone == set(), "names in ARCHITECTURE.md without a module"
