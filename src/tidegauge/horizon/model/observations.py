"""What the observations of a design mean under the options of a model.

What counts as success, between which minutes a rounded duration lies, which sigma_human, group and
date are whose. The specification, the compiled density, the pointwise likelihood and the held-out
scores all ask here.
"""

from __future__ import annotations

import numpy as np

from tidegauge.arrays import BoolArray, FloatArray, IntArray
from tidegauge.horizon.data.agents import group_names
from tidegauge.horizon.data.counts import RE_BENCH
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.model.options import HorizonOptions

_WHOLE_MINUTE = 1e-6  # minutes by which a whole number of them may be off


def continuous_scores(design: Design) -> FloatArray:
    """Return the summed scores (agent, task), each cell's between none and all of its runs."""
    return np.clip(design.score_sum, 0, design.attempts)


def scored_successes(design: Design, options: HorizonOptions) -> FloatArray:
    """Return what counts as success (agent, task): runs, or their continuous scores."""
    if options.scores == "binary":
        return design.successes
    graded = np.array([options.scores == "continuous" or s == RE_BENCH for s in design.task_source])
    return np.where(graded, continuous_scores(design), design.successes)


def is_whole_minutes(log2: FloatArray) -> BoolArray:
    """Tell which log2 minutes are a whole number of minutes, one or more."""
    minutes = np.exp2(log2)
    return (np.abs(minutes - np.round(minutes)) < _WHOLE_MINUTE) & (minutes > 0.5)


def rounded_up(design: Design, options: HorizonOptions) -> FloatArray:
    """Return the log2 minutes (run,) to which a duration may be; its own where it is exact.

    A duration of whole minutes was rounded down: it may be up to a minute longer.
    """
    upper = design.run_log2.copy()
    if options.rounding:
        whole = is_whole_minutes(upper)
        upper[whole] = np.log2(np.round(np.exp2(upper[whole])) + 1)
    return upper


def human_runs(design: Design, options: HorizonOptions) -> tuple[BoolArray, FloatArray]:
    """Split the successful human runs by the form of their likelihood.

    Returns
    -------
    plain : ndarray of bool, shape (run,)
        Runs whose log is Normal about the task's length: their moments are sufficient.
    interval : ndarray, shape (3, others)
        Task, and the log2 minutes from and to which the duration may be; both equal where it is
        exact.
    """
    log2, upper = design.run_log2, rounded_up(design, options)
    simple = options.noise == "normal" and not options.noise_growth
    plain = (upper == log2) & simple
    others = ~plain
    return plain, np.stack([design.run_task[others].astype(float), log2[others], upper[others]])


def failed_runs(design: Design, options: HorizonOptions) -> tuple[IntArray, FloatArray]:
    """Return task and log2 minutes (failed,) of the failed human runs that are censored."""
    kept = slice(None) if options.censors_failures else slice(0)
    return design.failed_task[kept], design.failed_log2[kept]


def sources_of(design: Design, options: HorizonOptions) -> tuple[str, ...]:
    """Return the task sources that have a sigma_human of their own; one for all if shared."""
    return tuple(sorted(set(design.task_source))) if options.human_scale == "source" else ("all",)


def source_index(design: Design, options: HorizonOptions) -> IntArray:
    """Return per task which of `sources_of` is its own."""
    if options.human_scale == "shared":
        return np.zeros(len(design.tasks), dtype=np.int64)
    return np.searchsorted(sources_of(design, options), design.task_source)


def groups_of(design: Design, options: HorizonOptions) -> tuple[str, ...]:
    """Return the groups of agents (labs, model families) that have a level of their own."""
    if options.pooling not in ("lab", "family"):
        return ()
    return tuple(sorted(set(group_names(design, options.pooling))))


def group_index(design: Design, options: HorizonOptions) -> IntArray:
    """Return per agent which of `groups_of` is its own; 0 for all where there are no groups."""
    if groups := groups_of(design, options):
        return np.searchsorted(groups, group_names(design, options.pooling))
    return np.zeros(len(design.agents), dtype=np.int64)


def trend_years(design: Design, options: HorizonOptions) -> FloatArray:
    """Return the agents' years from the mean release date; NaN for those not in the trend."""
    if options.trend == "none" or not design.agent_years.size:
        return np.full(len(design.agents), np.nan)
    return design.agent_years


def in_joint_prior(design: Design, options: HorizonOptions) -> BoolArray:
    """Tell which agents' horizons have the joint prior (pooling, trend) instead of their own."""
    if options.pooling != "none":
        return np.ones(len(design.agents), dtype=bool)
    return ~np.isnan(trend_years(design, options))


def prior_length(design: Design, options: HorizonOptions) -> float:
    """Return the log2 minutes of the task at which the prior of an agent's logit is stated."""
    return float(design.log2_minutes.mean()) if options.logit_prior == "mean_task" else 0.0
