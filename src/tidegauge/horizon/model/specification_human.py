"""Human times in the PyMC specification: durations, rounded or cut short, and estimates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.tensor import TensorVariable as Tensor

from tidegauge.engine.variables import variable
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.model.options import HorizonOptions, HorizonPriors
from tidegauge.horizon.model.specification_noise import (
    Noise,
    NormalNoise,
    StudentNoise,
    WeibullNoise,
)

_GROWTH_CENTRE = 5.0  # log2 minutes: where sigma_human is meant if the noise grows with length
_SAME_MINUTES = 1e-6


class HumanScales(NamedTuple):
    """Scales of human noise: of each task's durations (task,), and of estimates; log2 minutes."""

    durations: Tensor
    estimates: Tensor


def add_human_scales(design: Design, priors: HorizonPriors, options: HorizonOptions) -> HumanScales:
    """Add sigma_human, one or one per source, and sigma_estimate."""
    if options.human_scale == "source":
        sources = sorted(set(design.task_source))
        of_task = np.array([sources.index(source) for source in design.task_source])
        durations = variable("sigma_human", priors.sigma_human, dims="source")[of_task]
    else:
        shared = variable("sigma_human", priors.sigma_human)
        durations = pt.full((len(design.tasks),), shared)
    return HumanScales(durations, variable("sigma_estimate", priors.sigma_estimate))


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
        growth = variable("noise_growth", priors.noise_growth)
        scale = scale * 2 ** (growth * (mu_task - _GROWTH_CENTRE))
    _observe_runs(design, options, mu_task, scale, noise)
    bias = variable("delta_estimate", priors.delta_estimate) if options.estimate_bias else 0.0
    if design.estimate_task.size:
        pm.Normal(
            "log2_estimate",
            mu_task[design.estimate_task] + bias,
            scales.estimates,
            observed=design.estimate_log2,
            dims="estimate",
        )
    if options.censors_failures and design.failed_task.size:
        # A failed run says only that the task takes longer than it lasted.
        failed = design.failed_task
        cut = (design.failed_log2 - mu_task[failed]) / scale[failed]
        pm.Potential("log2_failed", noise.log_survival(cut), dims="failed")


def _add_noise(priors: HorizonPriors, options: HorizonOptions) -> Noise:
    if options.noise == "student_t":
        return StudentNoise(nu=1 + variable("nu_minus_one", priors.nu_minus_one))
    return WeibullNoise() if options.noise == "weibull" else NormalNoise()


def _observe_runs(
    design: Design, options: HorizonOptions, mu_task: Tensor, scale: Tensor, noise: Noise
) -> None:
    minutes, task = 2.0**design.run_log2, design.run_task
    rounded = options.rounding & _whole(minutes)
    if rounded.any():
        # A run of m whole minutes took from m to m + 1 of them: a probability, not a density.
        whole, at = np.round(minutes[rounded]), task[rounded]
        low, high = ((np.log2(edge) - mu_task[at]) / scale[at] for edge in (whole, whole + 1))
        pm.Potential("log2_duration_rounded", noise.log_interval(low, high))
    if not rounded.all():
        exact = task[~rounded]
        noise.observe(
            "log2_duration",
            mu_task[exact],
            scale[exact],
            observed=design.run_log2[~rounded],
            dims=None if rounded.any() else "run",
        )


def _whole(minutes: NDArray[np.float64]) -> NDArray[np.bool_]:
    whole = np.round(minutes)
    return (np.abs(minutes - whole) <= _SAME_MINUTES) & (whole >= 1)
