"""One cell of a sweep, in a process of its own: ``python -m tidegauge.bench.sweep.cell``.

It ends with the process that started it, and with it the agent. Whatever is killed, the record of
the attempt is settled by the next one.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tidegauge.bench.run.record import settle_interrupted
from tidegauge.bench.run.runner import run_agent
from tidegauge.bench.sources import open_competition
from tidegauge.bench.sweep.plan import RECORDS, Cell, cell_folder, read_plan, record_of
from tidegauge.errors import TideGaugeError
from tidegauge.io import make_folder
from tidegauge.system import fcntl

DONE, FAILED, ELSEWHERE = 0, 2, 3
_PR_SET_PDEATHSIG = 1


def run_cell(folder: Path, cell: Cell, retries: int) -> int:
    """Run a cell unless it is done or runs elsewhere; return what became of it."""
    place = make_folder(cell_folder(folder, cell))
    descriptor = os.open(place, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return ELSEWHERE
        settle_interrupted()
        if record_of(folder, cell, retries=retries) is not None:
            return DONE
        os.environ.update(cell.environment)
        prepared = open_competition(cell.competition, cell.prepared)
        run_agent(prepared, place, place / RECORDS, cell.options(), seed=cell.seed)
        return DONE
    except TideGaugeError as error:
        sys.stderr.write(f"{error}\n")
        return FAILED
    finally:
        os.close(descriptor)


def main(arguments: Sequence[str]) -> int:
    """Run the cell that the arguments name: folder, cell, retries, cores, the starter's pid."""
    folder, name, retries, cores, starter = arguments
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(starter):
        return FAILED  # it ended before this could end with it
    if cores:
        os.sched_setaffinity(0, set(map(int, cores.split(","))))
    (cell,) = [cell for cell in read_plan(Path(folder)) if cell.name == name]
    return run_cell(Path(folder), cell, int(retries))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
