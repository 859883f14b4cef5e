"""A fit as an ArviZ InferenceData with named dimensions, and back.

``constant_data`` holds the whole design, so that a file of the posterior is all that a fit is made
from again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.engine.arviz_import import quiet_arviz
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.model.likelihood import log_likelihoods, tried_cells
from tidegauge.horizon.model.observations import groups_of, sources_of
from tidegauge.horizon.model.options import HorizonOptions
from tidegauge.horizon.model.parameters import DIMS, Point

with quiet_arviz():
    import arviz as az

if TYPE_CHECKING:
    import xarray as xr

    from tidegauge.horizon.result import HorizonFit

_STORED_LOG_LIKELIHOODS = 25_000_000  # values: 100 MB; more draws are thinned in the file alone

# The arrays and names of a design by their dimensions.
_DESIGN_DIMS: Mapping[str, tuple[str, ...]] = {
    "task_family": ("task",),
    "human_minutes": ("task",),
    "task_source": ("task",),
    "attempts": ("agent", "task"),
    "successes": ("agent", "task"),
    "score_sum": ("agent", "task"),
    "run_task": ("run",),
    "run_log2": ("run",),
    "failed_task": ("failed",),
    "failed_log2": ("failed",),
    "estimate_task": ("estimate",),
    "estimate_log2": ("estimate",),
    "estimate_is_row": ("estimate",),
    "task_provenance": ("task",),
    "agent_years": ("agent",),
    "agent_groups": ("agent",),
}
_COORDS = {"agent": "agents", "task": "tasks", "family": "families"}
_NAMES = ("task_source", "task_provenance", "agent_groups")
_FLAGS = ("estimate_is_row",)
_INDICES = ("task_family", "run_task", "failed_task", "estimate_task")


def posterior_of(
    design: Design, options: HorizonOptions, point: Point, statistics: Mapping[str, Any]
) -> az.InferenceData:
    """Return posterior and sample statistics with named dimensions."""
    dims = {name: [dim] for name, dim in DIMS.items()}
    if options.human_scale == "source":
        dims["sigma_human"] = ["source"]
    posterior = point.present()
    coords = {name: design.coords[name] for name in ("agent", "task", "family")}
    coords |= {"group": groups_of(design, options), "source": sources_of(design, options)}
    used = {dim for name in posterior for dim in dims.get(name, ())}
    return az.from_dict(
        posterior=posterior,
        sample_stats=dict(statistics),
        coords={name: list(values) for name, values in coords.items() if name in used},
        dims=dims,
    )


def inference_data_of(fit: HorizonFit) -> az.InferenceData:
    """Return posterior, sample_stats, log_likelihood, observed_data and constant_data."""
    trace = posterior_of(fit.design, fit.options, fit.point, fit.statistics)
    trace.extend(_pointwise(fit))
    trace.add_groups(constant_data=constant_data_of(fit.design))
    return trace


def _pointwise(fit: HorizonFit) -> az.InferenceData:
    design, cells = fit.design, tried_cells(fit.design)
    values_per_draw = cells.agent.size + design.run_task.size + design.estimate_task.size
    thin = -(-fit.point.mu_global.size * values_per_draw // _STORED_LOG_LIKELIHOODS)
    likelihood = log_likelihoods(design, fit.options, fit.point, thin=thin)
    observed = {
        "successes": cells.successes.astype(np.int64),
        "attempts": cells.attempts.astype(np.int64),
        "log2_duration": design.run_log2,
        "log2_estimate": design.estimate_log2,
    }
    dims = {
        "successes": ["cell"],
        "attempts": ["cell"],
        "log2_duration": ["run"],
        "log2_estimate": ["estimate"],
        "log2_failed": ["failed"],
    }
    tasks = np.array(design.tasks, dtype=str)
    coords = {
        "cell_agent": ("cell", np.array(design.agents, dtype=str)[cells.agent]),
        "cell_task": ("cell", tasks[cells.task]),
    }
    for dim, index in (("run", design.run_task), ("estimate", design.estimate_task)):
        if index.size:
            coords[f"{dim}_task"] = (dim, tasks[index])
            coords[f"{dim}_source"] = (dim, np.array(design.task_source, dtype=str)[index])
    pointwise = az.from_dict(
        log_likelihood=likelihood,
        observed_data={name: value for name, value in observed.items() if value.size},
        dims=dims,
    )
    for group in ("log_likelihood", "observed_data"):
        pointwise[group] = pointwise[group].assign_coords(coords)
    pointwise.log_likelihood.attrs["thinned_by"] = thin
    return pointwise


def constant_data_of(design: Design) -> xr.Dataset:
    """Return a design as a dataset; what it has none of is left out."""
    import xarray as xr

    arrays = {name: np.asarray(getattr(design, name)) for name in _DESIGN_DIMS}
    variables = {
        name: (_DESIGN_DIMS[name], array.astype(str) if name in _NAMES else array)
        for name, array in arrays.items()
        if array.size
    }
    coords = {dim: list(getattr(design, name)) for dim, name in _COORDS.items()}
    return xr.Dataset(variables, coords=coords, attrs={"origin_day": design.origin_day})


def design_of(data: xr.Dataset, *, notes: tuple[str, ...] = ()) -> Design:
    """Return the design that `constant_data_of` made a dataset of."""
    parts: dict[str, Any] = {name: _texts(data[dim]) for dim, name in _COORDS.items()}
    for name in _DESIGN_DIMS:
        if name in _NAMES:
            parts[name] = _texts(data[name]) if name in data else ()
        else:
            kind = np.int64 if name in _INDICES else bool if name in _FLAGS else np.float64
            parts[name] = np.asarray(data.get(name, []), dtype=kind)
    return Design(**parts, origin_day=float(data.attrs["origin_day"]), notes=notes)


def point_of(posterior: xr.Dataset) -> Point:
    """Return all draws of a posterior, each array with leading dimensions (chain, draw)."""
    known = {field.name for field in fields(Point)}
    return Point(
        **{
            name: np.asarray(posterior[name], dtype=np.float64)
            for name in known
            if name in posterior
        }
    )


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(str(value) for value in np.asarray(values))
