"""Human times in the PyMC specification: durations, rounded or cut short, and estimates."""

from __future__ import annotations

from typing import NamedTuple

import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor import TensorVariable as Tensor

from tidegauge.horizon.data.design import Design
from tidegauge.horizon.model.observations import failed_runs, rounded_up, source_index
from tidegauge.horizon.model.options import USUAL_LOG2_MINUTES, HorizonOptions, HorizonPriors
from tidegauge.horizon.model.specification_noise import (
    Noise,
    NormalNoise,
    StudentNoise,
    WeibullNoise,
)


class HumanScales(NamedTuple):
    """Scales of human noise: of each task's durations (task,), and of estimates; log2 minutes."""

    durations: Tensor
    estimates: Tensor


def add_human_scales(design: Design, priors: HorizonPriors, options: HorizonOptions) -> HumanScales:
    """Add sigma_human, one or one per source, and sigma_estimate."""
    if options.human_scale == "source":
        by_source = priors.sigma_human.to_pymc("sigma_human", dims="source")
        durations = by_source[source_index(design, options)]
    else:
        shared = priors.sigma_human.to_pymc("sigma_human")
        durations = pt.full((len(design.tasks),), shared)
    return HumanScales(durations, priors.sigma_estimate.to_pymc("sigma_estimate"))


def observe_human_times(
    design: Design,
    priors: HorizonPriors,
    options: HorizonOptions,
    scales: HumanScales,
    mu_task: Tensor,
) -> None:
    """Add what shapes the noise, and what people did and estimated."""
    scale, noise = scales.durations, _add_noise(priors, options)
    if options.noise_growth:
        growth = priors.noise_growth.to_pymc("noise_growth")
        scale = scale * 2 ** (growth * (mu_task - USUAL_LOG2_MINUTES))
    _observe_runs(design, options, mu_task, scale, noise)
    bias = priors.delta_estimate.to_pymc("delta_estimate") if options.estimate_bias else 0.0
    if design.estimate_task.size:
        pm.Normal(
            "log2_estimate",
            mu_task[design.estimate_task] + bias,
            scales.estimates,
            observed=design.estimate_log2,
            dims="estimate",
        )
    failed, failed_log2 = failed_runs(design, options)
    if failed.size:
        # A failed run tells only that the task takes longer than it lasted.
        cut = (failed_log2 - mu_task[failed]) / scale[failed]
        pm.Potential("log2_failed", noise.log_survival(cut), dims="failed")


def _add_noise(priors: HorizonPriors, options: HorizonOptions) -> Noise:
    if options.noise == "student_t":
        return StudentNoise(nu=1 + priors.nu_minus_one.to_pymc("nu_minus_one"))
    return WeibullNoise() if options.noise == "weibull" else NormalNoise()


def _observe_runs(
    design: Design, options: HorizonOptions, mu_task: Tensor, scale: Tensor, noise: Noise
) -> None:
    task, log2, upper = design.run_task, design.run_log2, rounded_up(design, options)
    rounded = upper != log2
    if rounded.any():
        # A run of m whole minutes took from m to m + 1 of them: a probability, not a density.
        at = task[rounded]
        low, high = ((edge[rounded] - mu_task[at]) / scale[at] for edge in (log2, upper))
        pm.Potential("log2_duration_rounded", noise.log_interval(low, high))
    if not rounded.all():
        exact = task[~rounded]
        noise.observe(
            "log2_duration",
            mu_task[exact],
            scale[exact],
            observed=log2[~rounded],
            dims=None if rounded.any() else "run",
        )
