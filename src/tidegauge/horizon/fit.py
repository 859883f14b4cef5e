"""Fit the model: a pilot run shapes the coordinates, the main run samples in them."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tidegauge.engine.config import SamplerConfig
from tidegauge.engine.diagnostics import Diagnosis, diagnose
from tidegauge.engine.sampling import Draws, LogDensity, sample_density
from tidegauge.horizon.design import Design
from tidegauge.horizon.layout import Point, layout_of, unpack
from tidegauge.horizon.options import (
    CORE,
    DEFAULT_PRIORS,
    DEFAULT_SAMPLER,
    HorizonOptions,
    HorizonPriors,
)
from tidegauge.horizon.reference import Reference, reference_at
from tidegauge.horizon.screen import Problem, Screen, screen_modes
from tidegauge.horizon.start import start_point
from tidegauge.horizon.trace import posterior_of
from tidegauge.horizon.whitening import to_centred, whitened_density
from tidegauge.progress import SILENT, Progress

FloatArray = NDArray[np.float64]

_PILOT_DRAWS, _PILOT_TUNE = 100, 200
# What is tried in turn when a run does not converge: smaller steps, longer chains.
_PATIENCE = ((0.95, 1), (0.98, 2), (0.995, 4))


@dataclass(frozen=True)
class HorizonFit:
    """A fitted model.

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
    screen : Screen or None
        What was seen of other modes, where it was looked for.
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
    screen: Screen | None = None


def fit_horizon(
    design: Design,
    *,
    priors: HorizonPriors = DEFAULT_PRIORS,
    options: HorizonOptions = CORE,
    sampler: SamplerConfig = DEFAULT_SAMPLER,
    patient: bool = True,
    screened: bool = True,
    progress: Progress = SILENT,
) -> HorizonFit:
    """Sample the posterior of the model that the options make.

    Parameters
    ----------
    patient : bool
        Repeat a run that did not converge with smaller steps and longer chains, up to twice.
    screened : bool
        Look for other modes where a model may have them: one with a residual or discriminations.
    """
    began = time.perf_counter()
    with progress.step("loading the compiled density (the first run compiles it: about 20 s)"):
        start = start_reference(design, priors, options)
        density = whitened_density(design, priors, options, start)
    compiled = time.perf_counter()
    pilot = replace(sampler, draws=_PILOT_DRAWS, tune=_PILOT_TUNE, target_accept=0.8)
    draws = sample_density(density, pilot, label="pilot", progress=progress)
    middle = np.median(to_centred(density, draws.position), axis=(0, 1))
    reference = reference_at(design, priors, options, middle)
    density = whitened_density(design, priors, options, reference)
    screen = None
    if screened and (options.has_residual or options.discrimination):
        problem = Problem(design, priors, options)
        screen = screen_modes(problem, density, reference, seed=sampler.seed, progress=progress)
    for attempt, (target, longer) in enumerate(_PATIENCE, start=1):
        config = replace(
            sampler,
            target_accept=max(target, sampler.target_accept),
            tune=sampler.tune * longer,
            draws=sampler.draws * longer,
        )
        draws = sample_density(density, config, label="sampling", progress=progress)
        point = unpack_draws(design, options, density, draws)
        diagnosis = diagnose(posterior_of(design, options, point, draws))
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
        screen=screen,
        seconds={"compile": compiled - began, "sample": done - compiled},
    )


def start_reference(
    design: Design, priors: HorizonPriors = DEFAULT_PRIORS, options: HorizonOptions = CORE
) -> Reference:
    """Shape the first coordinates by the file's own task lengths and a ridge regression."""
    return reference_at(design, priors, options, start_point(design, priors, options))


def unpack_draws(
    design: Design, options: HorizonOptions, density: LogDensity, draws: Draws
) -> Point:
    """Map the sampler's positions to the model's own parameters."""
    return unpack(to_centred(density, draws.position), layout_of(design, options))
