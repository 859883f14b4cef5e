"""Small designs drawn straight from the core model, without files."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import truncnorm

from tidegauge.arrays import FloatArray
from tidegauge.horizon.data.design import Design


@dataclass(frozen=True)
class Truth:
    """Parameters of the core model."""

    mu_global: float
    sigma_global: float
    sigma_family: float
    sigma_human: float
    sigma_estimate: float
    mu_family: FloatArray
    mu_task: FloatArray
    alpha: FloatArray
    beta: FloatArray

    @property
    def log2_p50(self) -> FloatArray:
        return -self.alpha / self.beta


def task_families(n_tasks: int, n_families: int) -> NDArray[np.int64]:
    return np.sort(np.arange(n_tasks) % n_families)


def prior_truth(rng: np.random.Generator, *, n_agents: int, n_tasks: int, n_families: int) -> Truth:
    """Draw everything from the priors of the core model: for simulation-based calibration."""
    mu_global = rng.normal(5, 3)
    sigma_global, sigma_family, sigma_human, sigma_estimate = np.abs(
        rng.normal(0, [3, 2, 1, 2])
    ).tolist()
    mu_family = rng.normal(mu_global, sigma_global, n_families)
    mu_task = rng.normal(mu_family[task_families(n_tasks, n_families)], sigma_family)
    beta = truncnorm.rvs(-np.inf, 0.5 / 1.5, -0.5, 1.5, size=n_agents, random_state=rng)
    alpha = rng.normal(0, 5, n_agents)
    return Truth(
        *(mu_global, sigma_global, sigma_family, sigma_human, sigma_estimate),
        *(mu_family, mu_task, alpha, beta),
    )


def usual_truth(rng: np.random.Generator, *, n_agents: int, n_tasks: int, n_families: int) -> Truth:
    """Draw a truth that looks like real data: agents whose horizons lie among the tasks."""
    mu_family = rng.normal(5, 2, n_families)
    mu_task = rng.normal(mu_family[task_families(n_tasks, n_families)], 1.2)
    beta = -rng.lognormal(np.log(0.7), 0.2, n_agents)
    alpha = -beta * rng.normal(5, 1.5, n_agents)
    return Truth(5.0, 2.0, 1.2, 1.0, 1.5, mu_family, mu_task, alpha, beta)


def draw_design(
    truth: Truth,
    rng: np.random.Generator,
    *,
    runs_per_cell: int = 6,
    human_runs: int = 3,
    estimates: int = 1,
    failed: int = 0,
) -> Design:
    """Draw data: `human_runs` timed runs at even tasks, `estimates` at odd ones."""
    n_agents, n_tasks, n_families = truth.alpha.size, truth.mu_task.size, truth.mu_family.size
    attempts = np.full((n_agents, n_tasks), float(runs_per_cell))
    win = expit(truth.alpha[:, None] + truth.beta[:, None] * truth.mu_task)
    successes = rng.binomial(runs_per_cell, win).astype(float)
    run_task = np.repeat(np.arange(0, n_tasks, 2), human_runs)
    estimate_task = np.repeat(np.arange(1, n_tasks, 2), estimates)
    failed_task = np.resize(np.arange(n_tasks), failed)
    return Design(
        agents=tuple(f"agent {a}" for a in range(n_agents)),
        tasks=tuple(f"task {t:03d}" for t in range(n_tasks)),
        families=tuple(f"family {f:03d}" for f in range(n_families)),
        task_family=task_families(n_tasks, n_families),
        human_minutes=2.0 ** np.clip(truth.mu_task + rng.normal(0, 0.5, n_tasks), -50, 50),
        task_source=("HCAST",) * n_tasks,
        attempts=attempts,
        successes=successes,
        score_sum=successes,
        run_task=run_task,
        run_log2=rng.normal(truth.mu_task[run_task], truth.sigma_human),
        failed_task=failed_task,
        failed_log2=rng.normal(truth.mu_task[failed_task] - 1, truth.sigma_human),
        estimate_task=estimate_task,
        estimate_log2=rng.normal(truth.mu_task[estimate_task], truth.sigma_estimate),
    )
