"""Leave-one-family-out: how far every agent's horizon moves without each family of tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.engine.parallel import parallel_map
from tidegauge.errors import InputError, TideGaugeError
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.data.subset import subset_tasks
from tidegauge.horizon.horizons.estimate import Estimate
from tidegauge.horizon.horizons.quantities import minutes_of
from tidegauge.horizon.methods.base import Effort
from tidegauge.horizon.methods.hierarchical import Hierarchical
from tidegauge.horizon.model.options import CORE, HorizonOptions
from tidegauge.progress import SILENT, Progress

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    *("rank", "family", "tasks", "runs", "influence", "agent", "p50_all", "p50", "log2_change"),
    *("change_error", "converged", "reason"),
)


@dataclass(frozen=True)
class _Job:
    """The fit without one family, or (None) of everything."""

    design: Design
    family: int | None
    options: HorizonOptions
    seed: int


def leave_families_out(
    design: Design,
    *,
    options: HorizonOptions = CORE,
    seed: int = 1,
    workers: int | None = None,
    progress: Progress = SILENT,
) -> pd.DataFrame:
    """Refit without each family (its tasks, human times and all agents' runs of it).

    Returns
    -------
    DataFrame
        ``influence.csv``: one row per family and agent, the most influential families first.
        `influence` is the mean over agents of the absolute `log2_change` of p50, with horizons
        outside the range of the tasks counted as its ends; `change_error` is the Monte Carlo
        standard error of a change. A family that cannot be left out has its reason instead.

    Raises
    ------
    InputError
        There is only one family.
    """
    check_families(design)
    jobs = [_Job(design, f, options, seed) for f in (None, *range(len(design.families)))]
    whole, *others = parallel_map(
        _refit, jobs, workers=workers, label="fits without a family", progress=progress
    )
    if isinstance(whole, str):
        raise InputError(f"influence: {whole}")
    return _table(design, whole, others)


def check_families(design: Design) -> None:
    """Refuse a design that nothing can be left out of.

    Raises
    ------
    InputError
        There is only one family.
    """
    if len(design.families) < 2:
        raise InputError("influence: the file has one family of tasks, so none can be left out")


def _refit(job: _Job) -> Estimate | str:
    design = job.design
    try:
        if job.family is not None:
            design = subset_tasks(design, design.task_family != job.family)
        method = Hierarchical(options=job.options)
        return replace(method.fit(design, effort=Effort.SHORT, seed=job.seed), fit=None)
    except TideGaugeError as error:
        return str(error)


def _table(design: Design, whole: Estimate, others: list[Estimate | str]) -> pd.DataFrame:
    import pandas as pd

    blocks = []
    for f, found in enumerate(others):
        members = design.task_family == f
        shared: dict[str, Any] = {
            "family": design.families[f],
            "tasks": int(members.sum()),
            "runs": int(design.attempts[:, members].sum()),
        }
        if isinstance(found, str):
            blocks.append(pd.DataFrame([{**shared, "reason": found, "converged": False}]))
            continue
        block = changes(design, whole, found)
        # An agent that had runs of this family alone has none left to be judged by.
        block = block.assign(**shared, influence=block["log2_change"].abs().mean(), reason="")
        blocks.append(block.assign(converged=whole.converged and found.converged))
    table = pd.concat(blocks, ignore_index=True).reindex(columns=COLUMNS)
    table["rank"] = table["influence"].rank(method="dense", ascending=False)
    return table.sort_values(["influence"], ascending=False, kind="stable", ignore_index=True)


def changes(design: Design, before: Estimate, after: Estimate) -> pd.DataFrame:
    """Return, per agent of both fits, how far p50 moved (log2), with its Monte Carlo error."""
    import pandas as pd

    x = design.log2_minutes
    place = {agent: a for a, agent in enumerate(before.agents)}
    agents = [agent for agent in after.agents if agent in place]
    old = np.array([place[agent] for agent in agents])
    new = np.array([a for a, agent in enumerate(after.agents) if agent in place])
    first, second = before.centre_log2()[old], after.centre_log2()[new]
    error, other_error = (
        np.zeros(len(one.agents)) if one.median_error is None else one.median_error
        for one in (before, after)
    )
    return pd.DataFrame(
        {
            "agent": agents,
            "p50_all": minutes_of(first),
            "p50": minutes_of(second),
            "log2_change": np.clip(second, x.min(), x.max()) - np.clip(first, x.min(), x.max()),
            "change_error": np.hypot(error[old], other_error[new]),
        }
    )
