"""The joint density of the horizon model once more, from SciPy's distributions.

Written from the formulas of the documentation, a plain sum of ``logpdf``, for comparison with the
PyMC specification.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit, gammaln

from full_designs import scipy_distribution, scipy_noise, trend_at
from tidegauge.horizon.data.agents import group_names
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.model.options import HorizonOptions, HorizonPriors, priors_in_force

Values = dict[str, NDArray[np.float64]]


def log_joint(design: Design, priors: HorizonPriors, options: HorizonOptions, v: Values) -> float:
    """Log density of the parameters (in their own units) and the data."""
    priors = priors_in_force(priors, options)
    total = _log_hyperpriors(priors, v)
    if "trend_kink" in v:  # uniform over the years with dates
        total -= math.log(np.nanmax(design.agent_years) - np.nanmin(design.agent_years))
    total += _log_tasks(design, v)
    total += _log_agents(design, priors, options, v)
    total += _log_human_times(design, options, v)
    return total + _log_successes(design, options, v)


def _log_hyperpriors(priors: HorizonPriors, v: Values) -> float:
    return sum(
        float(scipy_distribution(getattr(priors, field.name)).logpdf(v[field.name]).sum())
        for field in dataclasses.fields(priors)
        if field.name in v and field.name not in ("alpha", "beta")
    )


def _log_tasks(design: Design, v: Values) -> float:
    family = design.task_family
    total = stats.norm.logpdf(v["mu_family"], v["mu_global"], v["sigma_global"]).sum()
    total += stats.norm.logpdf(v["mu_task"], v["mu_family"][family], v["sigma_family"]).sum()
    if "residual" in v:
        centre = 0.0
        if "residual_family" in v:
            total += stats.norm.logpdf(v["residual_family"], 0, v["sigma_residual_family"]).sum()
            centre = v["residual_family"][family]
        total += stats.norm.logpdf(v["residual"], centre, v["sigma_residual_task"]).sum()
    if "log_discrimination" in v:
        total += stats.norm.logpdf(v["log_discrimination"], 0, v["sigma_discrimination"]).sum()
    return float(total)


def _log_agents(design: Design, priors: HorizonPriors, options: HorizonOptions, v: Values) -> float:
    names = group_names(design, options.pooling)
    groups, total = sorted(set(names)), 0.0
    for kind in ("horizon", "slope"):
        if f"group_{kind}" in v:
            total += stats.norm.logpdf(v[f"group_{kind}"], 0, v[f"sigma_group_{kind}"]).sum()
    for a, (alpha, beta) in enumerate(zip(v["alpha"], v["beta"], strict=True)):
        year = design.agent_years[a] if design.agent_years.size else np.nan
        g = groups.index(names[a])
        grouped = "group_horizon" in v
        if options.pooling == "none" and options.slopes == "own":
            total += scipy_distribution(priors.beta).logpdf(beta)
        else:
            centre = v["mu_slope"] + (v["group_slope"][g] if grouped else 0)
            # Log-normal: -beta has the density of exp(Normal).
            total += stats.lognorm.logpdf(-beta, v["sigma_slope"], scale=np.exp(centre))
        if options.pooling == "none" and (options.trend == "none" or np.isnan(year)):
            at = np.mean(np.log2(design.human_minutes)) * (options.logit_prior == "mean_task")
            total += scipy_distribution(priors.alpha).logpdf(alpha + beta * at)
        else:
            centre = v["trend_level"] if np.isnan(year) else trend_at(options, v, np.array(year))
            centre = centre + (v["group_horizon"][g] if grouped else 0)
            # alpha = -beta h, with h normal.
            total += stats.norm.logpdf(alpha, -beta * centre, -beta * v["sigma_horizon"])
    if "logit_lapse" in v:
        total += stats.norm.logpdf(v["logit_lapse"], v["mu_lapse"], v["sigma_lapse"]).sum()
    return float(total)


def _log_human_times(design: Design, options: HorizonOptions, v: Values) -> float:
    noise = scipy_noise(options, v)
    sources = sorted(set(design.task_source))

    def scale_of(task: int) -> float:
        by_source = options.human_scale == "source"
        sigma = (
            v["sigma_human"][sources.index(design.task_source[task])]
            if by_source
            else (v["sigma_human"])
        )
        growth = v.get("noise_growth", 0.0)
        return float(sigma * 2 ** (growth * (v["mu_task"][task] - 5)))

    total = 0.0
    for task, log2 in zip(design.run_task, design.run_log2, strict=True):
        centre, scale, minutes = v["mu_task"][task], scale_of(task), 2**log2
        if options.rounding and abs(minutes - round(minutes)) < 1e-6 and round(minutes) >= 1:
            edges = (np.log2([round(minutes), round(minutes) + 1]) - centre) / scale
            # The difference in the tail where both are small, by logarithms.
            tail = noise.logsf if edges[0] > 0 else noise.logcdf
            less, more = sorted(tail(edges))
            total += more + np.log(-np.expm1(less - more))
        else:
            total += noise.logpdf((log2 - centre) / scale) - np.log(scale)
    if options.failures == "censor":
        for task, log2 in zip(design.failed_task, design.failed_log2, strict=True):
            total += noise.logsf((log2 - v["mu_task"][task]) / scale_of(task))
    centre = v["mu_task"][design.estimate_task] + v.get("delta_estimate", 0.0)
    total += stats.norm.logpdf(design.estimate_log2, centre, v["sigma_estimate"]).sum()
    return float(total)


def _log_successes(design: Design, options: HorizonOptions, v: Values) -> float:
    eta = v["alpha"][:, None] + v["beta"][:, None] * (v["mu_task"] + v.get("residual", 0.0))
    eta = np.exp(v.get("log_discrimination", 0.0)) * eta
    lapse = expit(v["logit_lapse"])[:, None] if "logit_lapse" in v else 0.0
    p, q = (1 - lapse) * expit(eta), lapse + (1 - lapse) * expit(-eta)
    by_score = [
        options.scores == "continuous" or (options.scores == "re_bench" and source == "RE-Bench")
        for source in design.task_source
    ]
    n, k = design.attempts, np.where(by_score, design.score_sum, design.successes)
    if "phi" in v:
        return float(stats.betabinom.logpmf(k, n, v["phi"] * p, v["phi"] * q).sum())
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return float((ways + k * np.log(p) + (n - k) * np.log(q)).sum())
