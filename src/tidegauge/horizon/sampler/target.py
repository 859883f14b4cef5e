"""The model's log density in whitened coordinates, as the sampler wants it."""

from __future__ import annotations

import functools
import math

import numba
import numpy as np
from numba import types

from tidegauge.arrays import FloatArray
from tidegauge.engine.sampling import CompiledFunction, LogDensity
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.density.buffer import pack_data
from tidegauge.horizon.density.jit import content_cache
from tidegauge.horizon.model.options import HorizonOptions, HorizonPriors
from tidegauge.horizon.model.parameters import MU_SLOPE, layout_of
from tidegauge.horizon.sampler.coordinates import map_all, whitened_log_density, whole_length_of
from tidegauge.horizon.sampler.expansion import Reference

_START_SD = 0.5  # of the dispersed starts, in whitened units


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

    def initial(seed: int) -> FloatArray:
        jitter = np.random.default_rng(seed).normal(0, start_sd, layout.size)
        return center + jitter

    function, identity = _compiled()
    return LogDensity(
        function=function,
        identity=identity,
        data=np.concatenate([pack_data(design, priors, options), *reference.arrays()]),
        size=layout.size,
        initial=initial,
    )


def to_centred(density: LogDensity, z: FloatArray) -> FloatArray:
    """Map whitened draws (..., size) to the model's own unconstrained coordinates."""
    flat = np.ascontiguousarray(z.reshape(-1, density.size))
    centred = np.empty_like(flat)
    map_all(flat, centred, density.data)
    return centred.reshape(z.shape)


def _density_for_nutpie(n, z_, gradient_, logp_, data_):  # type: ignore[no-untyped-def]
    z, gradient = numba.carray(z_, (n,)), numba.carray(gradient_, (n,))
    logp = whitened_log_density(z, gradient, numba.carray(data_, (whole_length_of(data_),)))
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
