"""Fit the core model: a pilot run shapes the coordinates, the main run samples in them."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tidegauge.engine.config import SamplerConfig
from tidegauge.engine.diagnostics import Diagnosis, diagnose
from tidegauge.engine.sampling import Draws, LogDensity, sample_density
from tidegauge.horizon.design import Design
from tidegauge.horizon.frequentist import logistic_ridge
from tidegauge.horizon.options import (
    CORE,
    DEFAULT_PRIORS,
    DEFAULT_SAMPLER,
    HorizonOptions,
    HorizonPriors,
)
from tidegauge.horizon.packing import Point, layout_of, unpack
from tidegauge.horizon.reference import Reference, reference_at
from tidegauge.horizon.trace import posterior_of
from tidegauge.horizon.whitening import to_centred, whitened_density
from tidegauge.progress import SILENT, Progress

FloatArray = NDArray[np.float64]

_PILOT_DRAWS, _PILOT_TUNE = 100, 200
# What is tried in turn when a run does not converge: smaller steps, longer chains.
_PATIENCE = ((0.95, 1), (0.98, 2), (0.995, 4))


@dataclass(frozen=True)
class HorizonFit:
    """A fitted core model.

    Attributes
    ----------
    design, priors, options, sampler
        What was fitted and how; `sampler` as it was in the end.
    point : Point
        All draws, each array with leading dimensions (chain, draw).
    draws : Draws
        The sampler's own record.
    diagnosis : Diagnosis
        Convergence and the parameter table.
    attempts : int
        Runs it took: a run that did not converge is repeated with more patience.
    seconds : dict
        ``compile`` and ``sample``.
    """

    design: Design
    priors: HorizonPriors
    options: HorizonOptions
    sampler: SamplerConfig
    point: Point
    draws: Draws
    diagnosis: Diagnosis
    attempts: int
    seconds: dict[str, float]


def fit_horizon(
    design: Design,
    *,
    priors: HorizonPriors = DEFAULT_PRIORS,
    options: HorizonOptions = CORE,
    sampler: SamplerConfig = DEFAULT_SAMPLER,
    patient: bool = True,
    progress: Progress = SILENT,
) -> HorizonFit:
    """Sample the posterior of the core model.

    Parameters
    ----------
    patient : bool
        Repeat a run that did not converge with smaller steps and longer chains, up to twice.
    """
    began = time.perf_counter()
    with progress.step("loading the compiled density (the first run compiles it: about 20 s)"):
        density = whitened_density(design, priors, options, start_reference(design, priors))
    compiled = time.perf_counter()
    pilot = replace(sampler, draws=_PILOT_DRAWS, tune=_PILOT_TUNE, target_accept=0.8)
    draws = sample_density(density, pilot, label="pilot", progress=progress)
    reference = _reference_from(design, priors, unpack_draws(design, density, draws))
    density = whitened_density(design, priors, options, reference)
    for attempt, (target, longer) in enumerate(_PATIENCE, start=1):
        config = replace(
            sampler,
            target_accept=max(target, sampler.target_accept),
            tune=sampler.tune * longer,
            draws=sampler.draws * longer,
        )
        draws = sample_density(density, config, label="sampling", progress=progress)
        point = unpack_draws(design, density, draws)
        diagnosis = diagnose(posterior_of(design, point, draws))
        if diagnosis.converged or not patient or attempt == len(_PATIENCE):
            break
        failed = "; ".join(f"{check.name}: {check.detail}" for check in diagnosis.failed)
        progress.note(f"not converged yet ({failed}): again, with more patience")
    done = time.perf_counter()
    return HorizonFit(
        design=design,
        priors=priors,
        options=options,
        sampler=config,
        point=point,
        draws=draws,
        diagnosis=diagnosis,
        attempts=attempt,
        seconds={"compile": compiled - began, "sample": done - compiled},
    )


def start_reference(design: Design, priors: HorizonPriors = DEFAULT_PRIORS) -> Reference:
    """Shape the first coordinates by the file's own task lengths and a ridge regression."""
    x = design.log2_minutes
    # The ridge is worth a handful of runs: it decides for agents that always or never succeed.
    half = 0.5 * (design.attempts > 0) / np.maximum((design.attempts > 0).sum(axis=1), 1)[:, None]
    fits = logistic_ridge(
        x, design.successes + half, design.attempts - design.successes + half, ridge=1.0
    )
    beta = np.minimum(fits.slope, -0.05)
    average = (design.attempts @ x) / design.attempts.sum(axis=1)
    alpha = fits.intercept + (fits.slope - beta) * average
    return reference_at(
        design, priors, mu_task=x, alpha=alpha, beta=beta, log_scales=np.log([2.0, 1.5, 1.2, 1.5])
    )


def _reference_from(design: Design, priors: HorizonPriors, pilot: Point) -> Reference:
    """Shape the coordinates by where the pilot run was."""
    scales = (pilot.sigma_global, pilot.sigma_family, pilot.sigma_human, pilot.sigma_estimate)
    return reference_at(
        design,
        priors,
        mu_task=np.median(pilot.mu_task, axis=(0, 1)),
        alpha=np.median(pilot.alpha, axis=(0, 1)),
        beta=np.median(pilot.beta, axis=(0, 1)),
        log_scales=np.array([np.median(np.log(scale)) for scale in scales]),
    )


def unpack_draws(design: Design, density: LogDensity, draws: Draws) -> Point:
    """Map the sampler's positions to the model's own parameters."""
    return unpack(to_centred(density, draws.position), layout_of(design))
