"""The compiled density and its coordinates give the same bits wherever their arrays lie."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from designs import draw_design, usual_truth
from tidegauge.engine.config import SamplerConfig
from tidegauge.engine.sampling import LogDensity, sample_density
from tidegauge.horizon.model.options import (
    CORE,
    DEFAULT_PRIORS,
    FULL,
    HorizonOptions,
    priors_in_force,
)
from tidegauge.horizon.sampler.coordinates import map_all, whitened_log_density
from tidegauge.horizon.sampler.target import start_reference, whitened_density

FAR = 4096  # doubles


def _density(options: HorizonOptions) -> LogDensity:
    rng = np.random.default_rng(3)
    # Families of about thirty tasks: sums within them are long enough for vector instructions.
    design = draw_design(usual_truth(rng, n_agents=10, n_tasks=90, n_families=3), rng)
    priors = priors_in_force(DEFAULT_PRIORS, options)
    return whitened_density(design, priors, options, start_reference(design, priors, options))


def _neighbours(z: NDArray[np.float64], gap: int) -> tuple[NDArray[np.float64], ...]:
    """Return a copy of `z` and room for as many numbers, `gap` doubles behind it."""
    block = np.empty(2 * z.size + gap)
    block[: z.size] = z
    return block[: z.size], block[z.size + gap :]


@pytest.mark.parametrize("options", [CORE, FULL], ids=["core", "full"])
def test_the_centred_point_and_the_density_do_not_depend_on_where_arrays_lie(
    options: HorizonOptions,
) -> None:
    # Loops with and without vector instructions are chosen by a test of the addresses for
    # overlap, which neighbours on the heap may fail: both have to give the same bits.
    density = _density(options)
    z = density.initial(1)
    centred, gradients = set(), set()
    for gap in (*range(16), FAR):
        point, x = _neighbours(z, gap)
        map_all(point[None], x[None], density.data)
        centred.add(x.tobytes())
        point, gradient = _neighbours(z, gap)
        logp = whitened_log_density(point, gradient, density.data)
        gradients.add((logp, gradient.tobytes()))
    assert len(centred) == 1
    assert len(gradients) == 1


def test_chains_of_one_seed_are_equal_whatever_is_on_the_heap() -> None:
    density = _density(CORE)
    config = SamplerConfig(draws=50, tune=150, chains=4, seed=1, target_accept=0.8)
    rng = np.random.default_rng(1)
    chains, occupied = set(), []
    for _ in range(5):
        chains.add(sample_density(density, config).position.tobytes())
        occupied += [bytearray(size) for size in rng.integers(16, 5000, 200)]
    assert len(chains) == 1
