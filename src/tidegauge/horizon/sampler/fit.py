"""Fit the model: a pilot run shapes the coordinates, the main run samples in them."""

from __future__ import annotations

import time
from dataclasses import replace

from tidegauge.engine.config import SamplerConfig
from tidegauge.engine.diagnostics import diagnose
from tidegauge.engine.sampling import Draws, LogDensity, sample_density
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.data.runs import Runs
from tidegauge.horizon.inference_data import posterior_of
from tidegauge.horizon.model.options import (
    CORE,
    DEFAULT_PRIORS,
    DEFAULT_SAMPLER,
    HorizonOptions,
    HorizonPriors,
    priors_in_force,
)
from tidegauge.horizon.model.parameters import Point, layout_of, unpack
from tidegauge.horizon.result import HorizonFit
from tidegauge.horizon.sampler.target import Problem, middle_of, to_centred
from tidegauge.progress import SILENT, Progress

_PILOT_DRAWS, _PILOT_TUNE = 100, 200
# What is tried in turn when a run does not converge: smaller steps, longer chains.
_PATIENCE = ((0.95, 1), (0.98, 2), (0.995, 4))


def fit_horizon(
    design: Design,
    *,
    priors: HorizonPriors = DEFAULT_PRIORS,
    options: HorizonOptions = CORE,
    sampler: SamplerConfig = DEFAULT_SAMPLER,
    patient: bool = True,
    progress: Progress = SILENT,
) -> HorizonFit:
    """Sample the posterior of the model that the options make.

    Parameters
    ----------
    patient : bool
        Repeat a run that did not converge with smaller steps and longer chains, up to twice.
    """
    began = time.perf_counter()
    priors = priors_in_force(priors, options)
    with progress.step("loading the compiled density (the first run compiles it: about 40 s)"):
        problem = Problem(design, priors, options)
        _, density = problem.expanded_at(problem.start())
    compiled = time.perf_counter()
    pilot = replace(sampler, draws=_PILOT_DRAWS, tune=_PILOT_TUNE, target_accept=0.8)
    draws = sample_density(density, pilot, label="pilot", progress=progress)
    _, density = problem.expanded_at(middle_of(density, draws))
    for attempt, (target, longer) in enumerate(_PATIENCE, start=1):
        config = replace(
            sampler,
            target_accept=max(target, sampler.target_accept),
            tune=sampler.tune * longer,
            draws=sampler.draws * longer,
        )
        draws = sample_density(density, config, label="sampling", progress=progress)
        point = unpack_draws(design, options, density, draws)
        diagnosis = diagnose(posterior_of(design, options, point, draws.statistics))
        if diagnosis.converged or not patient or attempt == len(_PATIENCE):
            break
        failed = "; ".join(f"{check.name}: {check.detail}" for check in diagnosis.failed)
        progress.note(f"not converged yet ({failed}): again, with more patience")
    done = time.perf_counter()
    return HorizonFit(
        runs=Runs(design),
        priors=priors,
        options=options,
        sampler=config,
        asked=sampler,
        point=point,
        statistics=draws.statistics,
        diagnosis=diagnosis,
        attempts=attempt,
        seconds={"compile": compiled - began, "sample": done - compiled},
    )


def unpack_draws(
    design: Design, options: HorizonOptions, density: LogDensity, draws: Draws
) -> Point:
    """Map the sampler's positions to the model's own parameters."""
    return unpack(to_centred(density, draws.position), layout_of(design, options))
