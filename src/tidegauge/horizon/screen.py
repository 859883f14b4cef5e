"""A look for other modes: many short chains from starts all over, compared by their energies.

Chains that all begin near one point agree with each other whatever else there is, and R-hat is
content. Here agents begin with slopes from nearly flat to very steep, everything else far from the
reference, and chains that end apart from the others are counted, weighed and reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from tidegauge.engine.config import SamplerConfig
from tidegauge.engine.diagnostics import Check
from tidegauge.engine.sampling import LogDensity, sample_density
from tidegauge.horizon.design import Design
from tidegauge.horizon.layout import ALPHA, MU_SLOPE, Layout, layout_of, unpack
from tidegauge.horizon.options import HorizonOptions, HorizonPriors
from tidegauge.horizon.reference import Reference, reference_at
from tidegauge.horizon.whitening import to_centred, whitened_density
from tidegauge.progress import SILENT, Progress

FloatArray = NDArray[np.float64]

CHAINS = 16
_TUNE, _DRAWS = 250, 60
_START_SD = 2.0  # whitened units
_SLOPES = (0.08, 4.0)  # logits per log2 minute
_APART = 6.0  # within-chain standard deviations; short chains of one mode stay within about one
_MATTERS = 0.2  # of the posterior's mass; the estimate is good to a factor of ten or so


@dataclass(frozen=True)
class Screen:
    """What short chains from dispersed starts found.

    Attributes
    ----------
    chains, apart : int
        Chains run, and those that ended apart from most.
    mass : float
        Estimated share of the posterior's mass where those ended, by mean log density and spread.
    where : str
        The agent's slope by which the most distant of them differs, in words; empty if none.
    """

    chains: int
    apart: int
    mass: float
    where: str

    def check(self) -> Check:
        """Return the finding: it fails where another mode holds a mass that surely matters."""
        if not self.apart:
            return Check("other_modes", True, f"none met by {self.chains} dispersed short chains")
        found = f"{self.apart} of {self.chains} dispersed short chains ended apart ({self.where})"
        detail = f"{found}; its mass, roughly {self.mass:.1g}, is not in the posterior"
        return Check("other_modes", None if self.mass < _MATTERS else False, detail)


@dataclass(frozen=True)
class Problem:
    """What is sampled."""

    design: Design
    priors: HorizonPriors
    options: HorizonOptions


def screen_modes(
    problem: Problem,
    density: LogDensity,
    reference: Reference,
    *,
    seed: int,
    progress: Progress = SILENT,
) -> Screen:
    """Run short chains from dispersed starts and see where they end."""
    layout = layout_of(problem.design, problem.options)
    scattered = replace(density, initial=_scattered_starts(density, reference, layout))
    config = SamplerConfig(
        draws=_DRAWS, tune=_TUNE, chains=CHAINS, target_accept=0.8, seed=seed + 1
    )
    draws = sample_density(scattered, config, label="looking for other modes", progress=progress)
    mean, sd = draws.position.mean(axis=1), draws.position.std(axis=1)
    distance = np.abs(mean - np.median(mean, axis=0)) / np.median(sd, axis=0)
    apart = distance.max(axis=1) > _APART
    if not apart.any() or apart.all():
        return Screen(CHAINS, 0, 0.0, "")
    centred = to_centred(density, draws.position)
    farthest = np.median(centred[distance.max(axis=1).argmax()], axis=0)
    here = _log_mass(draws.position[~apart], draws.statistics["lp"][~apart])
    other = np.exp(min(_log_mass_about(problem, farthest, seed) - here, 50.0))
    beta = unpack(centred, layout).beta
    return Screen(
        chains=CHAINS,
        apart=int(apart.sum()),
        mass=float(other / (1 + other)),
        where=_in_words(problem.design, np.median(beta, axis=1), apart),
    )


def _log_mass(position: FloatArray, log_density: FloatArray) -> float:
    """Return about the logarithm of a mode's mass, up to a constant that all modes share.

    In coordinates in which the mode is round, that is its mean log density and the logarithm of
    its volume; good to a few units.
    """
    return float(log_density.mean() + np.log(position.std(axis=(0, 1))).sum())


def _log_mass_about(problem: Problem, x: FloatArray, seed: int) -> float:
    """Return the same of the mode about a point, in coordinates that are round there."""
    reference = reference_at(problem.design, problem.priors, problem.options, x)
    density = whitened_density(problem.design, problem.priors, problem.options, reference)
    config = SamplerConfig(draws=200, tune=_TUNE, chains=4, target_accept=0.8, seed=seed + 2)
    draws = sample_density(density, config)
    return _log_mass(draws.position, draws.statistics["lp"])


def _scattered_starts(
    density: LogDensity, reference: Reference, layout: Layout
) -> Callable[[int], FloatArray]:
    n, center = reference.pivot.size, np.zeros(density.size)
    plain = slice(1, layout.starts[MU_SLOPE])
    center[plain] = reference.x[plain]

    def initial(seed: int) -> FloatArray:
        rng = np.random.default_rng(seed)
        sd = np.full(density.size, _START_SD)
        sd[plain] = 0.5  # logarithms of scales
        z = center + rng.normal(0, sd)
        steepness = np.exp(rng.uniform(*np.log(_SLOPES), n))
        s = steepness + np.log(-np.expm1(-steepness))
        deviation = np.concatenate([rng.normal(0, 1, n), s - reference.center[n:]])
        z[layout.starts[ALPHA] :] = solve_triangular(reference.spread, deviation)
        return z

    return initial


def _in_words(design: Design, beta: FloatArray, apart: NDArray[np.bool_]) -> str:
    usual = np.median(beta[~apart], axis=0)
    gap = np.abs(np.log(beta[apart] / usual))
    chain, agent = np.unravel_index(gap.argmax(), gap.shape)
    there = beta[apart][chain, agent]
    return f"{design.agents[agent]}: slope {there:.2f} instead of {usual[agent]:.2f}"
