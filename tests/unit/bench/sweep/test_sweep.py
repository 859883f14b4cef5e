"""A sweep runs every cell once, whatever is killed."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import sweeps
from calls import Call
from tidegauge.bench.sweep.execution import make_slots
from tidegauge.bench.sweep.plan import Settings, make_plan, read_agents
from tidegauge.errors import InputError


@pytest.fixture
def world(mlebench: Path, tmp_path: Path) -> sweeps.World:
    """One competition, two agents, two seeds."""
    return sweeps.World(mlebench, tmp_path / "agents.yaml", ["harbour-depths"], seeds=2)


@pytest.mark.usefixtures("some_isolation")
def test_a_sweep_that_is_killed_ends_as_an_unbroken_one(
    world: sweeps.World, tmp_path: Path
) -> None:
    sweeps.check_killed_sweep(world, tmp_path, kills=[1])


@pytest.mark.usefixtures("some_isolation")
def test_two_commands_at_once_share_the_cells(world: sweeps.World, tmp_path: Path) -> None:
    out = tmp_path / "shared"
    words = world.command(out, "--jobs", "2")
    environment = {**os.environ, **world.environment}
    both = [
        subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in both:
        process.communicate()
    sweeps.run(words, world.environment)
    assert len(sweeps.scores(out)) == 4
    assert all(len(path.read_text().splitlines()) == 1 for path in out.glob("cells/*/runs.jsonl"))


def test_plans_are_seed_by_seed_and_another_plan_is_refused(tmp_path: Path, call: Call) -> None:
    (path := tmp_path / "agents.yaml").write_text(sweeps.AGENTS)
    agents = read_agents(path)
    cells = make_plan([("osic", tmp_path), ("surge", tmp_path)], agents, Settings(seeds=2))
    assert [cell.seed for cell in cells] == [1] * 4 + [2] * 4
    assert len({cell.name for cell in cells}) == 8
    options = ("bench", "sweep", "--out", tmp_path / "out", "--agents", path)
    call(*options, "--competition", f"surge={tmp_path / 'nowhere'}")
    said = call(*options, "--competition", f"surge={tmp_path / 'elsewhere'}")
    assert said.code == 2
    assert "another plan" in said.err
    said = call("bench", "sweep", "--out", tmp_path / "out", "--status", "--json")
    assert json.loads(said.out) == {"done": 0, "running": 0, "left": 2}
    assert call("bench", "sweep", "--out", tmp_path / "empty").code == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("alias: a", "Expected `array`"),
        ("- alias: a", "missing required field `command`"),
        ("- {alias: a, command: x, surprise: 1}", "surprise"),
        ("- {alias: a, command: x}\n- {alias: a, command: y}", "occurs twice"),
        ("- {alias: human, command: x}", "no name"),
        ("- {alias: a, command: x, protocol: smoke}", "plain or steps"),
        ("[]", "names no agent"),
    ],
)
def test_strange_agents_are_refused(text: str, message: str, tmp_path: Path) -> None:
    (path := tmp_path / "agents.yaml").write_text(text)
    with pytest.raises(InputError, match=message):
        read_agents(path)


def test_slots_deal_cores_and_devices() -> None:
    cores = sorted(os.sched_getaffinity(0))
    slots = make_slots(3, 1, ["0", "1"])
    assert [slot.gpu for slot in slots] == ["0", "1", "0"]
    assert [slot.cores for slot in slots] == [(cores[n % len(cores)],) for n in range(3)]
    assert slots[1].environment() == {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "1"}
    assert make_slots(1, None)[0].environment() == {}
    with pytest.raises(InputError, match="cores"):
        make_slots(1, 10**6)
