"""What a method is: a named way from a design to an estimate, with as much effort as is needed."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tidegauge.horizon.data.design import Design
from tidegauge.horizon.horizons.estimate import Estimate
from tidegauge.progress import SILENT, Progress


class Effort(enum.Enum):
    """What a fit is for, and so how long it may take."""

    FULL = "full"  # the answer itself: long chains, repeated until they converge
    SHORT = "short"  # medians and 95 % intervals of one of many fits
    FOLD = "fold"  # predictions of runs held out: a mean probability needs few draws


class Method(Protocol):
    """One named way to learn from a design.

    Methods are plain values: they are compared, written to manifests and sent to other processes.
    """

    @property
    def name(self) -> str:
        """What tables and files call it, such as ``full:noise=student_t``."""

    @property
    def settings(self) -> dict[str, Any]:
        """What a manifest needs to repeat a full fit, beside the seed."""

    def fit(
        self,
        design: Design,
        *,
        effort: Effort = Effort.FULL,
        seed: int = 1,
        progress: Progress = SILENT,
    ) -> Estimate:
        """Learn from the design."""


@dataclass(frozen=True)
class Climatology:
    """The baseline: every agent succeeds as often as it did on other tasks, however long."""

    name: str = "climatology"

    @property
    def settings(self) -> dict[str, Any]:
        """It has no choices."""
        return {}

    def fit(
        self,
        design: Design,
        *,
        effort: Effort = Effort.FULL,
        seed: int = 1,
        progress: Progress = SILENT,
    ) -> Estimate:
        """Average each agent's runs, with half a success and half a failure added."""
        won = design.successes.sum(axis=1) + 0.5
        lost = (design.attempts - design.successes).sum(axis=1) + 0.5
        return Estimate(
            method=self.name,
            agents=design.agents,
            alpha=np.log(won / lost)[None],
            beta=np.zeros((1, won.size)),
            success=np.repeat((won / (won + lost))[:, None], len(design.tasks), axis=1),
            longest_minutes=float(design.human_minutes.max()),
        )
