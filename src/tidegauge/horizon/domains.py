"""Horizons by domain: what an agent's horizon is among tasks of one family or of one source.

A family shifts every agent's curve by its residual; a source is the average over its families.
Without a residual an agent has one curve everywhere, and only refitting a source alone tells more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tidegauge.horizon.averages import average_level
from tidegauge.horizon.design import Design
from tidegauge.horizon.quantities import Interval, minutes_interval, share_beyond
from tidegauge.horizon.table import interval_columns

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.horizon.fit import HorizonFit
    from tidegauge.horizon.table import Horizons

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

SHIFTED, SAME, REFIT = "residual", "same curve", "refit"
FEWEST_TASKS = FEWEST_RUNS = 5  # of a source, and of an agent there, to be worth a refit
_RATES = {"p50": 0.5, "p80": 0.8}


@dataclass(frozen=True)
class Domain:
    """Tasks that belong together: a ``source`` or a ``family``."""

    kind: str
    name: str
    tasks: BoolArray


def domains_of(design: Design) -> list[Domain]:
    """List sources, then families; a kind with one member only is no division at all."""
    sources = np.array(design.task_source, dtype=object)
    names = sorted(set(design.task_source))
    found = [Domain("source", name, sources == name) for name in names] if len(names) > 1 else []
    if len(design.families) > 1:
        found += [
            Domain("family", name, design.task_family == f)
            for f, name in enumerate(design.families)
        ]
    return found


def domains_table(fit: HorizonFit) -> pd.DataFrame | None:
    """Return ``domains.csv`` from one posterior; None where there is one domain only."""
    import pandas as pd

    design = fit.design
    alpha = fit.point.alpha.reshape(-1, len(design.agents))
    beta = fit.point.beta.reshape(alpha.shape)
    basis = SHIFTED if fit.options.has_residual else SAME
    tables = []
    for domain in domains_of(design):
        levels = {name: _level(fit, domain, success) for name, success in _RATES.items()}
        log2 = {name: _log2_at(alpha, beta, level) for name, level in levels.items()}
        longest = float(design.human_minutes.max())
        tables.append(
            _rows(
                design,
                domain,
                basis,
                {name: minutes_interval(draws) for name, draws in log2.items()},
                share_beyond(log2["p50"], longest_minutes=longest),
            )
        )
    return pd.concat(tables, ignore_index=True) if tables else None


def _level(fit: HorizonFit, domain: Domain, success: float) -> FloatArray:
    """Return per draw the agent's logit at which the domain's success is the rate."""
    shifts, weights = _parts(fit, domain)
    return average_level(shifts, weights, success=success)


def _parts(fit: HorizonFit, domain: Domain) -> tuple[FloatArray, FloatArray]:
    """Return what the parts of a domain add to a logit (draw, part), and their weights.

    Parts are its families, by their number of tasks; its tasks where families have no residual.
    """
    by_family = getattr(fit.point, "residual_family", None)
    by_task = getattr(fit.point, "residual", None)
    n_draws = fit.point.mu_global.size
    if by_family is not None:
        weights = np.bincount(
            fit.design.task_family[domain.tasks], minlength=len(fit.design.families)
        ).astype(float)
        parts = weights > 0
        return by_family.reshape(n_draws, -1)[:, parts], weights[parts]
    if by_task is not None:
        return by_task.reshape(n_draws, -1)[:, domain.tasks], np.ones(int(domain.tasks.sum()))
    return np.zeros((n_draws, 1)), np.ones(1)


def _log2_at(alpha: FloatArray, beta: FloatArray, level: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        log2: FloatArray = (level[:, None] - alpha) / beta
    flat = beta == 0  # never falls to the level, or was never above it
    return np.where(flat, np.where(alpha > level[:, None], np.inf, -np.inf), log2)


def _rows(
    design: Design,
    domain: Domain,
    basis: str,
    intervals: dict[str, Interval],
    beyond: FloatArray,
) -> pd.DataFrame:
    import pandas as pd

    columns: dict[str, object] = {
        "kind": domain.kind,
        "domain": domain.name,
        "agent": design.agents,
        "n_tasks": int(domain.tasks.sum()),
        "n_runs": design.attempts[:, domain.tasks].sum(axis=1).astype(int),
        "basis": basis,
    }
    for name, interval in intervals.items():
        columns |= interval_columns(name, interval)
    return pd.DataFrame({**columns, "p50_beyond": beyond})


@dataclass(frozen=True)
class SourceDesign:
    """A source's tasks alone, with the agents that have enough runs there."""

    domain: Domain
    design: Design


def source_designs(design: Design) -> tuple[list[SourceDesign], list[str]]:
    """Return what each source can be refitted from, and which sources are too small."""
    kept, notes = [], []
    for domain in domains_of(design):
        if domain.kind != "source":
            continue
        runs = design.attempts[:, domain.tasks].sum(axis=1)
        if domain.tasks.sum() < FEWEST_TASKS or not (runs >= FEWEST_RUNS).any():
            notes.append(
                f"{domain.name} is not refitted: it has {int(domain.tasks.sum())} tasks and at "
                f"most {int(runs.max())} runs of an agent, {FEWEST_TASKS} of each are needed"
            )
        else:
            kept.append(SourceDesign(domain, _part(design, domain.tasks, runs >= FEWEST_RUNS)))
    if not kept and not notes:
        notes.append("all tasks have one source: there is nothing to refit by it")
    return kept, notes


def _part(design: Design, tasks: BoolArray, agents: BoolArray) -> Design:
    """Cut a design down to some tasks and agents."""
    new_task = np.cumsum(tasks) - 1
    families = sorted(set(design.task_family[tasks].tolist()))
    new_family = {family: i for i, family in enumerate(families)}
    rows, columns = np.flatnonzero(agents), np.flatnonzero(tasks)

    def timed(task: NDArray[np.int64], log2: FloatArray) -> tuple[NDArray[np.int64], FloatArray]:
        inside = tasks[task]
        return new_task[task[inside]], log2[inside]

    run_task, run_log2 = timed(design.run_task, design.run_log2)
    failed_task, failed_log2 = timed(design.failed_task, design.failed_log2)
    estimate_task, estimate_log2 = timed(design.estimate_task, design.estimate_log2)
    return replace(
        design,
        agents=tuple(design.agents[a] for a in rows),
        tasks=tuple(design.tasks[t] for t in columns),
        families=tuple(design.families[f] for f in families),
        task_family=np.array([new_family[f] for f in design.task_family[tasks].tolist()]),
        human_minutes=design.human_minutes[tasks],
        task_source=tuple(design.task_source[t] for t in columns),
        attempts=design.attempts[np.ix_(rows, columns)],
        successes=design.successes[np.ix_(rows, columns)],
        score_sum=design.score_sum[np.ix_(rows, columns)],
        run_task=run_task,
        run_log2=run_log2,
        failed_task=failed_task,
        failed_log2=failed_log2,
        estimate_task=estimate_task,
        estimate_log2=estimate_log2,
        agent_years=design.agent_years[rows] if design.agent_years.size else design.agent_years,
        agent_groups=tuple(design.agent_groups[a] for a in rows if design.agent_groups),
        notes=(),
    )


def refitted_table(part: SourceDesign, horizons: Horizons) -> pd.DataFrame:
    """Return the rows of a source that was fitted alone."""
    every = replace(part.domain, tasks=np.ones(len(part.design.tasks), dtype=bool))
    intervals = {name: getattr(horizons, name) for name in _RATES}
    return _rows(part.design, every, REFIT, intervals, horizons.p50_beyond)
