"""Leave-one-family-out: how far every agent's horizon moves without each family of tasks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegauge.engine.parallel import parallel_map
from tidegauge.errors import InputError, TideGaugeError
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.data.subset import subset_tasks
from tidegauge.horizon.horizons.estimate import Estimate
from tidegauge.horizon.methods.base import Effort
from tidegauge.horizon.methods.hierarchical import Hierarchical
from tidegauge.horizon.model.options import CORE, HorizonOptions
from tidegauge.horizon.studies.changes import p50_changes
from tidegauge.progress import SILENT, Progress

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    *("rank", "family", "tasks", "runs", "influence", "agent", "p50_all", "p50", "log2_change"),
    *("change_error", "converged", "reason"),
)


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
    whole, *others = parallel_map(
        partial(_refit, design=design, options=options, seed=seed),
        [None, *range(len(design.families))],
        workers=workers,
        label="fits without a family",
        progress=progress,
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


def _refit(
    family: int | None, *, design: Design, options: HorizonOptions, seed: int
) -> Estimate | str:
    """Fit without one family, or (None) everything; return why where that is not possible."""
    try:
        if family is not None:
            design = subset_tasks(design, design.task_family != family)
        found = Hierarchical(options=options).fit(design, effort=Effort.SHORT, seed=seed)
        return replace(found, fit=None)
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
        block = p50_changes(design, whole, found)
        # An agent that had runs of this family alone has none left to be judged by.
        block = block.assign(**shared, influence=block["log2_change"].abs().mean(), reason="")
        blocks.append(block.assign(converged=whole.converged and found.converged))
    table = pd.concat(blocks, ignore_index=True).reindex(columns=COLUMNS)
    table["rank"] = table["influence"].rank(method="dense", ascending=False)
    return table.sort_values(["influence"], ascending=False, kind="stable", ignore_index=True)
