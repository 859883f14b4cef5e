"""Time and steps left of a run, and the timer that ends it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tidegauge.bench.run.options import Limits


class BudgetExceededError(Exception):
    """A limit was reached; the runner records which one and still grades what is there."""

    def __init__(self, kind: str, used: float, limit: float) -> None:
        super().__init__(f"{kind}: {used:g} of {limit:g} used")
        self.kind, self.used, self.limit = kind, used, limit


@dataclass
class Budget:
    """What is left of a run's limits; the clock starts when it is made."""

    limits: Limits
    began: float = field(default_factory=time.monotonic)
    steps_used: int = 0

    @property
    def seconds_left(self) -> float:
        """Seconds of wall clock left, never negative."""
        return max(0.0, self.limits.hours * 3600 - (time.monotonic() - self.began))

    @property
    def steps_left(self) -> int:
        """Steps left."""
        return self.limits.steps - self.steps_used

    def check_time(self) -> None:
        """Raise once the time is used up."""
        if self.seconds_left <= 0:
            limit = self.limits.hours * 3600
            raise BudgetExceededError("time", limit, limit)

    def spend_step(self) -> None:
        """Count one step; raise if there was none left."""
        if self.steps_left <= 0:
            raise BudgetExceededError("steps", self.steps_used, self.limits.steps)
        self.steps_used += 1

    def left(self) -> dict[str, float]:
        """Return what an agent is told after every step."""
        return {"seconds_left": round(self.seconds_left, 1), "steps_left": self.steps_left}


class Deadline:
    """A timer of its own thread: the time ends however busy the runner is.

    At the deadline it calls `freeze`, and `grace_seconds` later `end`, unless the block has ended
    before.
    """

    def __init__(
        self,
        budget: Budget,
        *,
        freeze: Callable[[], object],
        end: Callable[[], None],
        grace_seconds: float = 0.0,
    ) -> None:
        self._cancelled = threading.Event()

        def run() -> None:
            if not self._cancelled.wait(budget.seconds_left):
                freeze()
                if not self._cancelled.wait(grace_seconds):
                    end()

        self._thread = threading.Thread(target=run, name="deadline", daemon=True)

    def __enter__(self) -> Deadline:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._cancelled.set()
        self._thread.join()
