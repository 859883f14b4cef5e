"""Methods side by side on the same data: horizons, leave-one-out, exact held-out prediction."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.engine.diagnostics import HIGH_K
from tidegauge.errors import InputError
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.data.runs import Runs
from tidegauge.horizon.horizons.estimate import Estimate
from tidegauge.horizon.horizons.tables import horizons_table
from tidegauge.horizon.methods.base import Method
from tidegauge.horizon.methods.registry import BASELINE, NAMES, current_name, find_method
from tidegauge.horizon.studies.held_out import KINDS, Fold, HeldOut, hold_out, make_folds
from tidegauge.progress import SILENT, Progress

if TYPE_CHECKING:
    import arviz as az
    import pandas as pd

    from tidegauge.horizon.result import HorizonFit

DEFAULT_FOLDS = 5
_HIGH_R_HAT = 1.1  # of a fold's short chains; a mean probability is then still good to a few %
_HORIZON_COLUMNS = (
    *("agent", "method", "coefficient", "intercept", "p50", "p50q0.025", "p50q0.975"),
    *("p80", "p80q0.025", "p80q0.975", "p50_beyond", "n_runs"),
)


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """What to compare, and how.

    Attributes
    ----------
    methods : sequence of str
        Names of the registry, variants such as ``full:noise=student_t`` included; the baseline
        always takes part in the held-out scores.
    by : sequence of str
        Kinds of folds: ``task``, ``family``, ``agent``.
    folds : int or None
        How many of each kind; None holds out one task or family at a time.
    workers : int or None
        Processes for the folds; None for one a core.
    """

    methods: Sequence[str] = NAMES
    by: Sequence[str] = KINDS
    folds: int | None = DEFAULT_FOLDS
    seed: int = 1
    workers: int | None = None

    def __post_init__(self) -> None:
        for name, given, known in (("method", self.methods, NAMES), ("by", self.by, KINDS)):
            if not given:
                raise InputError(f"{name}: none given; choose from {', '.join(known)}")
        for kind in self.by:
            if kind not in KINDS:
                raise InputError(f"by={kind}: must be one of {', '.join(KINDS)}")
        self.chosen  # noqa: B018 an unknown method is refused before anything is read
        if self.folds is not None and self.folds < 2:
            raise InputError(f"folds={self.folds}: must be at least 2, or all")

    @property
    def chosen(self) -> list[Method]:
        """The methods asked for, each once, in the order given."""
        return [find_method(name) for name in dict.fromkeys(map(current_name, self.methods))]


DEFAULT_COMPARE = CompareOptions()


@dataclass(frozen=True)
class Comparison:
    """All that was found.

    Attributes
    ----------
    horizons : DataFrame
        ``compare.csv``: one row per agent and method.
    loo : DataFrame
        One row per sampled method: method, scores, cells, elpd, se, p_loo, high_k, k_max.
    held_out : HeldOut
        Every held-out prediction and how each fold's fits went.
    unconverged : list of str
        Sampled methods whose whole fit did not converge.
    """

    options: CompareOptions
    horizons: pd.DataFrame
    loo: pd.DataFrame
    held_out: HeldOut
    unconverged: list[str]
    runs: Runs
    notes: list[str]


def compare(
    runs: Runs, options: CompareOptions = DEFAULT_COMPARE, *, progress: Progress = SILENT
) -> Comparison:
    """Compare methods on the same runs; folds are laid out before anything is fitted.

    Raises
    ------
    InputError
        No kind of folds that was asked for can be made from these records.
    """
    design = runs.design
    trends = {getattr(method.settings.get("options"), "trend", "none") for method in options.chosen}
    if not runs.release_dates and trends != {"none"}:
        raise InputError("a method has a trend, but there are no release dates; give them too")
    folds, fold_notes = lay_out_folds(design, options)
    notes = [*runs.notes, *fold_notes]
    for note in fold_notes:
        progress.note(note)
    fitted = _fit_all_runs(design, options, progress)
    sampled = {name: found.fit for name, found in fitted.items() if found.fit is not None}
    held_out = hold_out(
        design,
        [find_method(BASELINE), *options.chosen],
        folds,
        seed=options.seed,
        workers=options.workers,
        progress=progress,
    )
    for note in (late := _fit_notes(held_out.fits)):
        progress.note(note)
    return Comparison(
        options=options,
        horizons=side_by_side(design, fitted),
        loo=loo_table(sampled),
        held_out=held_out,
        unconverged=[name for name, fit in sampled.items() if not fit.diagnosis.converged],
        runs=runs,
        notes=[*notes, *late],
    )


def _fit_all_runs(
    design: Design, options: CompareOptions, progress: Progress
) -> dict[str, Estimate]:
    fitted = {}
    for method in options.chosen:
        progress.note(f"{method.name}: all runs")
        fitted[method.name] = method.fit(design, seed=options.seed, progress=progress)
    return fitted


def lay_out_folds(design: Design, options: CompareOptions) -> tuple[list[Fold], list[str]]:
    """Return the folds of every kind that can be made, and what had to be left out.

    Raises
    ------
    InputError
        None can be made.
    """
    folds: list[Fold] = []
    notes, refusals = [], []
    for by in dict.fromkeys(options.by):
        try:
            made = make_folds(design, by=by, folds=options.folds, seed=options.seed)
        except InputError as error:
            refusals.append(f"by {by}: {error}")
            continue
        if not made:
            refusals.append(f"by {by}: no agent would keep a run outside its fold; add runs")
            continue
        folds += made
        tried = int((design.attempts > 0).sum())
        if missing := tried - sum(int(fold.held.sum()) for fold in made):
            notes.append(
                f"by {by}: {missing:,} of {tried:,} cells are not predicted, because their agent "
                "has no run outside the fold"
            )
        if options.folds is not None and len(made) < options.folds:
            notes.append(f"by {by}: {len(made)} folds, there are no more to be made")
    if not folds:
        raise InputError("\n".join(refusals))
    return folds, [*refusals, *notes]


def side_by_side(design: Design, fitted: Mapping[str, Estimate]) -> pd.DataFrame:
    """Return ``compare.csv``: horizons in minutes with 95 % intervals, sorted by agent."""
    import pandas as pd

    tables = [horizons_table(design, found).assign(method=name) for name, found in fitted.items()]
    table = pd.concat(tables, ignore_index=True)[list(_HORIZON_COLUMNS)]
    return table.sort_values("agent", kind="stable", ignore_index=True)


def loo_table(sampled: Mapping[str, HorizonFit]) -> pd.DataFrame:
    """Return ``loo.csv``: PSIS-LOO over the (agent, task) cells of each sampled method.

    ``high_k`` counts the cells where leaving out by reweighting cannot be trusted. ``scores`` is
    the outcome a method is fitted to: elpd of binary and of continuous ones do not compare.
    """
    import pandas as pd

    columns = ["method", "scores", "cells", "elpd", "se", "p_loo", "high_k", "k_max"]
    rows = []
    for name, fit in sampled.items():
        found = leave_cells_out(fit)
        k = np.asarray(found.pareto_k)
        estimates = (found.elpd_loo, found.se, found.p_loo, int((k > HIGH_K).sum()), k.max())
        rows.append(dict(zip(columns, (name, fit.options.scores, k.size, *estimates), strict=True)))
    return pd.DataFrame(rows, columns=columns)


def leave_cells_out(fit: HorizonFit) -> az.ELPDData:
    """Leave out each cell by reweighting the draws (PSIS); pointwise, in the order of the cells.

    The other agents' runs of the task stay in, as they nearly do in folds by agent.
    """
    trace = fit.idata  # also silences the announcement that ArviZ makes when it is imported
    import arviz as az

    kept = trace.log_likelihood.sizes["chain"] * trace.log_likelihood.sizes["draw"]
    efficiency = min(1.0, float(fit.diagnosis.parameters["ess_bulk"].mean()) / kept)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of high k, which the table counts
        return az.loo(trace, var_name="successes", pointwise=True, reff=efficiency)


def _fit_notes(fits: pd.DataFrame) -> list[str]:
    """Say which methods had fold fits that are not to be trusted."""
    notes = []
    for method, own in fits.groupby("method", sort=False):
        doubtful = own[(own["r_hat"] > _HIGH_R_HAT) | (own["divergences"] > 0)]
        if len(doubtful):
            notes.append(
                f"{method}: {len(doubtful)} of {len(own)} fits without a fold had divergences or "
                f"R-hat above {_HIGH_R_HAT}; see folds.csv"
            )
    return notes
