"""Predictive checks: whether the fitted model would have produced these data.

Success rates are replicated with new residuals and discriminations of the tasks (mixed
replication), since those fitted to the very runs can hardly miss them; the spread of cells is
replicated at the fitted rates; human times are held against the posterior without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import kstest, spearmanr

from tidegauge.arrays import FloatArray
from tidegauge.engine.diagnostics import Check, leave_one_out_weights
from tidegauge.horizon.data.design import Design, human_log2_mean
from tidegauge.horizon.horizons.tables import BUCKETS
from tidegauge.horizon.model.human_noise import (
    draw_durations,
    duration_log_likelihood,
    duration_probability,
)
from tidegauge.horizon.model.likelihood import agent_success, draw_successes
from tidegauge.horizon.model.observations import scored_successes
from tidegauge.horizon.model.options import HorizonOptions
from tidegauge.horizon.model.parameters import Point

REPLICATES = 400
_LOO_DRAWS = 2000
_FEWEST = 10  # runs, cells or tasks for a check to have any power
_LEAST_CHANCE = 1e-9
_EXTREME = 0.005  # two-sided: a fair statistic lies outside in one check of a hundred


@dataclass(frozen=True)
class HumanCheck:
    """Human log2 durations of one source: what was seen, and what the model would have produced.

    `observed` (run,), `replicated` (replicate, run).
    """

    source: str
    observed: FloatArray
    replicated: FloatArray


@dataclass(frozen=True)
class RateCheck:
    """Success rate of one agent in one length bucket, with the predictive 95 % interval."""

    agent: str
    bucket: str
    n_runs: int
    observed: float
    low: float
    high: float


@dataclass(frozen=True)
class CellCheck:
    """Cells of two or more runs: their spread, and how many are all successes or all failures.

    `chi_square` and `chi_square_replicated` (replicate,): mean over cells of the squared distance
    from the mean of the model in units of its variance, of the cells seen and of replicates.
    """

    n_cells: int
    chi_square: FloatArray
    chi_square_replicated: FloatArray
    unanimous: int
    unanimous_replicated: FloatArray

    def check(self) -> Check:
        """Compare both with their replicates by Bayesian p-values."""
        p_spread = float(np.mean(self.chi_square_replicated >= self.chi_square))
        p_unanimous = float(np.mean(self.unanimous_replicated >= self.unanimous))
        low, high = np.quantile(self.unanimous_replicated, [0.025, 0.975])
        detail = (
            f"{self.n_cells} cells: chi-square per cell {self.chi_square.mean():.2f}, replicated "
            f"{self.chi_square_replicated.mean():.2f} (p {p_spread:.3f}); all or nothing "
            f"{self.unanimous}, replicated {low:.0f} to {high:.0f} (p {p_unanimous:.3f})"
        )
        passed = all(_EXTREME <= p <= 1 - _EXTREME for p in (p_spread, p_unanimous))
        return Check("predictive_cells", passed, detail)


@dataclass(frozen=True)
class LengthCheck:
    """Rank correlation of the inferred lengths with human_minutes and with the agents' failures."""

    with_people: float
    with_failures: float
    n_tasks: int

    def check(self) -> Check:
        """Fail where the lengths follow the agents' failures more than people's times."""
        detail = (
            f"rank correlation of the lengths of {self.n_tasks} tasks with human_minutes "
            f"{self.with_people:.2f}, with the agents' failures {self.with_failures:.2f}"
        )
        return Check("lengths_follow_people", self.with_people >= self.with_failures, detail)


@dataclass(frozen=True)
class DifficultyGroup:
    """Tasks with about as many successful human runs, and how far inference moved them.

    `difference` is the mean distance of the inferred difficulty from the geometric mean of the
    human times, `sd` the mean posterior sd, both in log2 minutes.
    """

    runs: str
    n_tasks: int
    difference: float
    sd: float


@dataclass(frozen=True)
class PredictiveChecks:
    """All predictive checks of a fit.

    `most_outside` is the number of rates outside their intervals that one replicate in 200 exceeds;
    `loo_pit` (run,) the probability of a shorter duration than the one seen, by the posterior
    without it: uniform where the model is right.
    """

    human: tuple[HumanCheck, ...]
    rates: tuple[RateCheck, ...]
    most_outside: float
    difficulty: tuple[DifficultyGroup, ...]
    loo_pit: FloatArray
    cells: CellCheck | None
    lengths: LengthCheck | None

    def checks(self) -> list[Check]:
        """Return the findings as values for ``diagnostics.json``."""
        found = [_duration_check(check) for check in self.human]
        if self.loo_pit.size >= _FEWEST:
            p = float(kstest(self.loo_pit, "uniform").pvalue)
            detail = f"{self.loo_pit.size} runs, Kolmogorov-Smirnov p {p:.3f}"
            found.append(Check("human_durations_left_out", p >= _EXTREME, detail))
        if self.rates:
            outside = sum(not rate.low <= rate.observed <= rate.high for rate in self.rates)
            detail = (
                f"{outside} of {len(self.rates)} agent and length buckets outside 95 %; of data "
                f"from the model, {self.most_outside:.0f} or fewer in 199 of 200"
            )
            found.append(Check("predictive_success_rates", outside <= self.most_outside, detail))
        found += [part.check() for part in (self.cells, self.lengths) if part is not None]
        groups = [
            f"{group.runs} runs ({group.n_tasks} tasks): off by {group.difference:.2f}, "
            f"sd {group.sd:.2f}"
            for group in self.difficulty
        ]
        if groups:
            detail = "log2 minutes, by successful human runs: " + "; ".join(groups)
            found.append(Check("difficulty_against_human_time", None, detail))
        return found


def predict(
    design: Design, options: HorizonOptions, point: Point, *, seed: int
) -> PredictiveChecks:
    """Replicate the human durations and the agents' runs from posterior draws."""
    rng = np.random.default_rng(seed)
    chains, draws = point.mu_global.shape
    chosen = np.linspace(0, chains * draws - 1, min(REPLICATES, chains * draws)).astype(int)
    some = point.chosen(np.unravel_index(chosen, (chains, draws)))
    replicated = draw_durations(design, options, some, rng)
    source = np.array(design.task_source)[design.run_task]
    human = [
        HumanCheck(name, design.run_log2[source == name], replicated[:, source == name])
        for name in sorted(set(source.tolist()))
    ]
    rates, most_outside = rate_checks(design, options, some, rng)
    groups = _difficulty_groups(design, point.mu_task.reshape(-1, len(design.tasks)))
    return PredictiveChecks(
        human=tuple(human),
        rates=tuple(rates),
        most_outside=most_outside,
        difficulty=tuple(groups),
        loo_pit=_loo_pit(design, options, point, rng),
        cells=_cell_check(design, some, rng) if options.scores == "binary" else None,
        lengths=_length_check(design, point),
    )


def _loo_pit(
    design: Design, options: HorizonOptions, point: Point, rng: np.random.Generator
) -> FloatArray:
    if not design.run_task.size:
        return np.empty(0)
    kept = point.flat(max(1, point.mu_global.size // _LOO_DRAWS))
    weights = leave_one_out_weights(duration_log_likelihood(design, options, kept))
    shorter = duration_probability(design, options, kept, rng)
    pit: FloatArray = np.clip((weights * shorter).sum(axis=0), 0, 1)
    return pit


def _cell_check(design: Design, point: Point, rng: np.random.Generator) -> CellCheck | None:
    """Replicate cells of two or more runs at the fitted probabilities."""
    several = design.attempts >= 2
    if several.sum() < _FEWEST:
        return None
    chi_square = {
        "seen": np.zeros(point.mu_global.size),
        "replicated": np.zeros_like(point.mu_global),
    }
    unanimous = np.zeros(point.mu_global.size)
    phi = None if point.phi is None else point.phi[:, None]
    for a in range(len(design.agents)):
        tasks = several[a]
        n, k = design.attempts[a, tasks], design.successes[a, tasks]
        p = np.clip(agent_success(point, a)[:, tasks], _LEAST_CHANCE, 1 - _LEAST_CHANCE)
        alike = 1.0 if phi is None else 1 + (n - 1) / (1 + phi)
        drawn = draw_successes(p, n, phi, rng, p.shape)
        for name, successes in (("seen", k), ("replicated", drawn)):
            chi_square[name] += ((successes - n * p) ** 2 / (n * p * (1 - p) * alike)).sum(axis=1)
        unanimous += ((drawn == 0) | (drawn == n)).sum(axis=1)
    n_cells = int(several.sum())
    seen = (design.successes == 0) | (design.successes == design.attempts)
    return CellCheck(
        n_cells=n_cells,
        chi_square=chi_square["seen"] / n_cells,
        chi_square_replicated=chi_square["replicated"] / n_cells,
        unanimous=int((seen & several).sum()),
        unanimous_replicated=unanimous,
    )


def _length_check(design: Design, point: Point) -> LengthCheck | None:
    tried = design.attempts.sum(axis=0) > 0
    if tried.sum() < _FEWEST:
        return None
    failures = 1 - design.successes.sum(axis=0)[tried] / design.attempts.sum(axis=0)[tried]
    lengths = point.mu_task.mean(axis=(0, 1))[tried]
    if np.ptp(failures) == 0 or np.ptp(design.human_minutes[tried]) == 0:
        return None
    return LengthCheck(
        with_people=float(spearmanr(lengths, design.human_minutes[tried]).statistic),
        with_failures=float(spearmanr(lengths, failures).statistic),
        n_tasks=int(tried.sum()),
    )


def _difficulty_groups(design: Design, draws: FloatArray) -> Sequence[DifficultyGroup]:
    runs, log2_human = human_log2_mean(design)
    off, sd = np.abs(draws.mean(axis=0) - log2_human), draws.std(axis=0)
    found = []
    for name, low, high in (("1-2", 1, 2), ("3-9", 3, 9), ("10 or more", 10, np.inf)):
        inside = (runs >= low) & (runs <= high)
        if inside.any():
            n_tasks = int(inside.sum())
            found.append(DifficultyGroup(name, n_tasks, off[inside].mean(), sd[inside].mean()))
    return found


def rate_checks(
    design: Design, options: HorizonOptions, point: Point, rng: np.random.Generator
) -> tuple[list[RateCheck], float]:
    """Replicate each agent's runs, by length bucket, from draws (draw, ...), at new tasks.

    Only tasks whose runs are successes or failures: a fractional score has a mean in the model but
    no distribution to draw it from.

    Returns
    -------
    rates : list of RateCheck
    most_outside : float
        How many are outside their interval in one replicate of 200 at most: agents share the new
        tasks, so that rates are outside together.
    """
    binary = (scored_successes(design, options) == design.successes).all(axis=0)
    point = _with_new_tasks(design, point, rng)
    phi = None if point.phi is None else point.phi[:, None]
    found, outside = [], np.zeros(point.mu_global.size)
    for a, agent in enumerate(design.agents):
        attempts = design.attempts[a].astype(np.int64)
        chance = agent_success(point, a)
        replicated = draw_successes(chance, attempts, phi, rng, chance.shape)
        for bucket, (low, high) in BUCKETS.items():
            inside = (design.human_minutes >= low) & (design.human_minutes < high) & binary
            n_runs = int(attempts[inside].sum())
            if n_runs:
                rate = replicated[:, inside].sum(axis=1) / n_runs
                ends = np.quantile(rate, [0.025, 0.975])
                outside += (rate < ends[0]) | (rate > ends[1])
                observed = float(design.successes[a, inside].sum() / n_runs)
                found.append(RateCheck(agent, bucket, n_runs, observed, *map(float, ends)))
    return found, float(np.quantile(outside, 1 - _EXTREME))


def _with_new_tasks(design: Design, point: Point, rng: np.random.Generator) -> Point:
    """Draw residuals and discriminations of the tasks anew, lengths kept."""
    changed, shape = {}, point.mu_task.shape
    if point.residual is not None and point.sigma_residual_task is not None:
        residual = point.sigma_residual_task[:, None] * rng.normal(size=shape)
        if point.sigma_residual_family is not None:
            family = rng.normal(size=(shape[0], len(design.families)))
            residual += (point.sigma_residual_family[:, None] * family)[:, design.task_family]
        changed["residual"] = residual
    if point.log_discrimination is not None and point.sigma_discrimination is not None:
        changed["log_discrimination"] = point.sigma_discrimination[:, None] * rng.normal(size=shape)
    return replace(point, **changed)


def _duration_check(check: HumanCheck) -> Check:
    """Compare centre and spread with their replicates by Bayesian p-values."""
    passed, parts = True, []
    for name, statistic in (("mean", np.mean), ("sd", np.std)):
        observed, replicated = statistic(check.observed), statistic(check.replicated, axis=-1)
        if check.observed.size < 2 and name == "sd":
            continue
        above = float(np.mean(replicated >= observed))
        passed = passed and _EXTREME <= above <= 1 - _EXTREME
        parts.append(f"{name} {observed:.2f} against {replicated.mean():.2f} (p {above:.3f})")
    detail = f"{check.observed.size} runs, log2 minutes: " + ", ".join(parts)
    return Check(f"predictive_human_durations[{check.source}]", passed, detail)
