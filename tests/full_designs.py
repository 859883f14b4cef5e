"""Truths and designs under any options of the horizon model, drawn straight from its formulas."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import brentq
from scipy.special import expit

from designs import task_families
from tidegauge.arrays import FloatArray
from tidegauge.engine.priors import Prior
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.model.options import (
    DEFAULT_PRIORS,
    FULL,
    HorizonOptions,
    HorizonPriors,
    priors_in_force,
)

Values = dict[str, Any]

SOURCES, GROUPS = ("HCAST", "SWAA"), ("Anthropic", "Google", "OpenAI")
_TYPICAL_LOG2, _TYPICAL_SPREAD = 7.0, 2.0  # log2 minutes people are given before they fail

# A truth that looks like METR's public runs.
USUAL: dict[str, float] = {
    "mu_global": 5.0,
    "sigma_global": 2.0,
    "sigma_family": 1.2,
    "sigma_human": 1.2,
    "sigma_estimate": 1.2,
    "nu_minus_one": 3.0,
    "noise_growth": 0.05,
    "delta_estimate": 0.5,
    "sigma_residual_family": 1.0,
    "sigma_residual_task": 1.2,
    "sigma_discrimination": 0.3,
    "phi": 4.0,
    "mu_lapse": -3.0,
    "sigma_lapse": 0.5,
    "sigma_horizon": 0.7,
    "sigma_group_horizon": 0.5,
    "mu_slope": math.log(0.7),
    "sigma_slope": 0.2,
    "sigma_group_slope": 0.1,
    "trend_level": 5.0,
    "trend_rate": 1.2,
    "trend_bend": 0.2,
    "trend_change": 0.8,
    "trend_kink": 0.3,
    "trend_log_height": 2.7,
    "trend_middle": 0.5,
}


@dataclasses.dataclass(frozen=True)
class FullTruth:
    """Parameters by their names in the model, and what they are parameters of."""

    options: HorizonOptions
    values: Values
    task_family: NDArray[np.int64]
    task_source: tuple[str, ...]
    agent_years: FloatArray
    agent_groups: tuple[str, ...]
    # What the file says of the tasks' lengths, which has nothing to do with the truth: a prior at
    # the mean task is calibrated only over data sets that agree on where that is.
    log2_minutes: FloatArray

    def log2_typical(self, success: float) -> FloatArray:
        """Log2 minutes at which agents succeed at a task without residual."""
        return self._log2_horizon(success, n_nodes=1)

    def log2_marginal(self, success: float) -> FloatArray:
        """Log2 minutes at which agents succeed, averaged over new tasks; by direct integration."""
        return self._log2_horizon(success, n_nodes=401)

    def _log2_horizon(self, success: float, n_nodes: int) -> FloatArray:
        z = np.linspace(-8, 8, n_nodes) if n_nodes > 1 else np.zeros(1)
        weight = stats.norm.pdf(z) / stats.norm.pdf(z).sum()
        v = self.values
        residual = z * math.hypot(
            v.get("sigma_residual_family", 0.0), v.get("sigma_residual_task", 0.0)
        )
        sharpness = np.exp(z * v.get("sigma_discrimination", 0.0))[:, None]

        def average(log2: float, agent: int) -> float:
            eta = v["alpha"][agent] + v["beta"][agent] * (log2 + residual)
            lapse = expit(v["logit_lapse"][agent]) if "logit_lapse" in v else 0.0
            return float((1 - lapse) * (weight @ expit(sharpness * eta) @ weight))

        found = [
            brentq(lambda x, a=a: average(x, a) - success, -300, 300)
            if average(-300, a) > success
            else -np.inf
            for a in range(v["alpha"].size)
        ]
        return np.array(found)


def scipy_distribution(prior: Prior) -> Any:
    """The SciPy distribution of a prior."""
    match prior.kind:
        case "normal":
            return stats.norm(prior.mu, prior.sd)
        case "half_normal":
            return stats.halfnorm(0, prior.sd)
        case "half_cauchy":
            return stats.halfcauchy(0, prior.sd)
        case "truncated_normal":
            upper = (prior.upper - prior.mu) / prior.sd
            return stats.truncnorm(-np.inf, upper, prior.mu, prior.sd)
        case "gamma":
            shape = (prior.mu / prior.sd) ** 2
            return stats.gamma(shape, scale=prior.mu / shape)
        case "log_normal":
            return stats.lognorm(prior.sd, scale=math.exp(prior.mu))
    raise AssertionError(prior.kind)


def draw_prior(prior: Prior, rng: np.random.Generator, size: int | tuple[()]) -> Any:
    """Draw from a prior; SciPy takes a hundred times longer."""
    match prior.kind:
        case "normal":
            return rng.normal(prior.mu, prior.sd, size)
        case "half_normal":
            return np.abs(rng.normal(0, prior.sd, size))
        case "half_cauchy":
            return prior.sd * np.abs(rng.standard_cauchy(size))
        case "gamma":
            shape = (prior.mu / prior.sd) ** 2
            return rng.gamma(shape, prior.mu / shape, size)
        case "log_normal":
            return rng.lognormal(prior.mu, prior.sd, size)
    return scipy_distribution(prior).rvs(size, random_state=rng)


def draw_noise(
    options: HorizonOptions, values: Values, rng: np.random.Generator, size: int
) -> FloatArray:
    """Draw the standardised noise of human log2 durations."""
    if options.noise == "student_t":
        return rng.standard_t(1 + values["nu_minus_one"], size)
    if options.noise == "weibull":
        return (np.log(rng.exponential(size=size)) + np.euler_gamma) * math.sqrt(6) / math.pi
    return rng.normal(size=size)


def scipy_noise(options: HorizonOptions, values: Values) -> Any:
    """The standardised noise of human log2 durations."""
    if options.noise == "student_t":
        return stats.t(1 + values["nu_minus_one"])
    if options.noise == "weibull":  # ln of an Exponential(1) is a Gumbel for minima
        sd = math.pi / math.sqrt(6)
        return stats.gumbel_l(np.euler_gamma / sd, 1 / sd)
    return stats.norm()


def scalar_names(options: HorizonOptions) -> list[str]:
    """The parameters above tasks and agents that a model with these options has."""
    names = ["mu_global", "sigma_global", "sigma_family", "sigma_human", "sigma_estimate"]
    pooled, grouped = options.pooling != "none", options.pooling in ("lab", "family")
    slopes, trend = pooled or options.slopes == "pooled", options.trend
    asked = {
        "nu_minus_one": options.noise == "student_t",
        "noise_growth": options.noise_growth,
        "delta_estimate": options.estimate_bias,
        "sigma_residual_family": options.residual == "family",
        "sigma_residual_task": options.residual != "none",
        "sigma_discrimination": options.discrimination,
        "phi": options.cells == "beta_binomial",
        "mu_lapse": options.lapses,
        "sigma_lapse": options.lapses,
        "sigma_horizon": pooled or trend != "none",
        "sigma_group_horizon": grouped,
        "mu_slope": slopes,
        "sigma_slope": slopes,
        "sigma_group_slope": grouped,
        "trend_level": pooled or trend != "none",
        "trend_rate": trend != "none",
        "trend_bend": trend == "quadratic",
        "trend_change": trend == "kink",
        "trend_kink": trend == "kink",
        "trend_log_height": trend == "logistic",
        "trend_middle": trend == "logistic",
    }
    return [*names, *(name for name, wanted in asked.items() if wanted)]


def full_prior_truth(
    rng: np.random.Generator,
    *,
    options: HorizonOptions,
    n_agents: int,
    n_tasks: int,
    n_families: int,
    priors: HorizonPriors = DEFAULT_PRIORS,
) -> FullTruth:
    """Draw everything from the priors: for simulation-based calibration."""
    priors = priors_in_force(priors, options)
    truth = _empty_truth(options, n_agents, n_tasks, n_families)
    values = truth.values
    for name in scalar_names(options):
        if name == "trend_kink":
            values[name] = rng.uniform(truth.agent_years.min(), truth.agent_years.max())
        else:
            size = len(SOURCES) if name == "sigma_human" and options.human_scale == "source" else ()
            values[name] = draw_prior(getattr(priors, name), rng, size)
    if options.pooling == "none" and options.slopes == "own":
        values["beta"] = draw_prior(priors.beta, rng, n_agents)
    _draw_vectors(truth, rng)
    if "alpha" not in values:
        at = truth.log2_minutes.mean() * (options.logit_prior == "mean_task")
        values["alpha"] = draw_prior(priors.alpha, rng, n_agents) - values["beta"] * at
    return truth


def full_usual_truth(
    rng: np.random.Generator,
    *,
    n_agents: int,
    n_tasks: int,
    n_families: int,
    options: HorizonOptions = FULL,
    **changed: float,
) -> FullTruth:
    """Draw a truth that looks like real data; `changed` replaces some of its parameters."""
    truth = _empty_truth(options, n_agents, n_tasks, n_families)
    truth.values.update({name: {**USUAL, **changed}[name] for name in scalar_names(options)})
    if options.human_scale == "source":
        truth.values["sigma_human"] = USUAL["sigma_human"] * np.array([1.0, 0.7])
    if options.pooling == "none" and options.slopes == "own":
        truth.values["beta"] = -rng.lognormal(math.log(0.7), 0.2, n_agents)
    _draw_vectors(truth, rng)
    if "alpha" not in truth.values:
        truth.values["alpha"] = -truth.values["beta"] * rng.normal(5, 1.5, n_agents)
    return truth


def draw_full_design(
    truth: FullTruth,
    rng: np.random.Generator,
    *,
    runs_per_cell: int = 6,
    human_runs: int = 3,
) -> Design:
    """Draw data: timed runs at even tasks, estimates at odd ones and at every fourth."""
    values, n_tasks = truth.values, truth.task_family.size
    n_agents, tasks = truth.agent_years.size, np.arange(n_tasks)
    difficulty = values["mu_task"] + values.get("residual", 0.0)
    eta = values["alpha"][:, None] + values["beta"][:, None] * difficulty
    p = expit(np.exp(values.get("log_discrimination", 0.0)) * eta)
    if "logit_lapse" in values:
        p = p * expit(-values["logit_lapse"])[:, None]
    if "phi" in values:
        phi, least = values["phi"], np.finfo(float).tiny
        p = rng.beta(np.maximum(phi * p, least), np.maximum(phi * (1 - p), least))
    successes = rng.binomial(runs_per_cell, p).astype(float)
    estimated = tasks[(tasks % 2 == 1) | (tasks % 4 == 0)]
    centre = values["mu_task"][estimated] + values.get("delta_estimate", 0.0)
    timed, log2, failed = _draw_human_runs(truth, rng, np.repeat(tasks[::2], human_runs))
    return Design(
        agents=tuple(f"agent {a}" for a in range(n_agents)),
        tasks=tuple(f"task {t:03d}" for t in tasks),
        families=tuple(f"family {f:03d}" for f in range(truth.task_family.max() + 1)),
        task_family=truth.task_family,
        human_minutes=2.0**truth.log2_minutes,
        task_source=truth.task_source,
        attempts=np.full((n_agents, n_tasks), float(runs_per_cell)),
        successes=successes,
        score_sum=successes,
        run_task=timed[~failed],
        run_log2=log2[~failed],
        failed_task=timed[failed],
        failed_log2=log2[failed],
        estimate_task=estimated,
        estimate_log2=rng.normal(centre, values["sigma_estimate"]),
        agent_years=truth.agent_years,
        origin_day=738_000.0,
        agent_groups=truth.agent_groups,
    )


def _empty_truth(
    options: HorizonOptions, n_agents: int, n_tasks: int, n_families: int
) -> FullTruth:
    family = task_families(n_tasks, n_families)
    return FullTruth(
        options=options,
        values={},
        task_family=family,
        task_source=tuple(SOURCES[f % len(SOURCES)] for f in family.tolist()),
        agent_years=np.linspace(-2, 2, n_agents) if n_agents > 1 else np.zeros(1),
        agent_groups=tuple(GROUPS[a % len(GROUPS)] for a in range(n_agents)),
        log2_minutes=np.linspace(0.0, 10.0, n_tasks),
    )


def _draw_vectors(truth: FullTruth, rng: np.random.Generator) -> FullTruth:
    """Draw families, tasks and agents given the parameters above them."""
    v, options, family = truth.values, truth.options, truth.task_family
    n_families, n_tasks = int(family.max()) + 1, family.size
    v["mu_family"] = rng.normal(v["mu_global"], v["sigma_global"], n_families)
    v["mu_task"] = rng.normal(v["mu_family"][family], v["sigma_family"])
    if options.residual != "none":
        centre = np.zeros(n_tasks)
        if options.residual == "family":
            v["residual_family"] = rng.normal(0, v["sigma_residual_family"], n_families)
            centre = v["residual_family"][family]
        v["residual"] = rng.normal(centre, v["sigma_residual_task"])
    if options.discrimination:
        v["log_discrimination"] = rng.normal(0, v["sigma_discrimination"], n_tasks)
    if options.lapses:
        v["logit_lapse"] = rng.normal(v["mu_lapse"], v["sigma_lapse"], truth.agent_years.size)
    _draw_agents(truth, rng)
    return truth


def _draw_agents(truth: FullTruth, rng: np.random.Generator) -> None:
    v, options, n_agents = truth.values, truth.options, truth.agent_years.size
    horizon, slope = np.zeros(n_agents), np.zeros(n_agents)
    if options.pooling in ("lab", "family"):
        names = sorted(set(truth.agent_groups))
        of_agent = np.array([names.index(group) for group in truth.agent_groups])
        v["group_horizon"] = rng.normal(0, v["sigma_group_horizon"], len(names))
        v["group_slope"] = rng.normal(0, v["sigma_group_slope"], len(names))
        horizon, slope = v["group_horizon"][of_agent], v["group_slope"][of_agent]
    if "mu_slope" in v:
        v["beta"] = -np.exp(rng.normal(v["mu_slope"] + slope, v["sigma_slope"], n_agents))
    if "sigma_horizon" in v:
        centre = trend_at(options, v, truth.agent_years) + horizon
        v["alpha"] = -v["beta"] * rng.normal(centre, v["sigma_horizon"])


def trend_at(options: HorizonOptions, v: Values, t: FloatArray) -> FloatArray:
    """The trend's log2 horizon, t years from the mean date."""
    rise = np.zeros_like(t)
    if options.trend in ("linear", "quadratic", "kink"):
        rise = v["trend_rate"] * t
    if options.trend == "quadratic":
        rise = rise + 0.5 * v["trend_bend"] * t**2
    if options.trend == "kink":
        rise = rise + v["trend_change"] * 0.05 * np.logaddexp(0, (t - v["trend_kink"]) / 0.05)
    if options.trend == "logistic":
        height, middle = np.exp(v["trend_log_height"]), v["trend_middle"]
        slope = 4 * v["trend_rate"] / height
        rise = height * (expit(slope * (t - middle)) - expit(-slope * middle))
    level: FloatArray = v["trend_level"] + rise
    return level


def _draw_human_runs(
    truth: FullTruth, rng: np.random.Generator, task: NDArray[np.int64]
) -> tuple[NDArray[np.int64], FloatArray, NDArray[np.bool_]]:
    """Return task, log2 minutes and whether it failed, of each run.

    Where failures are censored, a person gives up after a whole number of minutes that has nothing
    to do with the task.
    """
    v, options = truth.values, truth.options
    sigma = np.asarray(v["sigma_human"])
    if options.human_scale == "source":
        sigma = sigma[[SOURCES.index(truth.task_source[t]) for t in task]]
    scale = sigma * 2.0 ** (v.get("noise_growth", 0.0) * (v["mu_task"][task] - 5))
    noise = draw_noise(options, v, rng, task.size)
    log2 = v["mu_task"][task] + scale * noise
    failed = np.zeros(task.size, dtype=bool)
    if options.failures == "censor":
        patience = _in_whole_minutes(rng.normal(_TYPICAL_LOG2, _TYPICAL_SPREAD, task.size))
        failed = log2 >= patience
        log2 = np.where(failed, patience, log2)
    if options.rounding:
        log2 = np.where(failed, log2, _in_whole_minutes(log2))
    return task, log2, failed


def _in_whole_minutes(log2: FloatArray) -> FloatArray:
    """Cut off the seconds; below a minute they are all there is, and in a century they are none."""
    long = (log2 >= 0) & (log2 < 26)
    cut: FloatArray = np.where(long, np.log2(np.floor(2.0 ** np.where(long, log2, 0.0))), log2)
    return cut
