"""Horizons by domain: what an agent's horizon is among tasks of one family or of one source.

The residuals of a domain's tasks shift every agent's curve; its horizon is the length at which the
average over these tasks falls to the rate. Without a residual an agent has one curve everywhere,
and only refitting a source alone tells more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from tidegauge.arrays import BoolArray, FloatArray
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.data.subset import subset_tasks
from tidegauge.horizon.horizons.estimate import Estimate, interval_columns
from tidegauge.horizon.horizons.quantities import (
    Interval,
    average_level,
    log2_horizon,
    minutes_interval,
    share_beyond,
    typical_logit,
)
from tidegauge.horizon.horizons.tables import RATES

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.horizon.model.parameters import Point
    from tidegauge.horizon.result import HorizonFit


SHIFTED, SAME, REFIT = "residual", "same curve", "refit"
_DRAWS = 2000  # enough for an interval, of thousands
FEWEST_TASKS = FEWEST_RUNS = 5  # of a source, and of an agent there, to be worth a refit


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

    design, longest = fit.design, float(fit.design.human_minutes.max())
    point = fit.point.flat(max(1, fit.point.mu_global.size // _DRAWS))
    basis = SHIFTED if fit.options.has_residual else SAME
    tables = []
    for domain in domains_of(design):
        log2 = {name: _log2_horizons(point, domain, rate) for name, rate in RATES.items()}
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


def _log2_horizons(point: Point, domain: Domain, success: float) -> FloatArray:
    """Return the log2 horizons (draw, agent) among the tasks of a domain."""
    n_agents = point.alpha.shape[1]
    lapse = np.zeros(point.alpha.shape) if point.logit_lapse is None else expit(point.logit_lapse)
    level = typical_logit(success, lapse=lapse)
    if point.residual is not None:
        sharpness: FloatArray | float = 1.0
        if point.log_discrimination is not None:
            sharpness = np.exp(point.log_discrimination[:, domain.tasks])
        shifts, weights = point.residual[:, domain.tasks], np.ones(int(domain.tasks.sum()))
        for a in range(n_agents):
            rate = success / (1 - lapse[:, a])
            average = average_level(
                point.beta[:, a, None] * shifts,
                weights,
                success=np.minimum(rate, 1 - 1e-9),
                sharpness=sharpness,
            )
            level[:, a] = np.where(rate < 1, average, np.inf)
    return log2_horizon(point.alpha, point.beta, success=success, logit=level)


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
            enough = _without_agents(design, runs < FEWEST_RUNS)
            kept.append(SourceDesign(domain, subset_tasks(enough, domain.tasks)))
    if not kept and not notes:
        notes.append("all tasks have one source: there is nothing to refit by it")
    return kept, notes


def _without_agents(design: Design, few: BoolArray) -> Design:
    """Blank the runs of some agents; an agent without a run is left out with the tasks."""
    names = ("attempts", "successes", "score_sum")
    return replace(design, **{name: getattr(design, name) * ~few[:, None] for name in names})


def refitted_table(part: SourceDesign, estimate: Estimate) -> pd.DataFrame:
    """Return the rows of a source that was fitted alone."""
    every = replace(part.domain, tasks=np.ones(len(part.design.tasks), dtype=bool))
    intervals = {name: estimate.interval(success) for name, success in RATES.items()}
    return _rows(part.design, every, REFIT, intervals, estimate.beyond(0.5))
