"""One analysis from files to outputs: read, fit by the method asked for, summarise."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge.engine.config import SamplerConfig
from tidegauge.errors import InputError
from tidegauge.horizon.data.agents import read_release_dates, undated_note
from tidegauge.horizon.data.counts import read_tally
from tidegauge.horizon.data.design import Design, build_design
from tidegauge.horizon.data.filters import RowFilter
from tidegauge.horizon.horizons.domains import domains_table, refitted_table, source_designs
from tidegauge.horizon.horizons.estimate import Estimate
from tidegauge.horizon.horizons.predictive import PredictiveChecks, predict
from tidegauge.horizon.horizons.tables import horizons_table, pairs_table, rates_table
from tidegauge.horizon.methods.base import Method
from tidegauge.horizon.methods.exact import Exact
from tidegauge.horizon.methods.hierarchical import Hierarchical
from tidegauge.horizon.methods.registry import NAMES, variant_name
from tidegauge.horizon.methods.regression import DEFAULT_REGRESSION, Regression, RegressionOptions
from tidegauge.horizon.model.option_file import MODELS, model_name
from tidegauge.horizon.model.options import (
    CORE,
    DEFAULT_PRIORS,
    DEFAULT_SAMPLER,
    HorizonOptions,
    HorizonPriors,
)
from tidegauge.horizon.model.parameters import priors_in_effect
from tidegauge.horizon.store.fit_folder import Outputs, fit_diagnostics
from tidegauge.horizon.trend.draws import trend_of_fit
from tidegauge.horizon.trend.frontier import NO_FACTS, AgentFacts, place_agents
from tidegauge.horizon.trend.summary import trend_files
from tidegauge.progress import SILENT, Progress

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.horizon.sampler.fit import HorizonFit

_NOTHING_SAMPLED: dict[str, Any] = {"converged": True, "seconds": {}, "checks": []}


@dataclass(frozen=True, kw_only=True)
class AnalysisOptions:
    """What to fit, and how.

    Attributes
    ----------
    method : str
        One of `NAMES`; `model`, `priors`, `sampler` and `patient` are those of ``core`` and
        ``full``, `regression` that of ``regression``.
    facts : AgentFacts
        What is known of the agents beside their runs and release dates.
    filters : tuple of RowFilter
        Rows to leave out while reading.
    rates : tuple of float
        Success rates beside 50 % and 80 %, for ``rates.csv``.
    by_source : bool
        Refit each task source alone, for ``domains.csv``.
    """

    method: str = "core"
    model: HorizonOptions = CORE
    priors: HorizonPriors = DEFAULT_PRIORS
    sampler: SamplerConfig = DEFAULT_SAMPLER
    patient: bool = True
    regression: RegressionOptions = DEFAULT_REGRESSION
    release_dates: Path | None = None
    facts: AgentFacts = NO_FACTS
    filters: tuple[RowFilter, ...] = ()
    rates: tuple[float, ...] = ()
    by_source: bool = False

    def __post_init__(self) -> None:
        if self.method not in NAMES:
            raise InputError(f"method={self.method}: must be one of {', '.join(NAMES)}")
        if self.method not in MODELS and model_name(self.model, self.priors) != "core":
            raise InputError(
                f"method={self.method}: has no options of the hierarchical model; leave them out, "
                "or use --method full"
            )
        for rate in self.rates:
            if not 0 < rate < 1:
                raise InputError(f"success={rate}: must be strictly between 0 and 1")
        self.facts.check(self.model, dated=self.release_dates is not None)

    @property
    def seed(self) -> int:
        """The only source of randomness."""
        return self.sampler.seed

    @property
    def chosen(self) -> Method:
        """The method with its options."""
        if self.method == "regression":
            return Regression(options=self.regression)
        if self.method == "exact":
            return Exact()
        return Hierarchical(
            name=variant_name(self.method, self.model),
            options=self.model,
            priors=self.priors,
            sampler=self.sampler,
            patient=self.patient,
        )


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

    estimate: Estimate
    settings: dict[str, Any]
    diagnostics: dict[str, Any]
    predictive: PredictiveChecks | None = None


@dataclass(frozen=True)
class DesignRead:
    """What was read: the design with what is known of its agents, and what was noted."""

    design: Design
    dates: dict[str, datetime.date]
    inputs: Mapping[str, str]
    notes: list[str]


def read_design(
    runs: Sequence[Path | str], options: AnalysisOptions, *, progress: Progress = SILENT
) -> DesignRead:
    """Read run records and release dates, check them against the options, say what is odd."""
    dates = read_release_dates(options.release_dates)
    tally = read_tally(runs, filters=options.filters, progress=progress)
    design = place_agents(build_design(tally), options.model, dates, options.facts)
    notes = [*design.notes, *undated_note(design.agents, dates)]
    for note in notes:
        progress.note(note)
    return DesignRead(design, dates, tally.sha256, notes)


def analyse(
    runs: Sequence[Path | str], options: AnalysisOptions, *, progress: Progress = SILENT
) -> Analysis:
    """Read run records and fit them; everything is checked before anything is sampled."""
    began = time.perf_counter()
    read = read_design(runs, options, progress=progress)
    design = read.design
    loaded = time.perf_counter()
    found = _fit(design, options, progress)
    tables, late = _further_tables(design, found, options, progress)
    seconds = found.diagnostics["seconds"]
    timing = {"load": loaded - began, **seconds, "total": time.perf_counter() - began}
    outputs = Outputs(
        kind=f"horizon/{options.method}",
        horizons=horizons_table(design, found.estimate, release_dates=read.dates),
        diagnostics={**found.diagnostics, "seconds": timing},
        settings={
            "method": options.chosen.name,
            "filters": [str(condition) for condition in options.filters],
            **found.settings,
        },
        inputs=read.inputs,
        fit=found.estimate.fit,
        tables=tables,
        notes=[*read.notes, *late],
    )
    return Analysis(design, outputs, found.estimate.fit, found.predictive)


def _fit(design: Design, options: AnalysisOptions, progress: Progress) -> _Found:
    method = options.chosen
    estimate = method.fit(design, seed=options.seed, progress=progress)
    settings = {"seed": options.seed, **method.settings}
    if (fit := estimate.fit) is None:
        return _Found(estimate, settings, dict(_NOTHING_SAMPLED))
    settings |= {
        "priors": {
            name: getattr(fit.priors, name) for name in priors_in_effect(fit.options, fit.point)
        },
        "sampler_used": fit.sampler,
        "agents": options.facts,
    }
    predictive = predict(design, options.model, fit.point, seed=options.seed)
    diagnostics = fit_diagnostics(fit, predictive.checks())
    return _Found(estimate, settings, diagnostics, predictive)


def _further_tables(
    design: Design, found: _Found, options: AnalysisOptions, progress: Progress
) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """Return pairs, domains, trend and rates by file name, and what is to be said of them."""
    import pandas as pd

    estimate, fit = found.estimate, found.estimate.fit
    tables = {"pairs.csv": pairs_table(design.agents, estimate.log2_horizons(kind="typical"))}
    if fit is not None and options.model.trend != "none":
        tables |= trend_files([trend_of_fit(fit)])
    if options.rates:
        tables["rates.csv"] = rates_table(estimate, options.rates)
    domains = [domains_table(fit)] if fit is not None else []
    notes: list[str] = []
    if options.by_source:
        refitted, notes = _refit_sources(design, options, progress)
        domains += refitted
    if kept := [table for table in domains if table is not None]:
        tables["domains.csv"] = pd.concat(kept, ignore_index=True)
    return tables, notes


def _refit_sources(
    design: Design, options: AnalysisOptions, progress: Progress
) -> tuple[list[pd.DataFrame | None], list[str]]:
    # A source alone is asked for horizons; few of its agents may be left for a trend.
    alone = replace(options, model=replace(options.model, trend="none"), facts=NO_FACTS)
    parts, notes = source_designs(design)
    tables: list[pd.DataFrame | None] = []
    for part in parts:
        progress.note(f"{part.domain.name} alone: {len(part.design.tasks)} tasks")
        found = _fit(part.design, alone, progress)
        tables.append(refitted_table(part, found.estimate))
        if not found.diagnostics["converged"]:
            notes.append(f"{part.domain.name} alone did not converge: do not rely on its rows")
    for note in notes:
        progress.note(note)
    return tables, notes
