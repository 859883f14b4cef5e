"""Eighteen cells, killed twice: three competitions, two agents, three seeds."""

from __future__ import annotations

from pathlib import Path

import mlebench_checkout as made
import sweeps


def test_a_sweep_that_is_killed_twice_ends_as_an_unbroken_one(tmp_path: Path) -> None:
    made.write_world(tmp_path)
    world = sweeps.World(tmp_path, tmp_path / "agents.yaml")
    sweeps.check_killed_sweep(world, tmp_path, kills=[3, 9])
