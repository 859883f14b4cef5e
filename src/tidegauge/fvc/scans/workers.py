"""Scans measured in processes of their own, which may die.

A DICOM file is decoded by C libraries from whatever someone sent. Each process has a limit on
memory and on CPU time; one that crashes, is stopped or runs out of memory is one scan that cannot
be measured, and the others go on in new processes.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from tidegauge.engine.parallel import worker_context
from tidegauge.errors import InputError
from tidegauge.fvc.scans.series import ScanError
from tidegauge.system import limit_memory

Item = TypeVar("Item")
Result = TypeVar("Result")

MEMORY_BYTES = 1 << 30  # beyond what the process holds when it starts
CPU_SECONDS = 30.0
CPU_SECONDS_PER_FILE = 0.1  # a compressed slice costs its decoder half of that


def map_in_workers(
    function: Callable[[Item], Result], items: Sequence[Item], *, workers: int
) -> Iterator[tuple[int, Result | ScanError]]:
    """Yield the number and the result of each item, in any order; an error for one that failed.

    Parameters
    ----------
    function : callable
        A top-level function: it is sent to other processes.
    """
    waiting = list(range(len(items)))
    while waiting:
        finished = set()
        for index, result in _run_pool(function, items, waiting, workers):
            finished.add(index)
            yield index, result
        waiting = [index for index in waiting if index not in finished]
        # A pool that broke does not say over which item: those that may have been running are
        # tried alone, where a death is theirs.
        suspects, waiting = waiting[: workers + 1], waiting[workers + 1 :]
        for index in suspects:
            alone = dict(_run_pool(function, items, [index], 1))
            yield index, alone.get(index, _died())


def call_in_worker(function: Callable[[Item], Result], item: Item) -> Result:
    """Return ``function(item)``, computed in a process that may die.

    Raises
    ------
    ScanError
        It died, or what `function` raised.
    """
    result = dict(_run_pool(function, [item], [0], 1)).get(0, _died())
    if isinstance(result, ScanError):
        raise result
    return result


def _died() -> ScanError:
    return ScanError(
        "cannot be measured: the process that read it died (damaged or hostile file, or more than "
        f"{CPU_SECONDS:.0f} s of work); export the series again"
    )


def _run_pool(
    function: Callable[[Item], Result], items: Sequence[Item], numbers: Sequence[int], workers: int
) -> Iterator[tuple[int, Result | ScanError]]:
    """Yield results until all are there or the pool breaks."""
    with ProcessPoolExecutor(workers, mp_context=worker_context(), initializer=_start) as pool:
        futures: list[tuple[int, Future[Result | ScanError]]]
        futures = [(i, pool.submit(_guarded, function, items[i])) for i in numbers]
        for index, future in futures:
            try:
                yield index, future.result()
            except BrokenProcessPool:
                continue


def _start() -> None:
    """Limit this process; Ctrl-C is for the parent, which ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import tidegauge.fvc.scans.scan  # noqa: F401 - what it maps must not count

    limit_memory(MEMORY_BYTES)


def limit_cpu(n_files: int) -> None:
    """Stop this process if what it now begins costs too much CPU time."""
    if multiprocessing.parent_process() is not None and hasattr(signal, "setitimer"):
        # Its default action ends the process even within a C library.
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS + CPU_SECONDS_PER_FILE * n_files)


def _guarded(function: Callable[[Item], Result], item: Item) -> Result | ScanError:
    """Call a function; whatever is wrong with a scan becomes its error."""
    try:
        return function(item)
    except ScanError as error:
        return error
    except InputError as error:
        return ScanError(str(error))
    except MemoryError:
        return ScanError(f"cannot be measured: needs more than {MEMORY_BYTES >> 20} MiB of memory")
    except Exception as error:  # one scan out of hundreds must not end the run, whatever it holds
        return ScanError(f"cannot be measured ({type(error).__name__}: {error})")
