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


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("sweep")
    return folder, sweeps.write_world(folder)


@pytest.mark.usefixtures("some_isolation")
def test_a_sweep_that_is_killed_twice_ends_as_an_unbroken_one(
    world: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    folder, environment = world
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    done = sweeps.run(sweeps.command(folder, whole), environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("18 done, 0 running, 0 left")
    expected = sweeps.scores(whole)
    assert len(expected) == 18
    assert all(score is not None for score in expected.values())
    words = sweeps.command(folder, broken)
    sweeps.run_and_kill(words, environment, broken, 3)
    sweeps.run_and_kill(words, environment, broken, 9)
    done = sweeps.run(words, environment)
    assert done.returncode == 0, done.stderr
    assert sweeps.scores(broken) == expected
    assert [r["seed"] for r in sweeps.records(broken)] == sorted([1, 2, 3] * 6)
    attempts = sum(len(path.read_text().splitlines()) for path in broken.glob("cells/*/runs.jsonl"))
    assert attempts > 18  # the kills did meet running cells
    check_export(whole, tmp_path / "groups", environment)
    # Nothing is left to do, with or without the options.
    before = (broken / "runs.jsonl").read_bytes()
    again = sweeps.run([*words[:6], str(broken)], environment)
    assert again.returncode == 0, again.stderr
    assert (broken / "runs.jsonl").read_bytes() == before


def check_export(sweep: Path, out: Path, environment: dict[str, str]) -> None:
    """Exported, graded again by line, and tabulated, a sweep gives the same."""
    start = sweeps.command(sweep, sweep)[:4]
    done = sweeps.run([*start, "export", str(sweep), "--to", "mlebench", "--out", str(out)], {})
    assert done.returncode == 0, done.stderr
    groups = [folder for folder in out.iterdir() if folder.is_dir()]
    assert len(groups) == 6  # two agents, three seeds
    names = [(folder.name.split("_run-group_")) for folder in groups]
    assert sorted({agent for _, agent in names}) == ["plain", "shuffler"]
    for group in groups:
        metadata = json.loads((group / "metadata.json").read_text())
        assert metadata["run_group"] == group.name
        for run in metadata["runs"]:
            competition, _, number = run.partition("_")
            assert competition in sweeps.NAMES
            assert len(number) == 36
            assert (group / run / "submission" / "submission.csv").is_file()
    lines = str(groups[0] / "submission.jsonl")
    again = sweeps.run([*start, "grade", lines, "--se-seconds", "0"], environment)
    (report,) = groups[0].glob("*_grading_report.json")
    graded = {
        r["competition_id"]: r["score"] for r in json.loads(again.stdout)["competition_reports"]
    }
    document = json.loads(report.read_text())
    assert {r["competition_id"]: r["score"] for r in document["competition_reports"]} == graded
    assert len(document["competition_reports"][0]) == 16
    reports = [str(path) for path in sorted(out.glob("*/*_grading_report.json"))]
    own = json.loads(sweeps.run([*start, "table", str(sweep), "--mlebench-json"], {}).stdout)
    theirs = json.loads(sweeps.run([*start, "table", *reports, "--mlebench-json"], {}).stdout)
    assert own == theirs
    assert own["plain"]["num_seeds_averaged"] == 3


@pytest.mark.usefixtures("some_isolation")
def test_two_commands_at_once_share_the_cells(
    world: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    folder, environment = world
    out = tmp_path / "shared"
    words = [
        *sweeps.command(folder, out)[:9],
        *("--competition", "mlebench/harbour-depths", "--seeds", "2", "--jobs", "2"),
        *("--hours", "0.05"),
    ]
    both = [
        subprocess.Popen(
            words, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for process in both:
        process.communicate()
    sweeps.run(words, environment)
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
