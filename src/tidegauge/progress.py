"""Progress on stderr: bars on a terminal, plain lines elsewhere, nothing when quiet.

Library functions take a `Progress` and never know which one they were given.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import rich.progress

_SECONDS_BETWEEN_LINES = 5.0


class Step(Protocol):
    """One piece of work with a known or unknown size."""

    def update(self, done: float, detail: str = "") -> None:
        """Say how much is done in all, with a short remark such as ``2 divergences``."""


class Progress(Protocol):
    """Where long work reports to."""

    def step(
        self, label: str, total: float | None = None
    ) -> contextlib.AbstractContextManager[Step]:
        """Begin a piece of work; its bar or lines end with the block."""

    def note(self, text: str) -> None:
        """Say one thing the user should know, such as rows that were counted once."""


class _SilentStep:
    def update(self, done: float, detail: str = "") -> None:
        pass


class SilentProgress:
    """Say nothing: the default of every library function, and ``--quiet``."""

    @contextlib.contextmanager
    def step(self, label: str, total: float | None = None) -> Iterator[Step]:
        """Begin a piece of work that nobody watches."""
        yield _SilentStep()

    def note(self, text: str) -> None:
        """Drop the remark."""


class _LineStep:
    def __init__(self, label: str, total: float | None) -> None:
        self._label, self._total = label, total
        self._began = self._spoke = time.monotonic()

    def update(self, done: float, detail: str = "") -> None:
        now = time.monotonic()
        if now - self._spoke < _SECONDS_BETWEEN_LINES:
            return
        self._spoke = now
        parts = [f"{self._label}: {done:,.0f}"]
        if self._total and done > 0:
            left = (now - self._began) * (self._total - done) / done
            parts = [f"{self._label}: {done:,.0f}/{self._total:,.0f}", f"{left:.0f} s left"]
        _say(", ".join([*parts, detail] if detail else parts))


class LineProgress:
    """One line when a step begins and one every few seconds: for logs and pipes."""

    @contextlib.contextmanager
    def step(self, label: str, total: float | None = None) -> Iterator[Step]:
        """Begin a piece of work that prints lines."""
        _say(f"{label} ...")
        yield _LineStep(label, total)

    def note(self, text: str) -> None:
        """Print the remark."""
        _say(f"note: {text}")


def _say(line: str) -> None:
    with contextlib.suppress(BrokenPipeError):  # work goes on when nobody reads of it any more
        print(line, file=sys.stderr, flush=True)


class _BarStep:
    def __init__(self, bars: rich.progress.Progress, task: rich.progress.TaskID) -> None:
        self._bars, self._task = bars, task

    def update(self, done: float, detail: str = "") -> None:
        self._bars.update(self._task, completed=done, detail=detail)


class BarProgress:
    """A bar with time left for a person at a terminal."""

    @contextlib.contextmanager
    def step(self, label: str, total: float | None = None) -> Iterator[Step]:
        """Begin a piece of work that shows a bar."""
        import rich.progress as rp
        from rich.console import Console

        columns = [
            rp.TextColumn("{task.description}"),
            rp.BarColumn(),
            rp.MofNCompleteColumn(),
            rp.TimeRemainingColumn(),
            rp.TextColumn("{task.fields[detail]}"),
        ]
        with rp.Progress(*columns, console=Console(stderr=True)) as bars:
            task = bars.add_task(label, total=total, detail="")
            yield _BarStep(bars, task)
            if total is not None:
                bars.update(task, completed=total)

    def note(self, text: str) -> None:
        """Print the remark."""
        from rich.console import Console

        Console(stderr=True).print(f"note: {text}", markup=False, highlight=False, soft_wrap=True)


SILENT = SilentProgress()


def make_progress(*, quiet: bool) -> Progress:
    """Choose bars, lines or silence for this stderr."""
    if quiet or sys.stderr is None:  # None where the caller closed it
        return SILENT
    return BarProgress() if sys.stderr.isatty() else LineProgress()
