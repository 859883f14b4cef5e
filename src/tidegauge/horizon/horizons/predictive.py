"""Posterior predictive checks: whether the fitted model would have produced these data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.engine.diagnostics import Check
from tidegauge.horizon.data.design import Design, human_log2_mean
from tidegauge.horizon.horizons.tables import BUCKETS
from tidegauge.horizon.model.human_noise import draw_durations
from tidegauge.horizon.model.likelihood import agent_success, draw_successes
from tidegauge.horizon.model.observations import scored_successes
from tidegauge.horizon.model.options import HorizonOptions
from tidegauge.horizon.model.parameters import Point

REPLICATES = 400
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
    """All predictive checks of a fit."""

    human: tuple[HumanCheck, ...]
    rates: tuple[RateCheck, ...]
    difficulty: tuple[DifficultyGroup, ...]

    def checks(self) -> list[Check]:
        """Return the findings as values for ``diagnostics.json``."""
        found = [_duration_check(check) for check in self.human]
        if self.rates:
            inside = np.mean([rate.low <= rate.observed <= rate.high for rate in self.rates])
            # Binomial: 95 % of so many intervals, less three standard errors.
            least = 0.95 - 3 * np.sqrt(0.95 * 0.05 / len(self.rates))
            detail = f"{inside:.1%} of {len(self.rates)} agent and length buckets inside 95 %"
            found.append(Check("predictive_success_rates", bool(inside >= least), detail))
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
    rates = rate_checks(design, options, some, rng)
    groups = _difficulty_groups(design, point.mu_task.reshape(-1, len(design.tasks)))
    return PredictiveChecks(human=tuple(human), rates=tuple(rates), difficulty=tuple(groups))


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
) -> list[RateCheck]:
    """Replicate each agent's runs, by length bucket, from draws (draw, ...).

    Only tasks whose runs are successes or failures: a fractional score has a mean in the model but
    no distribution to draw it from.
    """
    binary = (scored_successes(design, options) == design.successes).all(axis=0)
    found = []
    for a, agent in enumerate(design.agents):
        attempts = design.attempts[a].astype(np.int64)
        phi = None if point.phi is None else point.phi[:, None]
        replicated = draw_successes(agent_success(point, a), attempts, phi, rng)
        for bucket, (low, high) in BUCKETS.items():
            inside = (design.human_minutes >= low) & (design.human_minutes < high) & binary
            n_runs = int(attempts[inside].sum())
            if n_runs:
                rate = replicated[:, inside].sum(axis=1) / n_runs
                ends = np.quantile(rate, [0.025, 0.975])
                observed = float(design.successes[a, inside].sum() / n_runs)
                found.append(RateCheck(agent, bucket, n_runs, observed, *map(float, ends)))
    return found


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
