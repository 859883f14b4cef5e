"""ARCHITECTURE.md names every room with all its modules, and no module that is not there."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENTRY = re.compile(r"^- \*\*([\w/]+)\*\*(.*(?:\n  .*)*)", re.M)


def test_architecture_names_every_module_in_the_entry_of_its_room() -> None:
    source = ROOT / "src" / "tidegauge"
    there = defaultdict(set)
    for path in source.rglob("*.py"):
        if path.name != "__init__.py":
            room = path.parent.relative_to(source).as_posix()
            there["ground" if room == "." else room].add(path.stem)
    entries = ENTRY.findall((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    named = {room: set(re.findall(r"`(\w+)`", text)) for room, text in entries}
    assert len(named) == len(entries), "a room has two entries"
    for room in sorted(there | named):
        modules, listed = there.get(room, set()), named.get(room, set())
        assert modules - listed == set(), f"{room}: modules that ARCHITECTURE.md does not name"
        assert listed - modules == set(), f"{room}: names in ARCHITECTURE.md without a module"
