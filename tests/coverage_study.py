"""How often intervals hold the truth that their data were drawn from.

`make test` runs a few data sets of each study, `make slow` many. Agents of one data set share its
tasks, so a data set counts once: the share of its agents that are covered has at most the variance
of one Bernoulli trial, and binomial bounds are conservative.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from designs import draw_design, usual_truth
from full_designs import FullTruth, draw_full_design, full_usual_truth
from tidegauge.engine.config import SamplerConfig
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.horizons.estimate import estimate_of_fit
from tidegauge.horizon.model.options import CORE, HorizonOptions
from tidegauge.horizon.model.trend_shapes import TREND_SHAPES, trend_slope, trend_value
from tidegauge.horizon.sampler.fit import fit_horizon
from tidegauge.horizon.trend.draws import Trend, trend_of_fit
from tidegauge.horizon.trend.measured import Measured
from tidegauge.horizon.trend.prediction import TrendModel
from tidegauge.horizon.trend.summary import doubling_months
from trends import known_steepness

FloatArray = NDArray[np.float64]

LEVELS = (0.5, 0.9)
QUICK = SamplerConfig(draws=500, tune=300, chains=2, cores=1)

# Success rate, and whether over random tasks. At one half both are the same, by symmetry.
Kind = tuple[float, bool]
KINDS: tuple[Kind, ...] = ((0.5, False), (0.5, True), (0.8, False), (0.8, True))

TREND_TRUTHS = {
    "linear": {"trend_rate": 1.3},
    "quadratic": {"trend_rate": 1.0, "trend_bend": 0.4},
    "kink": {"trend_rate": 0.8, "trend_change": 1.5, "trend_kink": 0.5},
}


@dataclass(frozen=True)
class Coverage:
    """Data sets whose truth lay inside their interval, agents averaged, of `data_sets`."""

    level: float
    covered: float
    data_sets: int

    @property
    def bounds(self) -> tuple[float, float]:
        """Within which `covered` lies in 998 of 1,000 studies if the intervals are right."""
        low, high = binom.ppf([0.001, 0.999], self.data_sets, self.level)
        return float(low), float(high)

    @property
    def is_nominal(self) -> bool:
        low, high = self.bounds
        return low <= self.covered <= high

    @property
    def is_below(self) -> bool:
        return self.covered < self.bounds[0]


def coverage_of(draws: Iterable[FloatArray], truths: Iterable[FloatArray]) -> list[Coverage]:
    """Return the coverage of central intervals, for draws (draw, agent) of each data set."""
    inside: dict[float, list[float]] = {level: [] for level in LEVELS}
    for drawn, truth in zip(draws, truths, strict=True):
        for level in LEVELS:
            low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
            inside[level].append(float(np.mean((low <= truth) & (truth <= high))))
    return [Coverage(level, sum(shares), len(shares)) for level, shares in inside.items()]


def core_coverage(data_sets: int) -> list[Coverage]:
    """Cover p50 by the core model, on data of the core model."""
    draws, truths = [], []
    for seed in range(data_sets):
        rng = np.random.default_rng(1000 + seed)
        truth = usual_truth(rng, n_agents=4, n_tasks=16, n_families=5)
        fit = fit_horizon(draw_design(truth, rng), sampler=QUICK, patient=False)
        draws.append(estimate_of_fit(fit).log2_horizons(0.5, kind="typical"))
        truths.append(truth.log2_p50)
    return coverage_of(draws, truths)


def full_coverage(options: HorizonOptions, data_sets: int) -> dict[Kind, list[Coverage]]:
    """Cover typical and marginal horizons by a model, on data of the full model."""
    draws: dict[Kind, list[FloatArray]] = {kind: [] for kind in KINDS}
    truths: dict[Kind, list[FloatArray]] = {kind: [] for kind in KINDS}
    for seed in range(data_sets):
        rng = np.random.default_rng(3000 + seed)
        truth = full_usual_truth(rng, n_agents=4, n_tasks=30, n_families=15)
        design = draw_full_design(truth, rng)
        fit = fit_horizon(design, options=options, sampler=QUICK, patient=False)
        found = estimate_of_fit(fit)
        for kind in KINDS:
            rate, of = kind[0], "marginal" if kind[1] else "typical"
            draws[kind].append(found.log2_horizons(rate, kind=of))
            truths[kind].append(_true_log2(truth, kind))
    return {kind: coverage_of(draws[kind], truths[kind]) for kind in KINDS}


def _true_log2(truth: FullTruth, kind: Kind) -> FloatArray:
    success, marginal = kind
    return truth.log2_marginal(success) if marginal else truth.log2_typical(success)


def trend_coverage(shape: str, data_sets: int) -> Coverage:
    """Cover the doubling time at the last release by a trend of measured horizons."""
    rng, covered = np.random.default_rng(41), 0.0
    for _ in range(data_sets):
        measured = measure(shape, TREND_TRUTHS[shape], rng, agents=20, noise=0.5)
        found = doubling_months([_drawn_trend(TrendModel(shape, measured), rng)], interval=0.9)
        last = np.array([measured.years.max()])
        coefficients = {"trend_level": 5.0, **TREND_TRUTHS[shape]}
        covered += found.low <= 12 / trend_slope(shape, coefficients, last)[0] <= found.high
    return Coverage(0.9, covered, data_sets)


def joint_trend_coverage(data_sets: int, *, rate: float = 1.3) -> Coverage:
    """Cover the doubling time by joint fits of runs whose horizons follow a line."""
    rng, covered = np.random.default_rng(44), 0.0
    for _ in range(data_sets):
        design = joint_design(rng, agents=8, tasks=30, rate=rate)
        linear = replace(CORE, trend="linear")
        fit = fit_horizon(design, options=linear, sampler=QUICK, patient=False)
        found = doubling_months([trend_of_fit(fit)], interval=0.9)
        covered += found.low <= 12 / rate <= found.high
    return Coverage(0.9, covered, data_sets)


def measure(
    shape: str, truth: dict[str, float], rng: np.random.Generator, *, agents: int, noise: float
) -> Measured:
    """Agents released over five years, measured as well as real ones are."""
    years = np.sort(rng.uniform(-2.5, 2.5, agents))
    years -= years.mean()
    sd = noise * rng.uniform(0.6, 1.4, agents)
    own = trend_value(shape, {"trend_level": 5.0, **truth}, years) + rng.normal(0, noise, agents)
    return Measured(
        tuple(f"agent {a}" for a in range(agents)), years, rng.normal(own, sd), np.diag(sd**2)
    )


def joint_design(
    rng: np.random.Generator,
    *,
    agents: int,
    tasks: int,
    rate: float,
    runs: int = 5,
    sigma_human: float = 1.0,
    steeper: float = 0.0,
) -> Design:
    """Runs of agents whose horizons follow a straight trend, give or take half a doubling.

    `steeper` is by how much the log of their curves' steepness changes a year.
    """
    years = np.sort(rng.uniform(-2, 2, agents))
    years -= years.mean()
    truth = usual_truth(rng, n_agents=agents, n_tasks=tasks, n_families=max(tasks // 4, 1))
    beta = truth.beta * np.exp(steeper * years)
    log2 = 5 + rate * years + rng.normal(0, 0.5, agents)
    drawn = replace(truth, sigma_human=sigma_human, beta=beta, alpha=-beta * log2)
    design = draw_design(drawn, rng, runs_per_cell=runs)
    return replace(design, agent_years=years, origin_day=738000.0)


def _drawn_trend(model: TrendModel, rng: np.random.Generator) -> Trend:
    draws = model.draw(1000, rng)
    return Trend(
        shape=model.shape,
        coefficients={name: draws[name] for name in TREND_SHAPES[model.shape].coefficients},
        scatter=draws["sigma_horizon"],
        steepness=known_steepness(1000),
        origin_day=738000.0,
        first_day=738000 + 365.25 * float(model.measured.years.min()),
        last_day=738000 + 365.25 * float(model.measured.years.max()),
        n_agents=len(model.measured.agents),
    )
