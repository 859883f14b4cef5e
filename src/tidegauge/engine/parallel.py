"""The same function over many items: in this process, in local processes, or on Dask."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tidegauge.errors import MissingExtraError
from tidegauge.progress import SILENT, Progress
from tidegauge.system import available_cores

Item = TypeVar("Item")
Result = TypeVar("Result")


def parallel_map(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    label: str = "working",
    progress: Progress = SILENT,
) -> list[Result]:
    """Return ``[function(item) for item in items]``, in order, computed in parallel.

    Parameters
    ----------
    function : callable
        A top-level function: it is sent to other processes.
    items : sequence
        Its arguments, one a call.
    workers : int, optional
        Local processes; one for each core by default, and 1 stays in this process.
    scheduler : str, optional
        Address of a Dask scheduler to use instead of local processes.

    Raises
    ------
    MissingExtraError
        `scheduler` was given and Dask is not installed.
    """
    workers = min(workers or available_cores(), max(len(items), 1))
    results: list[Result] = []
    with progress.step(label, total=len(items)) as step:
        for result in _stream(function, items, workers, scheduler):
            results.append(result)
            step.update(len(results))
    return results


def worker_context() -> multiprocessing.context.BaseContext:
    """Return how processes are started here.

    Not by fork: of a process with running threads (nutpie, numba) it may hang.
    """
    served = "forkserver" in multiprocessing.get_all_start_methods()
    return multiprocessing.get_context("forkserver" if served else "spawn")


def _stream(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    workers: int,
    scheduler: str | None,
) -> Iterator[Result]:
    if scheduler is not None:
        yield from _dask_map(function, items, scheduler)
    elif workers == 1:
        yield from map(function, items)
    else:
        if worker_context().get_start_method() == "forkserver":
            _shield_workers()
        with concurrent.futures.ProcessPoolExecutor(
            workers,
            mp_context=worker_context(),
            initializer=_ignore_interrupts,
        ) as pool:
            yield from pool.map(function, items)


def _dask_map(function: Callable[[Item], Result], items: Sequence[Item], scheduler: str):  # type: ignore[no-untyped-def]
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtraError("a Dask scheduler", "dask") from None
    with Client(scheduler) as client:
        for future in client.map(function, items, pure=False):
            yield future.result()


def _shield_workers() -> None:
    """Start the server that workers come from with Ctrl-C ignored, which they inherit.

    Ctrl-C reaches every process of a terminal; an interrupted run then ends with one sentence by
    the parent instead of a traceback by each worker.
    """
    in_worker = multiprocessing.parent_process() is not None
    if in_worker or threading.current_thread() is not threading.main_thread():
        return
    from multiprocessing import forkserver  # a module of Unix

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        forkserver.ensure_running()
    finally:
        signal.signal(signal.SIGINT, before)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
