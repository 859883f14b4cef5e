"""A look for other modes: many short chains from starts all over, and the mass where they end.

Chains that all begin near one point agree with each other whatever else there is, and R-hat is
content. Here agents begin with slopes from nearly flat to very steep, everything else far from the
reference, and chains that end apart from the others are counted; the mode of the highest of them
is weighed and reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import expit

from tidegauge.arrays import FloatArray
from tidegauge.engine.bridge import log_mass
from tidegauge.engine.config import SamplerConfig
from tidegauge.engine.diagnostics import Check
from tidegauge.engine.sampling import LogDensity, sample_density
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.model.parameters import ALPHA, MU_SLOPE, Layout, layout_of, unpack
from tidegauge.horizon.sampler.expansion import Reference
from tidegauge.horizon.sampler.target import Problem, middle_of, to_centred
from tidegauge.progress import SILENT, Progress

CHAINS = 16
_TUNE, _DRAWS = 250, 60
_START_SD = 2.0  # whitened units
_SLOPES = (0.08, 4.0)  # logits per log2 minute
_APART = 6.0  # within-chain standard deviations; short chains of one mode stay within about one
_MASS_DRAWS = 300  # a chain, to weigh a mode by
_HOPELESS = -100.0  # log density by which chains lie lower that are not worth a closer look
_MATTERS = 0.05  # of the posterior's mass; the estimate is good to a factor of two or three


@dataclass(frozen=True)
class Screen:
    """What short chains from dispersed starts found.

    Attributes
    ----------
    chains, apart : int
        Chains run, and those that ended apart from most.
    mass : float
        Estimated share of the posterior's mass where the highest of those ended.
    where : str
        The agent's slope by which that one differs most, in words; empty if none.
    middle : ndarray or None
        A point of the parameter vector in the middle of that mode.
    """

    chains: int
    apart: int
    mass: float
    where: str
    middle: FloatArray | None = None

    def check(self) -> Check:
        """Return the finding: it fails where another mode holds a mass that surely matters."""
        if not self.apart:
            return Check("other_modes", True, f"none met by {self.chains} dispersed short chains")
        found = f"{self.apart} of {self.chains} dispersed short chains ended apart ({self.where})"
        detail = f"{found}; its mass, roughly {self.mass:.1g}, is not in the posterior"
        return Check("other_modes", None if self.mass < _MATTERS else False, detail)


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
    if not apart.any() or (~apart).sum() < 2:
        return Screen(CHAINS, 0, 0.0, "")
    height = draws.statistics["lp"].mean(axis=1)
    highest = np.where(apart, height, -np.inf).argmax()
    log_ratio = float(height[highest] - height[~apart].mean())
    centred = to_centred(density, draws.position)
    middle = np.median(centred[highest], axis=0)
    if log_ratio > _HOPELESS:
        here = log_mass(density, draws.position[~apart], seed=seed)
        log_ratio = _log_mass_about(problem, middle, seed) - here
    beta = np.median(unpack(centred, layout).beta, axis=1)
    return Screen(
        chains=CHAINS,
        apart=int(apart.sum()),
        mass=float(expit(log_ratio)),
        where=_in_words(problem.design, beta[highest], np.median(beta[~apart], axis=0)),
        middle=middle,
    )


def _log_mass_about(problem: Problem, x: FloatArray, seed: int) -> float:
    """Return the log mass of the mode about a point, in coordinates that are round there."""
    config = SamplerConfig(draws=_DRAWS, tune=_TUNE, chains=4, target_accept=0.8, seed=seed + 2)
    for draws_of_chain in (_DRAWS, _MASS_DRAWS):
        _, density = problem.expanded_at(x)
        draws = sample_density(density, replace(config, draws=draws_of_chain))
        x = middle_of(density, draws)
    return log_mass(density, draws.position, seed=seed)


def _scattered_starts(
    density: LogDensity, reference: Reference, layout: Layout
) -> Callable[[int], FloatArray]:
    n, center = reference.expansion.pivot.size, np.zeros(density.size)
    plain = slice(1, layout.starts[MU_SLOPE])
    center[plain] = reference.x[plain]

    def initial(seed: int) -> FloatArray:
        rng = np.random.default_rng(seed)
        sd = np.full(density.size, _START_SD)
        sd[plain] = 0.5  # logarithms of scales
        z = center + rng.normal(0, sd)
        steepness = np.exp(rng.uniform(np.log(_SLOPES[0]), np.log(_SLOPES[1]), n))
        s = steepness + np.log(-np.expm1(-steepness))
        deviation = np.concatenate([rng.normal(0, 1, n), s - reference.expansion.center[n:]])
        z[layout.starts[ALPHA] :] = solve_triangular(reference.expansion.root, deviation)
        return z

    return initial


def _in_words(design: Design, there: FloatArray, usual: FloatArray) -> str:
    agent = int(np.abs(np.log(there / usual)).argmax())
    return f"{design.agents[agent]}: slope {there[agent]:.2f} instead of {usual[agent]:.2f}"
