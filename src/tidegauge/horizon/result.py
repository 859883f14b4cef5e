"""A fit as an ArviZ InferenceData with named dimensions."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.horizon.data.design import Design
from tidegauge.horizon.model.likelihood import log_likelihoods, tried_cells
from tidegauge.horizon.model.observations import groups_of, sources_of
from tidegauge.horizon.model.options import HorizonOptions
from tidegauge.horizon.model.parameters import DIMS, Point

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)  # ArviZ announces its next major at every import
    import arviz as az

if TYPE_CHECKING:
    from tidegauge.engine.sampling import Draws
    from tidegauge.horizon.sampler.fit import HorizonFit

_STORED_LOG_LIKELIHOODS = 25_000_000  # values: 100 MB; more draws are thinned in the file alone


def posterior_of(
    design: Design, options: HorizonOptions, point: Point, draws: Draws
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
        sample_stats=draws.statistics,
        coords={name: list(values) for name, values in coords.items() if name in used},
        dims=dims,
    )


def stored_trace(fit: HorizonFit) -> az.InferenceData:
    """Return posterior, sample_stats, log_likelihood and observed_data with named dimensions."""
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
    coords = {
        "cell_agent": ("cell", np.array(design.agents, dtype=str)[cells.agent]),
        "cell_task": ("cell", np.array(design.tasks, dtype=str)[cells.task]),
    }
    tasks = np.array(design.tasks, dtype=str)
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
    trace = posterior_of(design, fit.options, fit.point, fit.draws)
    trace.extend(pointwise)
    return trace
