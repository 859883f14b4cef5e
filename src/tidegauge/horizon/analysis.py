"""The analyses: fits, comparisons and simulations of runs, each one function.

Everything is checked before anything is sampled.
"""

from __future__ import annotations

import datetime
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tidegauge.errors import ConvergenceWarning, InputError, ModelCheckWarning
from tidegauge.horizon.data.agents import with_agent_facts
from tidegauge.horizon.data.runs import Runs
from tidegauge.horizon.horizons.domains import refitted_table, source_designs
from tidegauge.horizon.methods import exact, regression
from tidegauge.horizon.methods.registry import NAMES
from tidegauge.horizon.model.option_file import ModelChoice, resolve
from tidegauge.horizon.model.options import DEFAULT_PRIORS, DEFAULT_SAMPLER
from tidegauge.horizon.model.trend_shapes import SHAPES
from tidegauge.horizon.result import CurveFit, HorizonFit, HorizonResult
from tidegauge.horizon.studies.compare import DEFAULT_FOLDS, CompareOptions, Comparison
from tidegauge.horizon.studies.compare import compare as compare_methods
from tidegauge.horizon.studies.held_out import KINDS
from tidegauge.horizon.studies.multiverse_study import Study, StudyOptions, study
from tidegauge.horizon.trend.comparison import SURFACE_RATES, TrendComparison, TrendOptions
from tidegauge.horizon.trend.comparison import compare_trends as compare_shapes
from tidegauge.horizon.trend.frontier import AgentFacts, place_agents
from tidegauge.progress import SILENT, Progress
from tidegauge.simulate.records import describe_truth, draw_records
from tidegauge.simulate.runs import scaled_shape, simulate_runs

if TYPE_CHECKING:
    import pandas as pd


def fit(
    runs: Runs,
    model: ModelChoice | str = "core",
    *,
    draws: int | None = None,
    tune: int | None = None,
    chains: int | None = None,
    seed: int = 1,
    since: datetime.date | None = None,
    frontier: bool = False,
    progress: Progress = SILENT,
) -> HorizonFit:
    """Sample the posterior of the hierarchical model.

    Task lengths, human times and all agents' success curves are inferred together, so that the
    measurement error of human times is part of every interval.

    Parameters
    ----------
    runs : Runs
        From `read_runs` or `Runs.from_frame`.
    model : str or ModelChoice
        ``core``, ``full``, or what `model` returns.
    draws, tune, chains : int, optional
        Kept and tuning draws of each chain (1500 and 500), and chains (4). Where none is given, a
        run that does not converge is repeated with smaller steps and longer chains.
    seed : int
        The only source of randomness.
    since : date, optional
        Agents released before are not in the trend.
    frontier : bool
        Only agents whose horizon exceeded all earlier ones are in the trend.

    Returns
    -------
    HorizonFit

    Warns
    -----
    ConvergenceWarning
        The sampler did not converge.
    ModelCheckWarning
        A predictive check failed, or another mode holds mass that matters.

    Raises
    ------
    InputError
        The model has a trend and too few agents have a release date.

    Examples
    --------
    >>> import tidegauge.horizon as th
    >>> runs, truth = th.simulate(agents=3, tasks=20, seed=1)
    >>> found = th.fit(runs, "core", draws=1000, chains=4, seed=1)
    >>> list(found.horizons()["agent"])
    ['agent-01', 'agent-02', 'agent-03']
    """
    began = time.perf_counter()
    choice = resolve(model=model) if isinstance(model, str) else model
    sizes = _sizes(draws=draws, tune=tune, chains=chains)
    facts = AgentFacts(since=since, frontier=frontier)
    placed = place_agents(runs, choice.options, facts)
    sampler = replace(DEFAULT_SAMPLER, seed=seed, **sizes)

    from tidegauge.horizon.sampler.fit import fit_horizon  # slow to import: faults first

    found = fit_horizon(
        placed.design,
        priors=choice.priors,
        options=choice.options,
        sampler=sampler,
        patient=not sizes,  # who names the sizes gets exactly those
        progress=progress,
    )
    seconds = {"load": runs.read_seconds, **found.seconds}
    seconds["total"] = runs.read_seconds + time.perf_counter() - began
    chosen = {"since": since, "frontier": frontier} if since or frontier else {}
    done = replace(found, runs=placed, seconds=seconds, trend_agents=chosen)
    _warn(done)
    return done


def _sizes(**given: int | None) -> dict[str, int]:
    return {name: size for name, size in given.items() if size is not None}


def _warn(found: HorizonFit) -> None:
    if not found.converged:
        failed = "; ".join(f"{check.name}: {check.detail}" for check in found.diagnosis.failed)
        warnings.warn(f"not converged: {failed}", ConvergenceWarning, stacklevel=3)
    for check in found.findings:
        if check.passed is False and check not in found.diagnosis.checks:
            warnings.warn(f"{check.name}: {check.detail}", ModelCheckWarning, stacklevel=3)


def fit_regression(
    runs: Runs,
    *,
    lengths: str = regression.DEFAULT_REGRESSION.lengths,
    weighting: str = "invsqrt",
    regularisation: float = regression.DEFAULT_REGULARISATION,
    replicates: int = 1000,
    seed: int = 1,
    progress: Progress = SILENT,
) -> CurveFit:
    """Fit METR's regression: a logistic curve of each agent on the file's human minutes.

    Parameters
    ----------
    lengths : str
        Task lengths as the file has them, or corrected for noise in the human times (``simex``).
    weighting : str
        Weights of tasks: ``invsqrt`` (METR's, by the size of the family), ``equal`` or ``none``.
    regularisation : float
        Ridge on the slope.
    replicates : int
        Of the bootstrap over families, tasks and runs.

    Returns
    -------
    CurveFit

    Examples
    --------
    >>> import tidegauge.horizon as th
    >>> runs, truth = th.simulate(agents=3, tasks=20, seed=1)
    >>> th.fit_regression(runs, replicates=50).horizons().shape
    (3, 7)
    """
    options = regression.RegressionOptions(
        lengths=lengths,
        weighting=weighting,
        regularisation=regularisation,
        replicates=replicates,
    )
    return _curve_fit(
        runs,
        lambda: regression.Regression(options=options).fit(
            runs.design, seed=seed, progress=progress
        ),
        {"seed": seed, "regression": options},
    )


def fit_exact(runs: Runs, *, progress: Progress = SILENT) -> CurveFit:
    """Sum each agent's exact posterior on a grid, taking the file's human minutes as exact.

    Returns
    -------
    CurveFit

    Examples
    --------
    >>> import tidegauge.horizon as th
    >>> runs, truth = th.simulate(agents=3, tasks=20, seed=1)
    >>> th.fit_exact(runs).converged
    True
    """
    priors = {name: getattr(DEFAULT_PRIORS, name) for name in ("alpha", "beta")}
    with progress.step("summing each agent's posterior"):
        return _curve_fit(runs, lambda: exact.fit_exact(runs.design), {"priors": priors})


def _curve_fit(runs: Runs, make: Callable[[], Any], options: Mapping[str, Any]) -> CurveFit:
    began = time.perf_counter()
    found = make()
    seconds = {"load": runs.read_seconds, "total": runs.read_seconds + time.perf_counter() - began}
    return CurveFit(runs=runs, found=found, options=options, seconds=seconds)


@dataclass(frozen=True)
class Refitted:
    """Task sources fitted alone: rows of ``domains.csv``, and what is to be noted."""

    tables: Sequence[pd.DataFrame]
    notes: Sequence[str]


def refit_sources(
    runs: Runs, refit: Callable[[Runs], HorizonResult], *, progress: Progress = SILENT
) -> Refitted:
    """Fit each task source alone by the same method.

    Parameters
    ----------
    refit : callable
        From runs to a result. It should have no trend: few agents of a source may have a date.
    """
    parts, notes = source_designs(runs.design)
    tables = []
    for part in parts:
        progress.note(f"{part.domain.name} alone: {len(part.design.tasks)} tasks")
        design = with_agent_facts(part.design, dates=runs.release_dates, groups=runs.groups)
        found = refit(replace(runs, design=design))
        tables.append(refitted_table(part, found.estimate))
        if not found.converged:
            notes.append(f"{part.domain.name} alone did not converge: do not rely on its rows")
    for note in notes:
        progress.note(note)
    return Refitted(tables, notes)


def compare(
    runs: Runs,
    methods: Sequence[str] = NAMES,
    *,
    by: Sequence[str] | str = KINDS,
    folds: int | None = DEFAULT_FOLDS,
    seed: int = 1,
    workers: int | None = None,
    progress: Progress = SILENT,
) -> Comparison:
    """Compare methods on the same runs: their horizons, and their prediction of runs held out.

    Parameters
    ----------
    methods : sequence of str
        Names of methods, or variants such as ``full:noise=student_t``.
    by : str or sequence of str
        What is held out together: ``task``, ``family``, ``agent``.
    folds : int or None
        How many of each kind; None holds out one task or family at a time.
    workers : int or None
        Processes for the folds; None for one a core.

    Returns
    -------
    Comparison
        ``horizons``, ``loo`` and ``held_out``.

    Examples
    --------
    >>> import tidegauge.horizon as th
    >>> runs, truth = th.simulate(agents=3, tasks=20, seed=1)
    >>> sorted(th.compare(runs, ["exact"], by="family", folds=2, workers=1).horizons["agent"])
    ['agent-01', 'agent-02', 'agent-03']
    """
    kinds = (by,) if isinstance(by, str) else tuple(by)
    options = CompareOptions(methods=methods, by=kinds, folds=folds, seed=seed, workers=workers)
    return compare_methods(runs, options, progress=progress)


def compare_trends(
    runs: Runs,
    model: ModelChoice | str = "core",
    *,
    shapes: Sequence[str] | str = "all",
    success: Sequence[float] = (),
    draws: int | None = None,
    tune: int | None = None,
    chains: int | None = None,
    seed: int = 1,
    since: datetime.date | None = None,
    frontier: bool = False,
    progress: Progress = SILENT,
) -> TrendComparison:
    """Fit shapes of the trend over release date jointly with all the rest; score and mix them.

    Parameters
    ----------
    model : str or ModelChoice
        The model around the trend.
    shapes : sequence of str or ``all``
        Of ``linear``, ``quadratic``, ``kink`` and ``logistic``.
    success : sequence of float
        Success rates whose trend is wanted beside those at 50, 80, 90, 95 and 99 %.
    draws, tune, chains, seed, since, frontier
        As in `fit`.

    Returns
    -------
    TrendComparison

    Examples
    --------
    >>> import tidegauge.horizon as th
    >>> runs, truth = th.simulate(agents=6, tasks=20, seed=1)
    >>> found = th.compare_trends(runs, shapes=["linear"], draws=100, tune=100, chains=2)
    >>> list(found.trends)
    ['linear']
    """
    choice = resolve(model=model) if isinstance(model, str) else model
    sizes = _sizes(draws=draws, tune=tune, chains=chains)
    options = TrendOptions(
        model=choice.options,
        priors=choice.priors,
        sampler=replace(DEFAULT_SAMPLER, seed=seed, **sizes),
        patient=not sizes,
        facts=AgentFacts(since=since, frontier=frontier),
        shapes=SHAPES if shapes == "all" else tuple(shapes),
        rates=tuple(sorted({*SURFACE_RATES, *success})),
    )
    return compare_shapes(runs, options, progress=progress)


def multiverse(
    runs: Runs,
    grid: Path | str | None = None,
    *,
    universes: int | None = None,
    sensitivity: bool = False,
    influence: bool = False,
    model: ModelChoice | str = "core",
    seed: int = 1,
    workers: int | None = None,
    progress: Progress = SILENT,
) -> Study:
    """Refit the same runs under every set of choices.

    Parameters
    ----------
    grid : path, optional
        YAML file of universes; 64 of our own without it.
    universes : int, optional
        Fit so many of them, drawn at random.
    sensitivity, influence : bool
        Also change every prior, and leave out every family, in turn.
    model : str or ModelChoice
        The model of these two.

    Returns
    -------
    Study

    Examples
    --------
    >>> import tidegauge.horizon as th
    >>> runs, truth = th.simulate(agents=3, tasks=20, seed=1)
    >>> study = th.multiverse(runs, universes=1, workers=1)
    >>> len(study.multiverse.outcomes)
    1
    """
    choice = resolve(model=model) if isinstance(model, str) else model
    options = StudyOptions(
        grid=None if grid is None else Path(grid),
        universes=universes,
        sensitivity=sensitivity,
        influence=influence,
        model=choice.options,
        seed=seed,
        workers=workers,
    )
    return study(runs, options, progress=progress)


@dataclass(frozen=True)
class Truth:
    """What simulated runs were drawn from.

    Attributes
    ----------
    horizons : DataFrame
        agent, p50 and p80 in minutes (typical), release_date.
    parameters : dict
        Scales and means of the model.
    task_log2 : dict
        Task to its true length in log2 minutes.
    """

    horizons: pd.DataFrame
    parameters: Mapping[str, float]
    task_log2: Mapping[str, float]


def simulate(
    *, agents: int = 33, tasks: int = 170, rows: int | None = None, model: str = "core", seed: int
) -> tuple[Runs, Truth]:
    """Draw runs with a known truth, shaped like METR's.

    Parameters
    ----------
    agents, tasks, rows : int
        How many; rows are run records in all, in METR's proportion where not given.
    model : str
        What is true: ``core``, or ``full`` with difficulty beyond length and more.

    Returns
    -------
    (Runs, Truth)

    Examples
    --------
    >>> import tidegauge.horizon as th
    >>> runs, truth = th.simulate(agents=8, tasks=60, seed=1)
    >>> len(truth.horizons)
    8
    """
    import pandas as pd

    if model not in ("core", "full"):
        raise InputError(f"model={model}: must be one of core, full")
    shape = scaled_shape(agents=agents, tasks=tasks, rows=rows)
    simulated = simulate_runs(shape, seed=seed, full=model == "full")
    described = describe_truth(simulated)
    known = described["agents"]
    dates = {agent: row["release_date"] for agent, row in known.items()}
    rows_of = [{"agent": agent, **row} for agent, row in known.items()]
    columns = ["agent", "p50", "p80", "release_date"]
    truth = Truth(pd.DataFrame(rows_of)[columns], described["parameters"], described["tasks"])
    records = (msgspec.to_builtins(record) for record in draw_records(simulated))
    return Runs.from_frame(list(records), release_dates=dates), truth
