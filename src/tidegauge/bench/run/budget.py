"""Time and step limits of a run."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from tidegauge.bench.run.workspace import Limits
from tidegauge.errors import InputError

MAX_HOURS = 10_000  # a year and more; beyond, system calls refuse the number


class BudgetExceededError(Exception):
    """A limit was reached; the runner records which one and still grades what is there."""

    def __init__(self, kind: str, used: float, limit: float) -> None:
        super().__init__(f"{kind}: {used:g} of {limit:g} used")
        self.kind, self.used, self.limit = kind, used, limit


@dataclass
class Budget:
    """What is left of a run's limits; the clock starts when it is made.

    Raises
    ------
    InputError
        A limit is not positive.
    """

    limits: Limits
    began: float = field(default_factory=time.monotonic)
    steps_used: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.limits.hours <= MAX_HOURS:  # NaN is refused too
            raise InputError(f"hours={self.limits.hours:g}: must be above 0, at most {MAX_HOURS:,}")
        if self.limits.steps < 1:
            raise InputError(f"steps={self.limits.steps}: must be at least 1")

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
