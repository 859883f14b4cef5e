"""Run records with a known truth, by default at the scale METR published.

The truth is the core horizon model: families, tasks, human noise, estimates and success curves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tidegauge.errors import InputError
from tidegauge.io import atomic_folder
from tidegauge.progress import SILENT, Progress
from tidegauge.schema.runs import HUMAN, MILLISECONDS_PER_MINUTE, RunRecord, write_runs

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

HCAST, SWAA, RE_BENCH = "HCAST", "SWAA", "RE-Bench"
_EPOCH_MS = 1_735_689_600_000  # 1 January 2025: runs need some clock
_RE_BENCH_WINDOW_MINUTES = 480.0


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


def small_shape(*, agents: int, tasks: int, rows: int) -> RunsShape:
    """Scale the published proportions down (or up) to a number of agents, tasks and rows."""
    share = tasks / PUBLISHED.tasks
    runs = [round(n * share) for n in PUBLISHED.human_runs]
    re_bench = round(PUBLISHED.re_bench_tasks * share)
    swaa = round(PUBLISHED.swaa_tasks * share)
    swaa_families = min(swaa, max(1, round(PUBLISHED.swaa_families * share))) if swaa else 0
    hcast = tasks - swaa - re_bench
    return RunsShape(
        rows=max(rows, sum(runs) + agents),
        agents=agents,
        families=swaa_families + re_bench + max(1, round(hcast * 68 / 125)),
        tasks=tasks,
        swaa_tasks=swaa,
        swaa_families=swaa_families,
        re_bench_tasks=re_bench,
        estimate_only=round(PUBLISHED.estimate_only * share),
        human_runs=(runs[0], runs[1] if swaa else 0, runs[2] if re_bench else 0),
        human_successes=round(0.715 * sum(runs)),
    )


@dataclass(frozen=True)
class RunsTruth:
    """The parameters the records are drawn from; lengths are log2 minutes."""

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

    def records(self) -> Iterator[RunRecord]:
        """Draw the records; the same object always draws the same ones."""
        return _draw_records(self)


def simulate_runs(shape: RunsShape = PUBLISHED, *, seed: int) -> SimulatedRuns:
    """Draw a truth that looks like METR's data and lay out its tasks."""
    rng = np.random.default_rng([seed, 0])
    mu_family = np.sort(rng.normal(4.5, 3.0, shape.families))  # shortest first: SWAA
    task_family = _families_of_tasks(shape, rng)
    mu_task = mu_family[task_family] + 1.2 * rng.normal(size=shape.tasks)
    truth = RunsTruth(
        **{"mu_global": 4.5, "sigma_global": 3.0, "sigma_family": 1.2},
        **{"sigma_human": 1.0, "sigma_estimate": 1.4},
        mu_family=mu_family,
        task_family=task_family,
        mu_task=mu_task,
        **_draw_agents(shape.agents, rng),
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


def write_simulation(
    simulated: SimulatedRuns, folder: Path, *, progress: Progress = SILENT
) -> int:
    """Write ``runs.jsonl``, ``truth.json`` and ``release_dates.yaml``; return the rows written."""
    truth, dates = simulated.truth, {}
    for agent, day in zip(simulated.agent_names, truth.release, strict=True):
        dates[agent] = day.isoformat()

    def counted() -> Iterator[RunRecord]:
        with progress.step("writing run records", total=simulated.shape.rows) as step:
            for i, record in enumerate(simulated.records()):
                if i % 10_000 == 0:
                    step.update(i)
                yield record

    with atomic_folder(folder) as staging:
        rows = write_runs(staging / "runs.jsonl", counted())
        described = json.dumps(_describe(simulated), indent=1)
        (staging / "truth.json").write_text(described + "\n", encoding="utf-8")
        lines = [f"  {agent}: {day}\n" for agent, day in dates.items()]
        (staging / "release_dates.yaml").write_text("date:\n" + "".join(lines), encoding="utf-8")
    return rows


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


def _draw_agents(n_agents: int, rng: np.random.Generator) -> dict[str, object]:
    """Space releases over six years with a horizon that doubles about every seven months."""
    days = np.sort(rng.integers(0, 6 * 365, n_agents))
    log2_p50 = -3.0 + days / 210 + rng.normal(0, 0.8, n_agents)
    beta = -rng.lognormal(np.log(0.6), 0.25, n_agents)
    release = tuple(date(2020, 1, 1) + timedelta(days=int(day)) for day in days)
    return {"alpha": -beta * log2_p50, "beta": beta, "release": release}


def _share_out(total: int, n: int, rng: np.random.Generator, *, most: int) -> IntArray:
    """Split `total` human runs over n tasks: at least one each, a long tail, at most `most`."""
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    weights = rng.lognormal(0, 0.9, n)
    counts = np.ones(n, dtype=np.int64)
    while (left := total - counts.sum()) > 0 and (counts < most).any():
        open_weights = np.where(counts < most, weights, 0)
        counts += rng.multinomial(left, open_weights / open_weights.sum())
        np.minimum(counts, most, out=counts)
    return counts


def _draw_records(simulated: SimulatedRuns) -> Iterator[RunRecord]:
    rng = np.random.default_rng([simulated.seed, 1])
    human = _draw_human_runs(simulated, rng)
    shared = _draw_task_fields(simulated, human, rng)
    for i, (task, minutes, success) in enumerate(human):
        yield _human_record(shared[task], minutes, success, i)
    yield from _draw_agent_records(simulated, shared, len(human), rng)


def _draw_human_runs(
    simulated: SimulatedRuns, rng: np.random.Generator
) -> list[tuple[int, float, bool]]:
    """Return (task, minutes, success) of every human run; failure does not depend on time."""
    shape, truth = simulated.shape, simulated.truth
    source = np.array(simulated.task_source)
    runs: list[tuple[int, float]] = []
    for name, total, most in zip(
        (HCAST, SWAA, RE_BENCH), shape.human_runs, (30, 57, 40), strict=True
    ):
        tasks = np.flatnonzero(source == name)
        if name == HCAST:
            tasks = np.sort(rng.permutation(tasks)[shape.estimate_only :])
        counts = _share_out(total, tasks.size, rng, most=most)
        if name == SWAA and total >= 200:
            counts = _with_one_favourite(counts, most)
        for task, count in zip(tasks.tolist(), counts.tolist(), strict=True):
            logs = truth.mu_task[task] + truth.sigma_human * rng.normal(size=count)
            window = name == RE_BENCH
            runs += [(task, _RE_BENCH_WINDOW_MINUTES if window else 2.0**log) for log in logs]
    won = np.zeros(len(runs), dtype=bool)
    won[rng.permutation(len(runs))[: shape.human_successes]] = True
    return [(task, minutes, bool(w)) for (task, minutes), w in zip(runs, won, strict=True)]


def _with_one_favourite(counts: IntArray, most: int) -> IntArray:
    """Give one task as many runs as published (57), taken from those with several."""
    counts = counts.copy()
    favourite = int(counts.argmax())
    while counts[favourite] < most:
        donor = int(np.where(np.arange(counts.size) == favourite, 0, counts).argmax())
        if counts[donor] <= 1:
            break
        counts[donor] -= 1
        counts[favourite] += 1
    return counts


def _draw_task_fields(
    simulated: SimulatedRuns, human: list[tuple[int, float, bool]], rng: np.random.Generator
) -> list[dict[str, object]]:
    """Return the columns that every row of a task shares; human_minutes as METR makes it."""
    truth = simulated.truth
    estimates = 2.0 ** (truth.mu_task + truth.sigma_estimate * rng.normal(size=truth.mu_task.size))
    timed = {task for task, _, _ in human}
    fields: list[dict[str, object]] = []
    for task, name in enumerate(simulated.task_names):
        logs = [np.log2(minutes) for t, minutes, won in human if t == task and won]
        measured = bool(logs) and simulated.task_source[task] != RE_BENCH
        minutes = 2.0 ** np.mean(logs) if measured else estimates[task]
        fields.append(
            {
                "task_id": name,
                "task_family": simulated.family_names[truth.task_family[task]],
                "human_minutes": float(minutes),
                "human_source": "baseline" if task in timed else "estimate",
                "task_source": simulated.task_source[task],
            }
        )
    return fields


def _human_record(
    shared: dict[str, object], minutes: float, success: bool, number: int
) -> RunRecord:
    duration_ms = max(1, round(minutes * MILLISECONDS_PER_MINUTE))
    began = _EPOCH_MS + number * 1_000_000 if shared["task_source"] == SWAA else 0
    return RunRecord(
        **shared,  # type: ignore[arg-type]
        run_id=number + 1,
        alias=HUMAN,
        model=HUMAN,
        score_cont=float(success),
        score_binarized=float(success),
        started_at=began,
        completed_at=began + duration_ms,
    )


def _draw_agent_records(
    simulated: SimulatedRuns,
    shared: list[dict[str, object]],
    n_human: int,
    rng: np.random.Generator,
) -> Iterator[RunRecord]:
    shape, truth = simulated.shape, simulated.truth
    n_cells = shape.agents * shape.tasks
    weights = rng.gamma(4.0, size=n_cells)
    attempts = rng.multinomial(shape.rows - n_human, weights / weights.sum())
    eta = truth.alpha[:, None] + truth.beta[:, None] * truth.mu_task
    successes = rng.binomial(attempts, 1 / (1 + np.exp(-eta.ravel())))
    number = n_human
    for cell in np.flatnonzero(attempts).tolist():
        agent, task = divmod(cell, shape.tasks)
        for i in range(int(attempts[cell])):
            number += 1
            success = float(i < successes[cell])
            began = _EPOCH_MS + number * 1000
            yield RunRecord(
                **shared[task],  # type: ignore[arg-type]
                run_id=f"run_{number}",
                alias=simulated.agent_names[agent],
                model=simulated.agent_names[agent],
                score_cont=success,
                score_binarized=success,
                started_at=began,
                completed_at=began + 600_000,
            )


def _describe(simulated: SimulatedRuns) -> dict[str, object]:
    """Return the truth as plain data, with the horizons in minutes that a fit should find."""
    truth = simulated.truth
    scalars = ("mu_global", "sigma_global", "sigma_family", "sigma_human", "sigma_estimate")
    p50 = 2.0 ** (-truth.alpha / truth.beta)
    p80 = 2.0 ** ((np.log(4) - truth.alpha) / truth.beta)
    agents = zip(simulated.agent_names, truth.alpha, truth.beta, p50, p80, truth.release, strict=True)
    return {
        "seed": simulated.seed,
        "parameters": {name: getattr(truth, name) for name in scalars},
        "families": dict(zip(simulated.family_names, truth.mu_family.tolist(), strict=True)),
        "tasks": dict(zip(simulated.task_names, truth.mu_task.tolist(), strict=True)),
        "agents": {
            name: {"alpha": a, "beta": b, "p50": t50, "p80": t80, "release_date": day.isoformat()}
            for name, a, b, t50, t80, day in agents
        },
    }
