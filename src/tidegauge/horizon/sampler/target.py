"""The model's log density in whitened coordinates, as the sampler wants it, and where it begins.

The coordinates are those of an expansion point: first a point from the file's own task lengths and
a ridge regression (`start_point`), then the middle of a pilot run.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numba
import numpy as np
from numba import types

from tidegauge.arrays import FloatArray
from tidegauge.engine.logistic import logistic_ridge
from tidegauge.engine.sampling import CompiledFunction, Draws, LogDensity
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.density.buffer import check_buffer, length_of, pack_data
from tidegauge.horizon.density.jit import content_cache
from tidegauge.horizon.model.observations import in_joint_prior, trend_years
from tidegauge.horizon.model.options import CORE, DEFAULT_PRIORS, HorizonOptions, HorizonPriors
from tidegauge.horizon.model.parameters import (
    BLOCKS,
    DELTA_ESTIMATE,
    MU_FAMILY,
    MU_SLOPE,
    is_log,
    layout_of,
    prior_of,
)
from tidegauge.horizon.model.trend_shapes import TREND_SHAPES
from tidegauge.horizon.sampler.coordinates import map_all, whitened_log_density
from tidegauge.horizon.sampler.expansion import Reference, reference_at

_START_SD = 0.5  # of the dispersed starts, in whitened units
_START_SCALES = {
    "sigma_global": 2.0,
    "sigma_family": 1.5,
    "sigma_estimate": 1.5,
    "sigma_human": 1.2,
}


@dataclass(frozen=True)
class Problem:
    """What is sampled: a design, and the model of it."""

    design: Design
    priors: HorizonPriors = DEFAULT_PRIORS
    options: HorizonOptions = CORE

    def start(self) -> FloatArray:
        """Return where a fit begins."""
        return start_point(self.design, self.priors, self.options)

    def expanded_at(self, x: FloatArray) -> tuple[Reference, LogDensity]:
        """Expand about a point; return the expansion and the density in its coordinates."""
        reference = reference_at(self.design, self.priors, self.options, x)
        return reference, whitened_density(self.design, self.priors, self.options, reference)


def whitened_density(
    design: Design,
    priors: HorizonPriors,
    options: HorizonOptions,
    reference: Reference,
    *,
    start_sd: float = _START_SD,
) -> LogDensity:
    """Return the model's log density in the coordinates that `reference` shapes.

    Parameters
    ----------
    start_sd : float
        Spread of the starting points about the reference, in whitened units.
    """
    layout = layout_of(design, options)
    center = np.zeros(layout.size)
    plain = slice(1, layout.starts[MU_SLOPE])  # after the root, before what agents share
    center[plain] = reference.x[plain]
    center[layout.place(DELTA_ESTIMATE)] = 0.0  # an innovation
    for name in TREND_SHAPES[options.trend].bending:  # coordinates themselves
        place = layout.place(BLOCKS.index(name))
        center[place] = reference.x[place]

    def initial(seed: int) -> FloatArray:
        jitter = np.random.default_rng(seed).normal(0, start_sd, layout.size)
        return center + jitter

    function, identity = _compiled()
    return LogDensity(
        function=function,
        identity=identity,
        data=pack_data(design, priors, options, reference.expansion),
        size=layout.size,
        initial=initial,
    )


def to_centred(density: LogDensity, z: FloatArray) -> FloatArray:
    """Map whitened draws (..., size) to the model's own unconstrained coordinates."""
    check_buffer(density.data)
    flat = np.ascontiguousarray(z.reshape(-1, density.size))
    centred = np.empty_like(flat)
    map_all(flat, centred, density.data)
    return centred.reshape(z.shape)


def middle_of(density: LogDensity, draws: Draws) -> FloatArray:
    """Return the median of all draws in the model's own unconstrained coordinates."""
    middle: FloatArray = np.median(to_centred(density, draws.position), axis=(0, 1))
    return middle


def start_reference(
    design: Design, priors: HorizonPriors = DEFAULT_PRIORS, options: HorizonOptions = CORE
) -> Reference:
    """Expand about `start_point`."""
    return reference_at(design, priors, options, start_point(design, priors, options))


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
            x[layout.place(block)] = _usual(name, priors)
    return x


def _usual(name: str, priors: HorizonPriors) -> float:
    prior = prior_of(name, priors)
    if is_log(name):
        return float(np.log(_START_SCALES.get(name, 0.5 * max(prior.mu, prior.sd))))
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
    """Return a line through the horizons of the agents with the joint prior."""
    joint = in_joint_prior(design, options)
    if not joint.any():
        return {}
    years = trend_years(design, options)
    dated = joint & ~np.isnan(years)
    if dated.sum() < 2 or np.ptp(years[dated]) == 0:
        return {"trend_level": float(np.median(log2[joint]))}
    rate, level = np.polyfit(years[dated], log2[dated], 1)
    return {"trend_level": float(level), "trend_rate": float(np.clip(rate, -3, 5))}


def _density_for_nutpie(n, z_, gradient_, logp_, data_):  # type: ignore[no-untyped-def]
    z, gradient = numba.carray(z_, (n,)), numba.carray(gradient_, (n,))
    logp = whitened_log_density(z, gradient, numba.carray(data_, (length_of(data_),)))
    logp_[0] = logp
    if not math.isfinite(logp):
        return 1
    for i in range(n):
        if not math.isfinite(gradient[i]):
            return 1
    return 0


def _identity_for_nutpie(n, n_out, z_, out_, data_):  # type: ignore[no-untyped-def]
    for i in range(n):
        out_[i] = z_[i]
    return 0


@functools.cache
def _compiled() -> tuple[CompiledFunction, CompiledFunction]:
    """Compile for nutpie, or load from numba's cache: at first use, never at import."""
    size, pointer = types.uint64, types.CPointer(types.float64)
    compile_ = functools.partial(numba.cfunc, cache=True, error_model="numpy")
    with content_cache():
        return (
            compile_(types.int64(size, *[pointer] * 4))(_density_for_nutpie),
            compile_(types.int64(size, size, *[pointer] * 3))(_identity_for_nutpie),
        )
