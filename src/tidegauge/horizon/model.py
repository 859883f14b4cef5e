"""The core model as a PyMC specification: what is read, printed and checked against.

`kernel` computes the same log density, fused; a test holds the two equal.
"""

from __future__ import annotations

import pymc as pm
import pytensor.tensor as pt

from tidegauge.engine.variables import variable
from tidegauge.horizon.design import Design
from tidegauge.horizon.options import CORE, DEFAULT_PRIORS, HorizonOptions, HorizonPriors


def build_model(
    design: Design,
    *,
    priors: HorizonPriors = DEFAULT_PRIORS,
    options: HorizonOptions = CORE,
) -> pm.Model:
    """Specify the joint model of task lengths and agent successes; nothing is sampled.

    Lengths ``mu_*`` are log2 minutes; an agent succeeds at task i with probability
    ``logistic(alpha + beta * mu_task[i])``.
    """
    attempted = design.attempts > 0
    agent, task = attempted.nonzero()
    coords = {**design.coords, "cell": range(agent.size)}
    with pm.Model(coords=coords) as model:
        mu_global = variable("mu_global", priors.mu_global)
        sigma_global = variable("sigma_global", priors.sigma_global)
        sigma_family = variable("sigma_family", priors.sigma_family)
        sigma_human = variable("sigma_human", priors.sigma_human)
        sigma_estimate = variable("sigma_estimate", priors.sigma_estimate)
        mu_family = pm.Normal("mu_family", mu_global, sigma_global, dims="family")
        mu_task = pm.Normal("mu_task", mu_family[design.task_family], sigma_family, dims="task")
        alpha = variable("alpha", priors.alpha, dims="agent")
        beta = variable("beta", priors.beta, dims="agent")

        _observe_lengths(design, options, mu_task, sigma_human, sigma_estimate)
        pm.Binomial(
            "successes",
            n=design.attempts[attempted].astype(int),
            logit_p=alpha[agent] + beta[agent] * mu_task[task],
            observed=design.successes[attempted].astype(int),
            dims="cell",
        )
    return model


def _observe_lengths(
    design: Design,
    options: HorizonOptions,
    mu_task: pt.TensorVariable,
    sigma_human: pt.TensorVariable,
    sigma_estimate: pt.TensorVariable,
) -> None:
    if design.run_task.size:
        pm.Normal(
            "log2_duration",
            mu_task[design.run_task],
            sigma_human,
            observed=design.run_log2,
            dims="run",
        )
    if design.estimate_task.size:
        pm.Normal(
            "log2_estimate",
            mu_task[design.estimate_task],
            sigma_estimate,
            observed=design.estimate_log2,
            dims="estimate",
        )
    if options.censors_failures and design.failed_task.size:
        # A failed run says only that the task takes longer than it lasted.
        longer = pm.Normal.dist(-mu_task[design.failed_task], sigma_human)
        pm.Potential("log2_failed", pm.logcdf(longer, -design.failed_log2), dims="failed")


def model_graph(model: pm.Model) -> str:
    """Return the model as a Mermaid graph."""
    return str(pm.model_to_mermaid(model))
