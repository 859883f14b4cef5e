"""Where a fit begins: a point of the parameter vector from the file's own task lengths."""

from __future__ import annotations

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.engine.logistic import logistic_ridge
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.model.observations import in_joint_prior, trend_years
from tidegauge.horizon.model.options import HorizonOptions, HorizonPriors
from tidegauge.horizon.model.parameters import (
    BLOCKS,
    MU_FAMILY,
    Layout,
    is_log,
    layout_of,
    prior_of,
)

_SCALES = {"sigma_global": 2.0, "sigma_family": 1.5, "sigma_estimate": 1.5, "sigma_human": 1.2}


def start_point(design: Design, priors: HorizonPriors, options: HorizonOptions) -> FloatArray:
    """Return a first guess: lengths as the file has them, agents by a ridge regression."""
    layout = layout_of(design, options)
    alpha, beta = _agents(design)
    mu_task = design.log2_minutes
    tasks = np.maximum(np.bincount(design.task_family, minlength=len(design.families)), 1)
    mu_family = np.bincount(design.task_family, weights=mu_task, minlength=tasks.size) / tasks
    known = {
        "mu_global": mu_family.mean(),
        "mu_family": mu_family,
        "mu_task": mu_task,
        "alpha": alpha,
        "beta": np.log(-beta),
        **_trend(design, options, np.clip(-alpha / beta, -5, 20)),
    }
    x = np.zeros(layout.size)
    for block, name in enumerate(BLOCKS):
        if name in known:
            x[layout.place(block)] = known[name]
        elif block < MU_FAMILY:
            x[layout.place(block)] = _usual(name, priors, layout)
    return x


def _usual(name: str, priors: HorizonPriors, layout: Layout) -> float:
    prior = prior_of(name, priors)
    if is_log(name):
        return float(np.log(_SCALES.get(name, 0.5 * max(prior.mu, prior.sd))))
    return prior.mu


def _agents(design: Design) -> tuple[FloatArray, FloatArray]:
    x = design.log2_minutes
    # The ridge is worth a handful of runs: it decides for agents that always or never succeed.
    half = 0.5 * (design.attempts > 0) / np.maximum((design.attempts > 0).sum(axis=1), 1)[:, None]
    fits = logistic_ridge(
        x, design.successes + half, design.attempts - design.successes + half, ridge=1.0
    )
    beta = np.minimum(fits.slope, -0.05)
    average = (design.attempts @ x) / design.attempts.sum(axis=1)
    return fits.intercept + (fits.slope - beta) * average, beta


def _trend(design: Design, options: HorizonOptions, log2: FloatArray) -> dict[str, float]:
    """Return a line through the horizons of the agents that the joint prior speaks of."""
    joint = in_joint_prior(design, options)
    if not joint.any():
        return {}
    years = trend_years(design, options)
    dated = joint & ~np.isnan(years)
    if dated.sum() < 2 or np.ptp(years[dated]) == 0:
        return {"trend_level": float(np.median(log2[joint]))}
    rate, level = np.polyfit(years[dated], log2[dated], 1)
    return {"trend_level": float(level), "trend_rate": float(np.clip(rate, -3, 5))}
