"""The plan of a sweep: one line a cell, written before anything runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tidegauge.bench.agents import resolve_agent
from tidegauge.bench.mlebench.checkout import CHECKOUT, DATA, PYTHON
from tidegauge.bench.run.options import Limits, Resources, RunOptions
from tidegauge.errors import InputError
from tidegauge.io import atomic_write_bytes, make_folder, read_yaml
from tidegauge.schema.faults import HUMAN, has_control_character
from tidegauge.schema.runs import RunRecord, read_runs

PLAN = "plan.jsonl"
CELLS = "cells"
RECORDS = "runs.jsonl"
_INTERRUPTED, _RUNNER = "interrupted", "runner"


class Agent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An agent of a sweep, as agents.yaml names it.

    Attributes
    ----------
    command : str
        A shell command, or the name of an agent that ships.
    hours, cpus, memory : optional
        In place of the sweep's own.
    """

    alias: str
    command: str
    protocol: str = "plain"
    pass_env: tuple[str, ...] = ()
    allow_net: tuple[str, ...] = ()
    layout: str = "tidegauge"
    mounts: tuple[str, ...] = ()
    hours: float | None = None
    steps: int | None = None
    cpus: int | None = None
    memory: float | None = None
    gpus: bool = False


class Cell(msgspec.Struct, frozen=True):
    """One run of the plan, with everything that is needed to do it.

    Attributes
    ----------
    environment : dict
        Where the checkout of MLE-bench is, for competitions of one.
    """

    name: str
    competition: str
    prepared: str | None
    seed: int
    agent: Agent
    hours: float
    steps: int
    isolation: str
    cpus: int | None
    memory: float | None
    without_leaks: bool
    environment: dict[str, str]

    def options(self) -> RunOptions:
        """Return how the agent is run.

        Raises
        ------
        InputError
            A limit is not positive.
        """
        agent = self.agent
        return RunOptions(
            command=resolve_agent(agent.command)[0],
            alias=agent.alias,
            protocol=agent.protocol,
            isolation=self.isolation,
            limits=Limits(agent.hours or self.hours, agent.steps or self.steps),
            resources=Resources(
                memory_gib=agent.memory or self.memory,
                cpus=agent.cpus or self.cpus,
                gpus=agent.gpus,
            ),
            mounts=tuple(map(Path, agent.mounts)),
            passed=(*agent.pass_env, "CUDA_VISIBLE_DEVICES"),
            allow_net=agent.allow_net,
            layout=agent.layout,
            without_leaks=self.without_leaks,
        )


class Settings(msgspec.Struct, frozen=True):
    """What all cells of a sweep share."""

    seeds: int = 1
    hours: float = 24.0
    steps: int = 500
    isolation: str = "auto"
    cpus: int | None = None
    memory: float | None = None
    without_leaks: bool = False


def read_agents(path: Path) -> list[Agent]:
    """Read agents.yaml: a list of agents, each with `alias` and `command`.

    Raises
    ------
    InputError
        It is no such list, or two agents have one alias.
    """
    document = read_yaml(path)
    try:
        agents = msgspec.convert(document, list[Agent])
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: {error}; give a list of `alias` and `command`") from None
    aliases = [agent.alias for agent in agents]
    for alias in aliases:
        if not alias or alias == HUMAN or has_control_character(alias) or aliases.count(alias) > 1:
            raise InputError(f"{path}: alias={alias!r} occurs twice or is no name; choose another")
    if not agents:
        raise InputError(f"{path}: names no agent; give a list of `alias` and `command`")
    for agent in agents:
        if agent.layout not in ("tidegauge", "mlebench"):
            raise InputError(f"{path}: {agent.alias}: layout={agent.layout}; tidegauge or mlebench")
        if agent.protocol not in ("plain", "steps"):
            raise InputError(f"{path}: {agent.alias}: protocol={agent.protocol}; plain or steps")
    return agents


def make_plan(
    competitions: Sequence[tuple[str, Path | None]], agents: Sequence[Agent], settings: Settings
) -> list[Cell]:
    """Return the cells, seed by seed over everything: a sweep that is stopped has whole seeds."""
    kept = {name: os.environ[name] for name in (CHECKOUT, PYTHON, DATA) if name in os.environ}
    cells: list[Cell] = []
    for seed in range(1, settings.seeds + 1):
        for competition, prepared in competitions:
            for agent in agents:
                short = competition.rpartition("/")[2]
                cell = Cell(
                    name=f"{len(cells):05d}-{_file_name(short)}-{_file_name(agent.alias)}-{seed}",
                    competition=competition,
                    prepared=None if prepared is None else str(prepared.resolve()),
                    seed=seed,
                    agent=agent,
                    hours=settings.hours,
                    steps=settings.steps,
                    isolation=settings.isolation,
                    cpus=settings.cpus,
                    memory=settings.memory,
                    without_leaks=settings.without_leaks,
                    environment={n: str(Path(v).expanduser().absolute()) for n, v in kept.items()},
                )
                cell.options()  # refuse what cannot be run before anything is
                cells.append(cell)
    return cells


def _file_name(text: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in text)[:60]


def write_plan(folder: Path, cells: Sequence[Cell]) -> None:
    """Write the plan of a new sweep, or accept the same one again.

    Raises
    ------
    InputError
        The folder holds another plan.
    """
    make_folder(folder)
    if (folder / PLAN).exists():
        if read_plan(folder) != list(cells):
            raise InputError(
                f"{folder}: holds another plan; leave the options out to continue it, or choose "
                "another --out"
            )
        return
    with atomic_write_bytes(folder / PLAN) as handle:
        handle.writelines(msgspec.json.encode(cell) + b"\n" for cell in cells)


def read_plan(folder: Path) -> list[Cell]:
    """Return the cells of a sweep.

    Raises
    ------
    InputError
        There is no plan, or it is none of ours.
    """
    path = folder / PLAN
    try:
        lines = path.read_bytes().splitlines()
        return [msgspec.json.decode(line, type=Cell) for line in lines]
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: is no plan of a sweep ({error}); make one with --agents and --split"
        ) from None


def cell_folder(folder: Path, cell: Cell) -> Path:
    """Return where a cell's runs are kept."""
    return folder / CELLS / cell.name


def records_of(folder: Path, cell: Cell) -> list[RunRecord]:
    """Return every record of a cell, of interrupted attempts too."""
    path = cell_folder(folder, cell) / RECORDS
    return list(read_runs(path)) if path.is_file() and path.stat().st_size else []


def record_of(folder: Path, cell: Cell, *, retries: int = 0) -> RunRecord | None:
    """Return the record that makes a cell done, if there is one.

    Interrupted attempts never do; a fault of the runner does once the retries are used up.
    """
    failed = 0
    for record in records_of(folder, cell):
        if record.fatal_error_from == _INTERRUPTED:
            continue
        if record.fatal_error_from != _RUNNER or failed >= retries:
            return record
        failed += 1
    return None


def report_of(folder: Path, cell: Cell) -> dict[str, Any] | None:
    """Return the report of a cell that is done."""
    record = record_of(folder, cell)
    if record is None:
        return None
    for path in cell_folder(folder, cell).glob("*/report.json"):
        try:
            report = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        except (OSError, ValueError):
            continue
        if report.get("run_id") == record.run_id:
            return report
    return None
