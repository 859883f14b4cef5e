"""A fit as an ArviZ InferenceData with named dimensions."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.horizon.design import Design
from tidegauge.horizon.likelihood import log_likelihoods, tried_cells
from tidegauge.horizon.packing import Point

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)  # ArviZ announces its next major at every import
    import arviz as az

if TYPE_CHECKING:
    from tidegauge.engine.sampling import Draws
    from tidegauge.horizon.fit import HorizonFit

_STORED_LOG_LIKELIHOODS = 25_000_000  # values: 100 MB; more draws are thinned in the file alone
_SCALARS = ("mu_global", "sigma_global", "sigma_family", "sigma_human", "sigma_estimate")


def posterior_of(design: Design, point: Point, draws: Draws) -> az.InferenceData:
    """Return posterior and sample statistics with named dimensions."""
    vectors = {"mu_family": "family", "mu_task": "task", "alpha": "agent", "beta": "agent"}
    names = [*_SCALARS, *vectors]
    return az.from_dict(
        posterior={name: getattr(point, name) for name in names},
        sample_stats=draws.statistics,
        coords={name: design.coords[name] for name in ("agent", "task", "family")},
        dims={name: [dim] for name, dim in vectors.items()},
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
    pointwise = az.from_dict(
        log_likelihood=likelihood,
        observed_data={name: value for name, value in observed.items() if value.size},
        dims=dims,
    )
    for group in ("log_likelihood", "observed_data"):
        pointwise[group] = pointwise[group].assign_coords(coords)
    pointwise.log_likelihood.attrs["thinned_by"] = thin
    trace = posterior_of(design, fit.point, fit.draws)
    trace.extend(pointwise)
    return trace
