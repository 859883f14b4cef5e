"""The horizon model as a PyMC specification: what is read, printed and checked against.

`kernel` computes the same log density, fused; a test holds the two equal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor import TensorVariable as Tensor
from scipy.special import expit

from tidegauge.horizon.data.design import Design
from tidegauge.horizon.model.observations import groups_of, scored_successes, sources_of
from tidegauge.horizon.model.options import (
    CORE,
    DEFAULT_PRIORS,
    HorizonOptions,
    HorizonPriors,
    with_human_prior,
)
from tidegauge.horizon.model.specification_agents import add_agents
from tidegauge.horizon.model.specification_human import add_human_scales, observe_human_times


class _Tasks(NamedTuple):
    """What a task is to an agent: its length (log2 minutes) and what goes beyond it."""

    length: Tensor
    residual: Tensor | float
    log_discrimination: Tensor | None


def build_model(
    design: Design,
    *,
    priors: HorizonPriors = DEFAULT_PRIORS,
    options: HorizonOptions = CORE,
) -> pm.Model:
    """Specify the joint model of task lengths and agent successes; nothing is sampled.

    Lengths ``mu_*`` are log2 minutes; an agent succeeds at task i with probability ``logistic(
    exp(log_discrimination[i]) * (alpha + beta * mu_task[i] + residual[i]))``, where the residual
    is 0 and the discrimination 1 unless the options ask for them.
    """
    priors = with_human_prior(priors, options)
    with pm.Model(coords=_coords(design, options)) as model:
        lengths = _add_length_scales(priors)
        scales = add_human_scales(design, priors, options)
        tasks = _add_tasks(design, priors, options, lengths)
        alpha, beta = add_agents(design, priors, options)
        observe_human_times(design, priors, options, scales, tasks.length)
        _observe_successes(design, options, tasks, alpha, beta)
    return model


def model_graph(model: pm.Model) -> str:
    """Return the model as a Mermaid graph."""
    return str(pm.model_to_mermaid(model))


def _coords(design: Design, options: HorizonOptions) -> dict[str, object]:
    coords = {**design.coords, "cell": range(int((design.attempts > 0).sum()))}
    if options.human_scale == "source":
        coords["source"] = sources_of(design, options)
    if groups := groups_of(design, options):
        coords["group"] = groups
    return coords


def _add_length_scales(priors: HorizonPriors) -> tuple[Tensor, Tensor, Tensor]:
    """Add mean and spread of the families' lengths, and the spread of tasks within one."""
    mu_global = priors.mu_global.to_pymc("mu_global")
    sigma_global = priors.sigma_global.to_pymc("sigma_global")
    return mu_global, sigma_global, priors.sigma_family.to_pymc("sigma_family")


def _add_tasks(
    design: Design,
    priors: HorizonPriors,
    options: HorizonOptions,
    lengths: tuple[Tensor, Tensor, Tensor],
) -> _Tasks:
    """Add lengths by family, then the difficulty beyond length and the sharpness, if asked for."""
    mu_global, sigma_global, sigma_family = lengths
    mu_family = pm.Normal("mu_family", mu_global, sigma_global, dims="family")
    mu_task = pm.Normal("mu_task", mu_family[design.task_family], sigma_family, dims="task")
    return _Tasks(
        length=mu_task,
        residual=_add_residual(design, priors, options),
        log_discrimination=_add_discrimination(priors, options),
    )


def _add_residual(design: Design, priors: HorizonPriors, options: HorizonOptions) -> Tensor | float:
    if not options.has_residual:
        return 0.0
    centre = 0.0
    if options.residual == "family":
        sigma = priors.sigma_residual_family.to_pymc("sigma_residual_family")
        centre = pm.Normal("residual_family", 0.0, sigma, dims="family")[design.task_family]
    sigma_task = priors.sigma_residual_task.to_pymc("sigma_residual_task")
    return pm.Normal("residual", centre, sigma_task, dims="task")


def _add_discrimination(priors: HorizonPriors, options: HorizonOptions) -> Tensor | None:
    if not options.discrimination:
        return None
    sigma = priors.sigma_discrimination.to_pymc("sigma_discrimination")
    return pm.Normal("log_discrimination", 0.0, sigma, dims="task")


def _observe_successes(
    design: Design,
    options: HorizonOptions,
    tasks: _Tasks,
    alpha: Tensor,
    beta: Tensor,
) -> None:
    attempted = design.attempts > 0
    agent, task = attempted.nonzero()
    eta = alpha[:, None] + beta[:, None] * tasks.length + tasks.residual
    if tasks.log_discrimination is not None:
        eta = eta * pt.exp(tasks.log_discrimination)
    pm.CustomDist(
        "successes",
        eta[agent, task],
        design.attempts[attempted],
        logp=_binomial_log_probability,
        random=_draw_binomial,
        observed=scored_successes(design, options)[attempted],
        class_name="Binomial",
        dims="cell",
    )


def _binomial_log_probability(k: Tensor, eta: Tensor, n: Tensor) -> Tensor:
    """Return the binomial in logits: for fractional k too, and far out where pm.Binomial ends."""
    log_ways = pt.gammaln(n + 1) - pt.gammaln(k + 1) - pt.gammaln(n - k + 1)
    return k * eta - n * pt.softplus(eta) + log_ways


def _draw_binomial(
    eta: np.ndarray, n: np.ndarray, rng: np.random.Generator, size: tuple[int, ...]
) -> np.ndarray:
    return rng.binomial(n.astype(int), expit(eta), size).astype(float)
