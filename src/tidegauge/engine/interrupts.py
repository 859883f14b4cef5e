"""Ctrl-C reaches every process of a terminal: here, only the one that can answer for it."""

from __future__ import annotations

import multiprocessing
import multiprocessing.forkserver
import signal
import threading


def shield_workers() -> None:
    """Start the server that worker processes come from with Ctrl-C ignored.

    What it forks inherits that, so an interrupted run ends with one sentence by the parent instead
    of a traceback by each worker. Call it before the first parallel work.
    """
    in_worker = multiprocessing.parent_process() is not None
    if in_worker or threading.current_thread() is not threading.main_thread():
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        multiprocessing.forkserver.ensure_running()
    finally:
        signal.signal(signal.SIGINT, before)
