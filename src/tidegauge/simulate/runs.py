"""Run records with a known truth, by default at the scale METR published.

The truth is the core horizon model: families, tasks, human noise, estimates and success curves.
That of the full model adds what `beyond` holds. `records` draws the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from tidegauge.arrays import FloatArray, IntArray
from tidegauge.errors import InputError
from tidegauge.simulate.beyond import Beyond, draw_beyond

HCAST, SWAA, RE_BENCH = "HCAST", "SWAA", "RE-Bench"
DOUBLING_DAYS = 210.0  # of the horizon over release dates: about seven months
_MU_GLOBAL, _SIGMA_GLOBAL, _SIGMA_FAMILY = 4.5, 3.0, 1.2  # log2 minutes


@dataclass(frozen=True, kw_only=True)
class RunsShape:
    """How much of everything to simulate; the defaults are the published scale.

    Of `tasks`, the `swaa_tasks` shortest families' tasks are SWAA, the longest `re_bench_tasks`
    families are RE-Bench, `estimate_only` HCAST tasks have no human run.
    """

    rows: int = 41_629
    agents: int = 33
    families: int = 80
    tasks: int = 170
    swaa_tasks: int = 38
    swaa_families: int = 5
    re_bench_tasks: int = 7
    estimate_only: int = 17
    human_runs: tuple[int, int, int] = (467, 235, 91)  # HCAST, SWAA, RE-Bench
    human_successes: int = 567

    def __post_init__(self) -> None:
        hcast_families = self.families - self.swaa_families - self.re_bench_tasks
        hcast_tasks = self.tasks - self.swaa_tasks - self.re_bench_tasks
        faults = {
            f"agents={self.agents}: at least 1 is needed": self.agents < 1,
            f"tasks={self.tasks}: each of {self.families} families needs at least one": (
                hcast_families < 1 or hcast_tasks < hcast_families
            ),
            f"estimate_only={self.estimate_only}: more than the HCAST tasks": (
                self.estimate_only > hcast_tasks
            ),
            f"rows={self.rows}: fewer than the human runs and one run per agent": (
                self.rows < sum(self.human_runs) + self.agents
            ),
        }
        for text, wrong in faults.items():
            if wrong:
                raise InputError(f"{text}; change the sizes")


PUBLISHED = RunsShape()


def scaled_shape(
    *, agents: int | None = None, tasks: int | None = None, rows: int | None = None
) -> RunsShape:
    """Keep the published proportions at another number of agents, tasks or rows."""
    agents, tasks = agents or PUBLISHED.agents, tasks or PUBLISHED.tasks
    share = tasks / PUBLISHED.tasks
    swaa, re_bench = round(PUBLISHED.swaa_tasks * share), round(PUBLISHED.re_bench_tasks * share)
    hcast = tasks - swaa - re_bench
    runs = [round(n * share) for n in PUBLISHED.human_runs]
    human_runs = (max(runs[0], 1), runs[1] if swaa else 0, runs[2] if re_bench else 0)
    swaa_families = min(swaa, max(1, round(PUBLISHED.swaa_families * share)))
    usual = round(PUBLISHED.rows * share * agents / PUBLISHED.agents)
    return RunsShape(
        rows=rows or max(usual, sum(human_runs) + agents),
        agents=agents,
        families=swaa_families + re_bench + max(1, round(hcast * 68 / 125)),
        tasks=tasks,
        swaa_tasks=swaa,
        swaa_families=swaa_families,
        re_bench_tasks=re_bench,
        estimate_only=min(round(PUBLISHED.estimate_only * share), hcast - 1),
        human_runs=human_runs,
        human_successes=max(1, round(567 / 793 * sum(human_runs))),
    )


@dataclass(frozen=True)
class RunsTruth:
    """The parameters the records are drawn from; lengths are log2 minutes.

    `beyond` is what only the full model has.
    """

    mu_global: float
    sigma_global: float
    sigma_family: float
    sigma_human: float
    sigma_estimate: float
    mu_family: FloatArray
    task_family: IntArray
    mu_task: FloatArray
    alpha: FloatArray
    beta: FloatArray
    release: tuple[date, ...]
    beyond: Beyond | None = None


@dataclass(frozen=True)
class SimulatedRuns:
    """A truth and the layout of the records drawn from it."""

    truth: RunsTruth
    shape: RunsShape
    seed: int
    task_names: tuple[str, ...]
    family_names: tuple[str, ...]
    agent_names: tuple[str, ...]
    task_source: tuple[str, ...]


def simulate_runs(shape: RunsShape = PUBLISHED, *, seed: int, full: bool = False) -> SimulatedRuns:
    """Draw a truth that looks like METR's data and lay out its tasks.

    Parameters
    ----------
    full : bool
        Draw from the full model: the same lengths and agents, with more around them.
    """
    rng = np.random.default_rng([seed, 0])
    # Shortest families first: SWAA is made of them, RE-Bench of the longest.
    mu_family = np.sort(rng.normal(_MU_GLOBAL, _SIGMA_GLOBAL, shape.families))
    task_family = _families_of_tasks(shape, rng)
    mu_task = mu_family[task_family] + _SIGMA_FAMILY * rng.normal(size=shape.tasks)
    alpha, beta, release = _draw_agents(shape.agents, rng)
    truth = RunsTruth(
        mu_global=_MU_GLOBAL,
        sigma_global=_SIGMA_GLOBAL,
        sigma_family=_SIGMA_FAMILY,
        sigma_human=1.2 if full else 1.0,
        sigma_estimate=1.4,
        mu_family=mu_family,
        task_family=task_family,
        mu_task=mu_task,
        alpha=alpha,
        beta=beta,
        release=release,
        beyond=draw_beyond(task_family, np.random.default_rng([seed, 2])) if full else None,
    )
    first_re_bench = shape.families - shape.re_bench_tasks
    sources = np.where(
        task_family < shape.swaa_families,
        SWAA,
        np.where(task_family >= first_re_bench, RE_BENCH, HCAST),
    )
    number = {f: 0 for f in range(shape.families)}
    families = tuple(f"family_{f + 1:03d}" for f in range(shape.families))
    names = []
    for f, source in zip(task_family.tolist(), sources, strict=True):
        number[f] += 1
        names.append(f"{families[f]}/{source.lower().replace('-', '_')}_{number[f]}")
    return SimulatedRuns(
        truth=truth,
        shape=shape,
        seed=seed,
        task_names=tuple(names),
        family_names=families,
        agent_names=tuple(f"agent-{a + 1:02d}" for a in range(shape.agents)),
        task_source=tuple(sources.tolist()),
    )


def _families_of_tasks(shape: RunsShape, rng: np.random.Generator) -> IntArray:
    """Give every family one task and the rest at random within its source; sorted by family."""
    first_re_bench = shape.families - shape.re_bench_tasks
    spare_swaa = shape.swaa_tasks - shape.swaa_families
    spare_hcast = shape.tasks - shape.families - spare_swaa
    extra = [
        rng.integers(0, max(shape.swaa_families, 1), spare_swaa),
        rng.integers(shape.swaa_families, first_re_bench, spare_hcast),
    ]
    families = np.concatenate([np.arange(shape.families), *extra]).astype(np.int64)
    families.sort()
    return families


def _draw_agents(
    n_agents: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, tuple[date, ...]]:
    """Space releases over six years with a horizon that doubles every `DOUBLING_DAYS`."""
    days = np.sort(rng.integers(0, 6 * 365, n_agents))
    log2_p50 = -3.0 + days / DOUBLING_DAYS + rng.normal(0, 0.8, n_agents)
    beta = -rng.lognormal(np.log(0.6), 0.25, n_agents)
    release = tuple(date(2020, 1, 1) + timedelta(days=int(day)) for day in days)
    return -beta * log2_p50, beta, release
