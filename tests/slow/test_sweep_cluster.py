"""The same sweep on a Dask cluster: killed twice, continued, every cell once."""

from __future__ import annotations

from pathlib import Path

import pytest

import mlebench_checkout as made
import sweeps

distributed = pytest.importorskip("distributed")


def test_a_sweep_on_a_cluster_ends_as_one_on_this_machine(tmp_path: Path) -> None:
    made.write_world(tmp_path)
    world = sweeps.World(tmp_path, tmp_path / "agents.yaml")
    environment = world.environment
    local, far = tmp_path / "local", tmp_path / "far"
    assert sweeps.run(world.command(local), environment).returncode == 0
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=2, dashboard_address=None, local_directory=str(tmp_path)
    ) as cluster:
        words = world.command(far, "--scheduler", cluster.scheduler_address)
        sweeps.run_and_kill(words, environment, far, 2)
        sweeps.run_and_kill(words, environment, far, 6)
        done = sweeps.run(words, environment)
    assert done.returncode == 0, done.stderr
    assert sweeps.scores(far) == sweeps.scores(local)
    assert len(sweeps.records(far)) == 18
