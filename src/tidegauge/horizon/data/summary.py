"""What a file of run records holds, before anything is fitted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from tidegauge.horizon.data.counts import RE_BENCH, Tally
from tidegauge.horizon.data.design import BASELINE, build_design


@dataclass(frozen=True)
class RunsSummary:
    """Counts that ``horizon check`` prints.

    Attributes
    ----------
    sources : dict
        Task source to number of tasks; human_sources the same by human_source.
    human_total, human_successful, human_failed : int
        Human rows; a success has score 1 and a positive duration.
    human_used, human_windows : int
        Successful rows that are completion times, and RE-Bench rows that are fixed windows.
    human_per_task : tuple
        Smallest, median and largest number of human rows, over the tasks that have any.
    tasks_with_both : int
        Tasks with timed human runs and an estimate.
    """

    rows: int
    agents: int
    tasks: int
    families: int
    sources: dict[str, int]
    human_sources: dict[str, int]
    human_total: int
    human_successful: int
    human_failed: int
    human_used: int
    human_windows: int
    human_per_task: tuple[int, float, int]
    estimate_only_tasks: int
    agent_runs: int
    agent_success_share: float
    tasks_with_both: int
    tasks_untried: int
    minutes_range: tuple[float, float]
    notes: tuple[str, ...]

    def lines(self) -> list[tuple[str, str]]:
        """Return the summary as (what, how much) for printing."""
        fewest, median, most = self.human_per_task
        return [
            ("rows", f"{self.rows:,}"),
            ("agents", f"{self.agents:,}"),
            ("tasks", f"{self.tasks:,}"),
            ("families", f"{self.families:,}"),
            ("task sources", _counts(self.sources)),
            ("human sources", _counts(self.human_sources)),
            ("task length", "{:.4g} to {:.4g} minutes".format(*self.minutes_range)),
            ("human runs", f"{self.human_total:,}"),
            ("  successful", f"{self.human_successful:,}"),
            ("  failed", f"{self.human_failed:,}"),
            ("  used as timings", f"{self.human_used:,}"),
            ("  fixed windows", f"{self.human_windows:,}"),
            ("  per task", f"{fewest} to {most}, median {median:g}"),
            ("estimate-only tasks", f"{self.estimate_only_tasks:,}"),
            ("agent runs", f"{self.agent_runs:,} ({self.agent_success_share:.1%} successful)"),
            ("tasks with both timings and estimate", f"{self.tasks_with_both:,}"),
            ("tasks no agent tried", f"{self.tasks_untried:,}"),
        ]


def summarise(tally: Tally) -> RunsSummary:
    """Count what a pass over the records found."""
    design = build_design(tally)
    entries = tally.tasks.values()
    successful = sum(run.success and run.minutes > 0 for run in tally.human_runs)
    per_task = list(Counter(run.task for run in tally.human_runs).values()) or [0]
    timed, estimated = set(design.run_task.tolist()), set(design.estimate_task.tolist())
    attempts = int(design.attempts.sum())
    return RunsSummary(
        rows=tally.n_rows,
        agents=len(design.agents),
        tasks=len(design.tasks),
        families=len(design.families),
        sources=_sorted_counts(entry.source for entry in entries),
        human_sources=_sorted_counts(entry.human_source or BASELINE for entry in entries),
        human_total=len(tally.human_runs),
        human_successful=successful,
        human_failed=len(tally.human_runs) - successful,
        human_used=int(design.run_task.size),
        human_windows=sum(tally.tasks[run.task].source == RE_BENCH for run in tally.human_runs),
        human_per_task=(min(per_task), float(np.median(per_task)), max(per_task)),
        estimate_only_tasks=len(estimated - timed),
        agent_runs=attempts,
        agent_success_share=float(design.successes.sum() / attempts),
        tasks_with_both=len(estimated & timed),
        tasks_untried=int((design.attempts.sum(axis=0) == 0).sum()),
        minutes_range=(float(design.human_minutes.min()), float(design.human_minutes.max())),
        notes=design.notes,
    )


def _sorted_counts(names: object) -> dict[str, int]:
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))  # type: ignore[call-overload]


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())
