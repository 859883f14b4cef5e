"""One analysis from files to outputs: read, fit by the method asked for, summarise."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge.engine.config import SamplerConfig
from tidegauge.errors import InputError
from tidegauge.horizon.design import Design, build_design
from tidegauge.horizon.frequentist import DEFAULT_FREQUENTIST, FrequentistOptions, fit_frequentist
from tidegauge.horizon.grid import fit_grid
from tidegauge.horizon.methods import horizons_of_bootstrap, horizons_of_fit, horizons_of_grid
from tidegauge.horizon.options import CORE, DEFAULT_PRIORS, DEFAULT_SAMPLER, HorizonOptions
from tidegauge.horizon.outputs import (
    Outputs,
    fit_diagnostics,
    read_release_dates,
    undated_note,
)
from tidegauge.horizon.predictive import PredictiveChecks, predict
from tidegauge.horizon.table import Horizons, horizons_table
from tidegauge.horizon.tally import read_tally
from tidegauge.progress import SILENT, Progress

if TYPE_CHECKING:
    from tidegauge.horizon.fit import HorizonFit

METHODS = ("hierarchical", "frequentist", "grid")
_NOTHING_SAMPLED: dict[str, Any] = {"converged": True, "seconds": {}, "checks": []}


@dataclass(frozen=True, kw_only=True)
class AnalysisOptions:
    """What to fit, and how."""

    method: str = "hierarchical"
    model: HorizonOptions = CORE
    sampler: SamplerConfig = DEFAULT_SAMPLER
    patient: bool = True
    frequentist: FrequentistOptions = DEFAULT_FREQUENTIST
    release_dates: Path | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InputError(f"method={self.method}: must be one of {', '.join(METHODS)}")


@dataclass(frozen=True)
class Analysis:
    """The answer and, for the posterior, what the charts are drawn from."""

    design: Design
    outputs: Outputs
    fit: HorizonFit | None = None
    predictive: PredictiveChecks | None = None


@dataclass(frozen=True)
class _Found:
    """What one method found."""

    horizons: Horizons
    settings: dict[str, Any]
    diagnostics: dict[str, Any]
    fit: HorizonFit | None = None
    predictive: PredictiveChecks | None = None


def analyse(
    runs: Sequence[Path | str], options: AnalysisOptions, *, progress: Progress = SILENT
) -> Analysis:
    """Read run records and fit them; everything is checked before anything is sampled."""
    began = time.perf_counter()
    dates = read_release_dates(options.release_dates)
    tally = read_tally(runs, progress=progress)
    design = build_design(tally)
    notes = [*design.notes, *undated_note(design, dates)]
    for note in notes:
        progress.note(note)
    loaded = time.perf_counter()
    method = {"hierarchical": _hierarchical, "frequentist": _frequentist, "grid": _grid}
    found = method[options.method](design, options, progress)
    seconds = found.diagnostics["seconds"]
    timing = {"load": loaded - began, **seconds, "total": time.perf_counter() - began}
    outputs = Outputs(
        kind=f"horizon/{options.method}",
        horizons=horizons_table(design, found.horizons, release_dates=dates),
        diagnostics={**found.diagnostics, "seconds": timing},
        settings={"method": options.method, **found.settings},
        inputs=tally.sha256,
        fit=found.fit,
        notes=notes,
    )
    return Analysis(design, outputs, found.fit, found.predictive)


def _hierarchical(design: Design, options: AnalysisOptions, progress: Progress) -> _Found:
    from tidegauge.horizon.fit import fit_horizon  # the sampler is slow to import: faults first

    fit = fit_horizon(
        design,
        options=options.model,
        sampler=options.sampler,
        patient=options.patient,
        progress=progress,
    )
    predictive = predict(design, options.model, fit.point, seed=options.sampler.seed)
    settings = {
        "model": "core",
        "options": fit.options,
        "priors": fit.priors,
        "sampler": options.sampler,
        "sampler_used": fit.sampler,
    }
    return _Found(
        horizons_of_fit(fit), settings, fit_diagnostics(fit, predictive.checks()), fit, predictive
    )


def _frequentist(design: Design, options: AnalysisOptions, progress: Progress) -> _Found:
    fit = fit_frequentist(design, options=options.frequentist, progress=progress)
    settings = {"frequentist": options.frequentist}
    return _Found(horizons_of_bootstrap(design, fit), settings, dict(_NOTHING_SAMPLED))


def _grid(design: Design, options: AnalysisOptions, progress: Progress) -> _Found:
    with progress.step("summing each agent's posterior"):
        horizons = horizons_of_grid(design, fit_grid(design))
    priors = {name: getattr(DEFAULT_PRIORS, name) for name in ("alpha", "beta")}
    return _Found(horizons, {"priors": priors}, dict(_NOTHING_SAMPLED))
