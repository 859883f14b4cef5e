"""What a horizon model may be asked for: its priors and its options."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from tidegauge.engine.config import SamplerConfig
from tidegauge.engine.priors import (
    Prior,
    gamma,
    half_cauchy,
    half_normal,
    log_normal,
    normal,
    truncated_normal,
)
from tidegauge.errors import InputError
from tidegauge.horizon.model.trend_shapes import TREND_SHAPES


@dataclass(frozen=True)
class HorizonPriors:
    """Priors; lengths are log2 minutes, abilities are logits. Those of `core` come first."""

    mu_global: Prior = normal(5, 3)
    sigma_global: Prior = half_normal(3)
    sigma_family: Prior = half_normal(2)
    sigma_human: Prior = half_normal(1)
    sigma_estimate: Prior = half_normal(2)
    alpha: Prior = normal(0, 5)
    beta: Prior = truncated_normal(-0.5, 1.5, upper=0)
    # Human times: tails (nu - 1), growth of the noise per log2 minute, bias of estimates.
    nu_minus_one: Prior = gamma(mean=20, sd=200**0.5)  # shape 2, rate 0.1
    noise_growth: Prior = normal(0, 0.15)
    delta_estimate: Prior = normal(0, 1)
    # Tasks beyond their length: log2 minutes, and log of the discrimination.
    sigma_residual_family: Prior = half_normal(1.5)
    sigma_residual_task: Prior = half_normal(1.5)
    sigma_discrimination: Prior = half_normal(0.5)
    # Runs of a cell: the correlation of two of them is 1 / (1 + phi).
    phi: Prior = log_normal(1.5, 1)
    # Logit of an agent's share of lapses: failures that have nothing to do with length.
    mu_lapse: Prior = normal(-4, 1)
    sigma_lapse: Prior = half_normal(0.7)
    # Agents among agents: log2 minutes, and log of the steepness -beta. No two agents are the
    # same, so their scatter is kept off zero (shape 2): there the posterior would be a funnel.
    sigma_horizon: Prior = gamma(mean=1, sd=0.5**0.5)
    sigma_group_horizon: Prior = half_normal(2)
    mu_slope: Prior = normal(-0.5, 0.7)
    sigma_slope: Prior = gamma(mean=0.4, sd=0.08**0.5)
    sigma_group_slope: Prior = half_normal(0.5)
    # Trend: level at the mean date (log2 minutes), doublings a year, its change, where it bends.
    # Doublings a year seen today are 2.8 to 4.1. From GPT-2 to today there were 15 doublings
    # already, so a height of 15 would say "saturate now": the median here is 40.
    trend_level: Prior = normal(5, 5)
    trend_rate: Prior = normal(2.5, 2)
    trend_bend: Prior = normal(0, 0.7)  # doublings a year, per year
    trend_change: Prior = normal(0, 2)  # doublings a year, after the kink
    trend_log_height: Prior = normal(3.7, 0.7)  # ln of the height of the logistic, log2 minutes
    trend_middle: Prior = normal(0, 3)  # years from the mean date

    def __post_init__(self) -> None:
        for field in fields(self):
            prior, usual = getattr(self, field.name), field.default
            if isinstance(usual, Prior) and prior.support != usual.support:
                low, high = usual.support
                raise InputError(
                    f"priors: {field.name}: {prior}: must be a prior of values from {low:g} to "
                    f"{high:g}, as {usual}"
                )


CHOICES: Mapping[str, tuple[str, ...]] = {
    "residual": ("none", "task", "family"),
    "noise": ("normal", "student_t", "weibull"),
    "human_scale": ("shared", "source"),
    "human_prior": ("half_normal_1", "half_normal_2", "half_cauchy_1"),
    "estimate_prior": ("half_normal_2", "log_normal_1.8"),
    "failures": ("ignore", "censor"),
    "cells": ("binomial", "beta_binomial"),
    "logit_prior": ("one_minute", "mean_task"),
    "slopes": ("own", "pooled"),
    "pooling": ("none", "all", "lab", "family"),
    "scores": ("binary", "re_bench", "continuous"),
    "trend": tuple(TREND_SHAPES),
}
# Priors that an option names: the parameter, and the prior of each of its levels.
_NAMED_PRIORS: Mapping[str, tuple[str, Mapping[str, Prior]]] = {
    "human_prior": (
        "sigma_human",
        {
            "half_normal_1": half_normal(1),
            "half_normal_2": half_normal(2),
            "half_cauchy_1": half_cauchy(1),
        },
    ),
    # 1.8 doublings: 60 % of the estimates within a factor of three (METR's note of March 2026).
    "estimate_prior": (
        "sigma_estimate",
        {"half_normal_2": half_normal(2), "log_normal_1.8": log_normal(math.log(1.8), 0.5)},
    ),
}


@dataclass(frozen=True, kw_only=True)
class HorizonOptions:
    """Choices of one fit; as they stand they make `core`.

    Attributes
    ----------
    residual : str
        Difficulty beyond length, in log2 minutes: ``none``, per ``task``, or per ``family`` and
        task. To agents a task is as long as its length plus its residual: its equivalent length.
    noise : str
        Of human log2 durations: ``normal``, ``student_t`` or ``weibull``.
    human_scale : str
        sigma_human ``shared``, or one per task ``source``.
    human_prior : str
        Prior of sigma_human: ``half_normal_1``, ``half_normal_2`` or ``half_cauchy_1``.
    estimate_prior : str
        Prior of sigma_estimate: ``half_normal_2`` or ``log_normal_1.8``, of median 1.8.
    noise_growth : bool
        Human noise may grow (or shrink) with the length of the task.
    rounding : bool
        Durations of whole minutes m are read as [m, m + 1).
    failures : str
        ``ignore`` failed human runs, or ``censor`` them at their duration.
    estimate_bias : bool
        Estimates may be too short or too long, all by one factor.
    discrimination : bool
        Tasks differ in how sharply they tell agents apart (2PL).
    cells : str
        Runs of one agent at one task are independent (``binomial``), or alike beyond what the
        success curve says (``beta_binomial``).
    lapses : bool
        Agents may fail at a share of all tasks, however short.
    logit_prior : str
        Where the prior of an agent's logit is stated: at a task of ``one_minute``, or at the
        ``mean_task``, of mean log2 human_minutes, which depends on no unit of time.
    slopes : str
        Slopes of agents have each its ``own`` prior, or are ``pooled``: log(-beta) is normal
        about a common mean. Horizons are pooled by `pooling` alone.
    pooling : str
        Agents' horizons and slopes share a prior: over ``all``, or with one level per ``lab`` or
        model ``family``.
    scores : str
        Runs count as ``binary``; RE-Bench runs (``re_bench``) or all (``continuous``) may count
        by their continuous score instead.
    trend : str
        Of log2 T50 over release date, fitted jointly: ``none``, ``linear``, ``quadratic``,
        ``kink`` or ``logistic``.
    """

    residual: str = "none"
    noise: str = "normal"
    human_scale: str = "shared"
    human_prior: str = "half_normal_1"
    estimate_prior: str = "half_normal_2"
    noise_growth: bool = False
    rounding: bool = False
    failures: str = "ignore"
    estimate_bias: bool = False
    discrimination: bool = False
    cells: str = "binomial"
    lapses: bool = False
    logit_prior: str = "one_minute"
    slopes: str = "own"
    pooling: str = "none"
    scores: str = "binary"
    trend: str = "none"

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"{name}={getattr(self, name)}: must be one of {', '.join(allowed)}"
                )
        for field in fields(self):
            if field.name not in CHOICES and not isinstance(getattr(self, field.name), bool):
                raise InputError(f"{field.name}={getattr(self, field.name)}: must be true or false")
        if self.scores != "binary" and (self.is_overdispersed or self.lapses):
            term = "cells=beta_binomial" if self.is_overdispersed else "lapses"
            raise InputError(
                f"scores={self.scores}: {term} needs successes and failures, and a fractional "
                f"score has no distribution; use scores=binary, or leave out {term}"
            )

    @property
    def censors_failures(self) -> bool:
        """Whether failed human runs say that the task takes longer."""
        return self.failures == "censor"

    @property
    def has_residual(self) -> bool:
        """Whether tasks have a difficulty beyond their length."""
        return self.residual != "none"

    @property
    def is_overdispersed(self) -> bool:
        """Whether runs of one cell are alike beyond what the success curve says."""
        return self.cells == "beta_binomial"

    @property
    def pools_slopes(self) -> bool:
        """Whether slopes have a common mean and spread."""
        return self.slopes == "pooled" or self.pooling != "none"

    @property
    def changed(self) -> dict[str, Any]:
        """The options that are not as in `core`."""
        mine = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in mine.items() if value != getattr(CORE, name)}


def priors_in_force(priors: HorizonPriors, options: HorizonOptions) -> HorizonPriors:
    """Return the priors with those that the options name, as `human_prior` does.

    A prior that was given explicitly stays: the option says only what the default shall be.
    """
    named = {
        parameter: levels[getattr(options, option)]
        for option, (parameter, levels) in _NAMED_PRIORS.items()
        if getattr(priors, parameter) == getattr(HorizonPriors, parameter)
    }
    return replace(priors, **named)


USUAL_LOG2_MINUTES = 5.0  # where noise that grows with length has the scale sigma_human

DEFAULT_PRIORS = HorizonPriors()
DEFAULT_SAMPLER = SamplerConfig(draws=1500, tune=500, chains=4, target_accept=0.95)
CORE = HorizonOptions()
# Each choice has its reason in docs/horizon-model.md; none was made on the folds of a file.
FULL = HorizonOptions(
    residual="family",
    cells="beta_binomial",
    logit_prior="mean_task",
    slopes="pooled",
    rounding=True,
    estimate_bias=True,
    estimate_prior="log_normal_1.8",
)
