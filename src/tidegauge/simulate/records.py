"""Draw the rows of simulated runs, and write them beside their truth."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from tidegauge.arrays import IntArray
from tidegauge.io import atomic_folder
from tidegauge.manifest import MANIFEST, manifest, write_json
from tidegauge.progress import SILENT, Progress
from tidegauge.schema.runs import HUMAN, MILLISECONDS_PER_MINUTE, RunRecord, write_runs
from tidegauge.schema.weights import with_task_weights
from tidegauge.simulate.beyond import Beyond, draw_continuous_scores
from tidegauge.simulate.runs import (
    DOUBLING_DAYS,
    HCAST,
    RE_BENCH,
    SWAA,
    SimulatedRuns,
)

_EPOCH_MS = 1_735_689_600_000  # 1 January 2025: runs need some clock
_RE_BENCH_WINDOW_MINUTES = 480.0
_FAVOURITE_RUNS = 57  # the published largest number of human runs at one task


def write_simulation(simulated: SimulatedRuns, folder: Path, *, progress: Progress = SILENT) -> int:
    """Write run records, their truth, release dates and a manifest; return the rows written."""
    truth, dates = simulated.truth, {}
    for agent, day in zip(simulated.agent_names, truth.release, strict=True):
        dates[agent] = day.isoformat()

    def counted() -> Iterator[RunRecord]:
        with progress.step("writing run records", total=simulated.shape.rows) as step:
            for i, record in enumerate(draw_records(simulated)):
                if i % 10_000 == 0:
                    step.update(i)
                yield record

    with atomic_folder(folder) as staging:
        rows = write_runs(staging / "runs.jsonl", with_task_weights(counted()))
        truth_text = json.dumps(describe_truth(simulated), indent=1)
        (staging / "truth.json").write_text(truth_text + "\n", encoding="utf-8")
        lines = [f"  {agent}: {day}\n" for agent, day in dates.items()]
        (staging / "release_dates.yaml").write_text("date:\n" + "".join(lines), encoding="utf-8")
        settings = {"seed": simulated.seed, "shape": simulated.shape}
        described = manifest(kind="horizon/simulate", inputs={}, settings=settings)
        write_json(staging / MANIFEST, described)
    return rows


def _share_out(total: int, n: int, rng: np.random.Generator) -> IntArray:
    """Split `total` human runs over n tasks: at least one each, then a long tail."""
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    # Even quantiles of a log-normal, not draws: the published median then holds for every seed.
    normal, spare = NormalDist(), max(total - n, 0)
    weights = np.exp([normal.inv_cdf((i + 0.5) / n) for i in range(n)])
    ideal = spare * weights / weights.sum()
    extra = np.floor(ideal).astype(np.int64)
    largest_remainders = np.argsort(extra - ideal)[: spare - int(extra.sum())]
    extra[largest_remainders] += 1
    return rng.permutation(1 + extra)


def draw_records(simulated: SimulatedRuns) -> Iterator[RunRecord]:
    """Draw the records; the same simulation always draws the same ones."""
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
    for name, total in zip((HCAST, SWAA, RE_BENCH), shape.human_runs, strict=True):
        tasks = np.flatnonzero(source == name)
        if name == HCAST:
            tasks = np.sort(rng.permutation(tasks)[shape.estimate_only :])
        counts = _share_out(total, tasks.size, rng)
        if name == SWAA and total > 3 * _FAVOURITE_RUNS:
            counts = _with_one_favourite(counts)
        for task, count in zip(tasks.tolist(), counts.tolist(), strict=True):
            logs = truth.mu_task[task] + truth.sigma_human * rng.normal(size=count)
            window = name == RE_BENCH
            for log in logs:
                minutes = _RE_BENCH_WINDOW_MINUTES if window else 2.0**log
                if truth.beyond and name == HCAST and minutes >= 1:
                    minutes = float(math.floor(minutes))  # as METR's own file has them
                runs.append((task, minutes))
    won = np.zeros(len(runs), dtype=bool)
    won[rng.permutation(len(runs))[: shape.human_successes]] = True
    return [(task, minutes, bool(w)) for (task, minutes), w in zip(runs, won, strict=True)]


def _with_one_favourite(counts: IntArray) -> IntArray:
    """Give one task as many runs as published (57), taken from those with several."""
    counts = counts.copy()
    favourite = int(counts.argmax())
    while counts[favourite] < _FAVOURITE_RUNS:
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
    bias = truth.beyond.delta_estimate if truth.beyond else 0.0
    noise = truth.sigma_estimate * rng.normal(size=truth.mu_task.size)
    estimates = 2.0 ** (truth.mu_task + noise + bias)
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
    length = truth.mu_task + (truth.beyond.residual if truth.beyond else 0.0)
    eta = truth.alpha[:, None] + truth.beta[:, None] * length
    chance = 1 / (1 + np.exp(-eta.ravel()))
    if truth.beyond:
        chance = truth.beyond.cell_chances(chance, rng)
    successes = rng.binomial(attempts, chance)
    number = n_human
    for cell in np.flatnonzero(attempts).tolist():
        agent, task = divmod(cell, shape.tasks)
        won = np.arange(attempts[cell]) < successes[cell]
        scores = won.astype(float)
        if truth.beyond and simulated.task_source[task] == RE_BENCH:
            scores = draw_continuous_scores(chance[cell], won, rng)
        for success, score in zip(won.tolist(), scores.tolist(), strict=True):
            number += 1
            began = _EPOCH_MS + number * 1000
            yield RunRecord(
                **shared[task],  # type: ignore[arg-type]
                run_id=f"run_{number}",
                alias=simulated.agent_names[agent],
                model=simulated.agent_names[agent],
                score_cont=score,
                score_binarized=float(success),
                started_at=began,
                completed_at=began + 600_000,
            )


def describe_truth(simulated: SimulatedRuns) -> dict[str, Any]:
    """Return the truth as plain data, with the horizons in minutes that a fit should find."""
    truth = simulated.truth
    scalars = ("mu_global", "sigma_global", "sigma_family", "sigma_human", "sigma_estimate")
    p50 = 2.0 ** (-truth.alpha / truth.beta)
    p80 = 2.0 ** ((np.log(4) - truth.alpha) / truth.beta)
    agents = zip(
        simulated.agent_names, truth.alpha, truth.beta, p50, p80, truth.release, strict=True
    )
    described: dict[str, Any] = {
        "seed": simulated.seed,
        "parameters": {name: getattr(truth, name) for name in scalars},
        "families": dict(zip(simulated.family_names, truth.mu_family.tolist(), strict=True)),
        "tasks": dict(zip(simulated.task_names, truth.mu_task.tolist(), strict=True)),
        "agents": {
            name: {"alpha": a, "beta": b, "p50": t50, "p80": t80, "release_date": day.isoformat()}
            for name, a, b, t50, t80, day in agents
        },
    }
    return _with_beyond(described, simulated, truth.beyond) if truth.beyond else described


def _with_beyond(
    described: dict[str, Any], simulated: SimulatedRuns, beyond: Beyond
) -> dict[str, Any]:
    """Add what only the full model has; p50 and p80 become marginal, the typical ones go beside."""
    truth = simulated.truth
    names = ("phi", "delta_estimate", "sigma_residual_family", "sigma_residual_task")
    described["parameters"] |= {name: getattr(beyond, name) for name in names}
    described["parameters"] |= {"sigma_residual": beyond.sigma_residual}
    described["trend"] = {"shape": "linear", "doubling_days": DOUBLING_DAYS}
    described["residuals"] = dict(zip(simulated.task_names, beyond.residual.tolist(), strict=True))
    for name, success in (("p50", 0.5), ("p80", 0.8)):
        for agent, alpha, beta in zip(
            simulated.agent_names, truth.alpha.tolist(), truth.beta.tolist(), strict=True
        ):
            own = described["agents"][agent]
            own[f"{name}_typical"] = own[name]
            own[name] = 2.0 ** beyond.marginal_log2(success, alpha, beta)
    return described
