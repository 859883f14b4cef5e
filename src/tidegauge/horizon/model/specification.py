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
from tidegauge.horizon.model.likelihood import draw_successes
from tidegauge.horizon.model.observations import groups_of, scored_successes, sources_of
from tidegauge.horizon.model.options import (
    CORE,
    DEFAULT_PRIORS,
    HorizonOptions,
    HorizonPriors,
    priors_in_force,
)
from tidegauge.horizon.model.specification_agents import add_agents
from tidegauge.horizon.model.specification_human import add_human_scales, observe_human_times


class _Tasks(NamedTuple):
    """A task's length, and what it is to an agent: its equivalent length and sharpness."""

    length: Tensor
    equivalent_length: Tensor
    log_discrimination: Tensor | None


def build_model(
    design: Design,
    *,
    priors: HorizonPriors = DEFAULT_PRIORS,
    options: HorizonOptions = CORE,
) -> pm.Model:
    """Specify the joint model of task lengths and agent successes; nothing is sampled.

    Lengths ``mu_*`` are log2 minutes; an agent succeeds at task i with probability ``(1 - lapse) *
    logistic(exp(log_discrimination[i]) * (alpha + beta * (mu_task[i] + residual[i])))``, where
    residual and lapse are 0 and the discrimination 1 unless the options ask for them.
    """
    priors = priors_in_force(priors, options)
    with pm.Model(coords=_coords(design, options)) as model:
        lengths = _add_length_scales(priors)
        scales = add_human_scales(design, priors, options)
        tasks = _add_tasks(design, priors, options, lengths)
        alpha, beta = add_agents(design, priors, options)
        observe_human_times(design, priors, options, scales, tasks.length)
        _observe_successes(design, priors, options, tasks, alpha, beta)
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
        equivalent_length=mu_task + _add_residual(design, priors, options),
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
    priors: HorizonPriors,
    options: HorizonOptions,
    tasks: _Tasks,
    alpha: Tensor,
    beta: Tensor,
) -> None:
    attempted = design.attempts > 0
    agent, task = attempted.nonzero()
    eta = alpha[:, None] + beta[:, None] * tasks.equivalent_length
    if tasks.log_discrimination is not None:
        eta = eta * pt.exp(tasks.log_discrimination)
    logit_lapse = _add_lapses(priors, options)
    pm.CustomDist(
        "successes",
        eta[agent, task],
        pt.full((agent.size,), -np.inf) if logit_lapse is None else logit_lapse[agent],
        priors.phi.to_pymc("phi") if options.is_overdispersed else np.inf,
        design.attempts[attempted],
        logp=_beta_binomial if options.is_overdispersed else _binomial,
        random=_draw_successes,
        observed=scored_successes(design, options)[attempted],
        class_name="BetaBinomial" if options.is_overdispersed else "Binomial",
        dims="cell",
    )


def _add_lapses(priors: HorizonPriors, options: HorizonOptions) -> Tensor | None:
    if not options.lapses:
        return None
    mu, sigma = (getattr(priors, name).to_pymc(name) for name in ("mu_lapse", "sigma_lapse"))
    return pm.Normal("logit_lapse", mu, sigma, dims="agent")


def _log_ways(k: Tensor, n: Tensor) -> Tensor:
    return pt.gammaln(n + 1) - pt.gammaln(k + 1) - pt.gammaln(n - k + 1)


def _binomial(k: Tensor, eta: Tensor, logit_lapse: Tensor, phi: Tensor, n: Tensor) -> Tensor:
    """Return the binomial in logits: for fractional k too, and far out where pm.Binomial ends.

    With a lapse l, success has the probability (1 - l) logistic(eta), failure l + (1 - l)
    logistic(-eta).
    """
    log_lapse, log_rest = -pt.softplus(-logit_lapse), -pt.softplus(logit_lapse)
    success = log_rest - pt.softplus(-eta)
    failure = pt.logaddexp(log_lapse, log_rest - pt.softplus(eta))
    return k * success + (n - k) * failure + _log_ways(k, n)


def _beta_binomial(k: Tensor, eta: Tensor, logit_lapse: Tensor, phi: Tensor, n: Tensor) -> Tensor:
    """Return the beta-binomial with mean p and precision phi."""
    lapse = pt.sigmoid(logit_lapse)
    a = phi * (1 - lapse) * pt.sigmoid(eta)
    b = phi * (lapse + (1 - lapse) * pt.sigmoid(-eta))
    rising = pt.gammaln(a + k) - pt.gammaln(a) + pt.gammaln(b + n - k) - pt.gammaln(b)
    return rising - pt.gammaln(phi + n) + pt.gammaln(phi) + _log_ways(k, n)


def _draw_successes(
    eta: np.ndarray,
    logit_lapse: np.ndarray,
    phi: np.ndarray,
    n: np.ndarray,
    rng: np.random.Generator,
    size: tuple[int, ...],
) -> np.ndarray:
    return draw_successes(expit(-logit_lapse) * expit(eta), n, phi, rng, size)
