"""A sweep carried out: cells in parallel, each in a slot of cores and graphics devices."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tidegauge.bench.sources import open_competition
from tidegauge.bench.sweep import cell as cell_process
from tidegauge.bench.sweep.plan import RECORDS, Cell, cell_folder, read_plan, record_of
from tidegauge.errors import InputError
from tidegauge.progress import SILENT, Progress
from tidegauge.schema.runs import write_runs
from tidegauge.system import fcntl

_FAULT_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class Slot:
    """A share of the machine: cores, and one graphics device."""

    cores: tuple[int, ...] = ()
    gpu: str | None = None

    def environment(self) -> dict[str, str]:
        """Return what tells libraries to keep to it."""
        told = {"OMP_NUM_THREADS": str(len(self.cores))} if self.cores else {}
        return told if self.gpu is None else {**told, "CUDA_VISIBLE_DEVICES": self.gpu}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a cell: done, running elsewhere, or a fault."""

    name: str
    fault: str | None = None


# How cells are carried out: given a function of a cell and the cells, returns the outcomes.
MapCells = Callable[[Callable[[Cell], Outcome], Sequence[Cell]], Iterable[Outcome]]


def make_slots(jobs: int, cpus: int | None, gpus: Sequence[str] = ()) -> list[Slot]:
    """Deal the cores and graphics devices of this machine to slots.

    Raises
    ------
    InputError
        There are not enough cores.
    """
    cores = sorted(os.sched_getaffinity(0))
    if cpus is not None and cpus > len(cores):
        raise InputError(f"--cpus {cpus}: this machine has {len(cores)} cores")
    slots = []
    for number in range(jobs):
        own = [cores[(number * cpus + k) % len(cores)] for k in range(cpus)] if cpus else []
        slots.append(Slot(tuple(sorted(set(own))), gpus[number % len(gpus)] if gpus else None))
    return slots


def run_sweep(
    folder: Path,
    *,
    slots: Sequence[Slot],
    retries: int = 1,
    map_cells: MapCells | None = None,
    progress: Progress = SILENT,
) -> list[Outcome]:
    """Carry out what is left of a plan, and write runs.jsonl; return the faults.

    Parameters
    ----------
    retries : int
        How often a cell whose run failed by a fault of ours is tried again.
    map_cells : callable, optional
        Another way to carry cells out, such as a cluster that shares this file system.
    """
    cells = read_plan(folder)
    faults: list[Outcome] = []
    for _ in range(1 + retries):
        left = [cell for cell in cells if record_of(folder, cell, retries=retries) is None]
        if not left:
            break
        make_ready(left)
        one = partial(run_one, folder.resolve(), retries=retries)
        mapped = (map_cells or partial(_in_slots, slots=slots))(one, left)
        faults = []
        with progress.step("running", total=len(left)) as step:
            for done, outcome in enumerate(mapped, start=1):
                step.update(done, outcome.name)
                if outcome.fault is not None:
                    faults.append(outcome)
                gather(folder, cells)
    gather(folder, cells)
    return faults


def make_ready(cells: Sequence[Cell]) -> None:
    """Open every competition once, so that what all need is made before they run side by side.

    Raises
    ------
    InputError
        One is not prepared.
    """
    places = dict.fromkeys((cell.competition, cell.prepared) for cell in cells)
    for competition, prepared in places:
        open_competition(competition, prepared).make_ready()


def gather(folder: Path, cells: Sequence[Cell]) -> None:
    """Write the records of all cells that are done, in the order of the plan."""
    with _gathering:
        found = [record_of(folder, cell) for cell in cells]
        write_runs(folder / RECORDS, [record for record in found if record is not None])


_gathering = threading.Lock()


def _in_slots(
    one: Callable[..., Outcome], cells: Sequence[Cell], *, slots: Sequence[Slot]
) -> Iterable[Outcome]:
    free: queue.SimpleQueue[Slot] = queue.SimpleQueue()
    for slot in slots:
        free.put(slot)

    def in_slot(cell: Cell) -> Outcome:
        slot = free.get()
        try:
            return one(cell, slot=slot)
        finally:
            free.put(slot)

    with ThreadPoolExecutor(len(slots)) as pool:
        yield from pool.map(in_slot, cells)


def run_one(folder: Path, cell: Cell, *, retries: int, slot: Slot | None = None) -> Outcome:
    """Run one cell in a process of its own, and wait for it."""
    slot = slot or Slot()
    words = [str(folder), cell.name, str(retries), ",".join(map(str, slot.cores)), str(os.getpid())]
    done = subprocess.run(
        [sys.executable, "-m", cell_process.__name__, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, **cell.environment, **slot.environment()},
        check=False,
    )
    if done.returncode == cell_process.DONE:
        return Outcome(cell.name)
    if done.returncode == cell_process.ELSEWHERE:
        return Outcome(cell.name, "is being run by another command")
    said = done.stderr.decode(errors="replace").strip()[-_FAULT_CHARACTERS:]
    return Outcome(cell.name, said or f"exit code {done.returncode}")


@dataclass(frozen=True, slots=True)
class Status:
    """How far a sweep is."""

    done: int
    running: int
    left: int
    seconds_each: float | None

    def sentence(self, jobs: int) -> str:
        """Say it, with the time that is left if `jobs` run at once."""
        text = f"{self.done} done, {self.running} running, {self.left} left"
        if self.seconds_each is None or self.left + self.running == 0:
            return text
        hours = self.seconds_each * (self.left + self.running) / jobs / 3600
        return f"{text}; about {hours:.2g} hours with {jobs} at once"


def status_of(folder: Path) -> Status:
    """Return how many cells are done, running and left; the mean time of those that are done."""
    done, running, seconds = 0, 0, []
    cells = read_plan(folder)
    for cell in cells:
        record = record_of(folder, cell)
        if record is not None:
            done += 1
            if record.completed_at is not None and record.started_at is not None:
                seconds.append((record.completed_at - record.started_at) / 1000)
            continue
        if (place := cell_folder(folder, cell)).is_dir():
            descriptor = os.open(place, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                running += 1
            finally:
                os.close(descriptor)
    each = sum(seconds) / len(seconds) if seconds else None
    return Status(done, running, len(cells) - done - running, each)
