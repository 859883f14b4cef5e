"""What a run is asked to do: the agent's command, its budget, its resources, its isolation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidegauge.errors import InputError

DEFAULT_HOURS = 12.0
DEFAULT_STEPS = 500
MAX_HOURS = 10_000  # a year and more; beyond, system calls refuse the number
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class Limits:
    """How long an agent may work: hours of wall clock, and steps where it asks for them.

    Raises
    ------
    InputError
        A limit is not positive.
    """

    hours: float = DEFAULT_HOURS
    steps: int = DEFAULT_STEPS

    def __post_init__(self) -> None:
        if not 0 < self.hours <= MAX_HOURS:  # NaN is refused too
            raise InputError(f"hours={self.hours:g}: must be above 0, at most {MAX_HOURS:,}")
        if self.steps < 1:
            raise InputError(f"steps={self.steps}: must be at least 1")

    def sentence(self, *, counts_steps: bool = True) -> str:
        """State the budget, for the agent."""
        time = f"{self.hours:g} hours" if self.hours >= 1 else f"{self.hours * 60:.3g} minutes"
        steps = f", and {self.steps:,} steps" if counts_steps else ""
        return f"You have {time} of wall-clock time{steps}."


@dataclass(frozen=True, slots=True)
class Resources:
    """What an agent may use of the machine; None is no limit beyond the machine's own.

    Attributes
    ----------
    memory_gib : float, optional
        Of the run where control groups can be made, else address space of each process; and size
        of /tmp in a sandbox.
    cpus : int, optional
        Cores' worth of time where control groups can be made; else cores it is started on.
    disk_gib : float
        Size of the workspace, watched while the agent runs; no file may be larger.
    processes : int
        Processes and threads at one time; without isolation and control groups not enforced, since
        they cannot be told from the user's own.
    gpus : bool
        Show the graphics devices to a bubblewrap sandbox, which has none by default.
    """

    memory_gib: float | None = None
    cpus: int | None = None
    disk_gib: float = 50.0
    processes: int = 4096
    gpus: bool = False

    def __post_init__(self) -> None:
        for name in ("memory_gib", "cpus", "disk_gib", "processes"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name}={value:g}: must be above 0")
        if self.memory_gib is not None and self.memory_gib < 0.25:
            raise InputError(f"memory_gib={self.memory_gib:g}: Python alone needs 0.25")

    @property
    def memory_bytes(self) -> int | None:
        """The limit of memory in bytes."""
        return None if self.memory_gib is None else int(self.memory_gib * _GIB)

    @property
    def disk_bytes(self) -> int:
        """The limit of the workspace in bytes."""
        return int(self.disk_gib * _GIB)


@dataclass(frozen=True)
class RunOptions:
    """How to run an agent.

    Attributes
    ----------
    command : str
        A shell command, run in the workspace.
    success_at : float, optional
        The score that counts as success in the record; any medal by default.
    mounts : tuple of Path
        Files and folders a bubblewrap sandbox also shows, read-only.
    passed : tuple of str
        Names of environment variables that an isolated agent keeps.
    allow_net : tuple of str
        Hosts (``HOST`` or ``HOST:PORT``) that an agent with a network of its own may reach.
    extra : mapping
        Further environment variables of the agent.
    layout : str
        ``mlebench`` also shows the workspace as /home/data, /home/submission and so on, as
        MLE-bench's image has it.
    without_leaks : bool
        Leave out the public files that are known to give answers away.
    """

    command: str
    alias: str
    protocol: str = "plain"
    isolation: str = "auto"
    limits: Limits = field(default_factory=Limits)
    resources: Resources = field(default_factory=Resources)
    success_at: float | None = None
    leaderboard: Path | None = None
    mounts: tuple[Path, ...] = ()
    passed: tuple[str, ...] = ()
    allow_net: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)
    layout: str = "tidegauge"
    without_leaks: bool = False
