"""All candidate forecasters fitted, recalibrated, stacked and compared on one training cohort.

Every choice is made on out-of-fold forecasts of the training patients' last three visits:
recalibration, weights of the stack, and which candidate is used. Nothing else is ever looked at,
so an outer cross-validation around `fit_panel` scores the whole procedure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegauge.arrays import FloatArray, IntArray
from tidegauge.engine.parallel import parallel_map
from tidegauge.fvc.data.cohort import Cohort
from tidegauge.fvc.data.covariates import TABLE_COVARIATES
from tidegauge.fvc.decision import decide
from tidegauge.fvc.forecasters import DRAWS, Fitted, Forecaster
from tidegauge.fvc.forecasters.carry import Carry
from tidegauge.fvc.forecasters.direct import Direct
from tidegauge.fvc.forecasters.hierarchical import Hierarchical, HierarchicalFit
from tidegauge.fvc.forecasters.linear import Linear
from tidegauge.fvc.forecasters.quantile import Quantile
from tidegauge.fvc.forecasters.stack import Blend, Member, fit_stack
from tidegauge.fvc.recalibration import Calibration, fit_calibration
from tidegauge.progress import SILENT, Progress
from tidegauge.scores import laplace_log_likelihood

STACK = "stack"
QUICK = "direct"  # what a first submission is made by, and tiny cohorts
_R_HAT_LIMIT = 1.05
INNER_FOLDS = 5
MOST_VISITS = 4  # forecasts from more are recalibrated like those from so many
LEAST_PATIENTS = 10  # fewer cannot be split into folds that say anything

FORECASTERS: dict[str, Forecaster] = {
    forecaster.name: forecaster
    for forecaster in (
        Carry(),
        Linear(),
        Quantile(),
        Direct(),
        Direct("direct-wide", shift_covariates=TABLE_COVARIATES, shift_ridge=0.1),
        Hierarchical(),
        Direct("direct-scan", scans=True),
        Hierarchical("hierarchical-scan", scans=True),
    )
}
_STACKED = ("quantile", "direct", "hierarchical", "direct-scan", "hierarchical-scan")


@dataclass(frozen=True)
class Panel:
    """What a training cohort led to.

    Attributes
    ----------
    blends : dict
        Ready to forecast, by name; ``stack`` among them.
    inner_scores : dict
        Mean out-of-fold score of each candidate over the visits that score.
    chosen : str
        The candidate with the best of these.
    """

    blends: dict[str, Blend]
    inner_scores: dict[str, float]
    chosen: str

    @property
    def best(self) -> Blend:
        """The chosen candidate."""
        return self.blends[self.chosen]

    @property
    def outlook(self) -> Blend:
        """The one to draw a patient's course with.

        The direct models are fitted where visits score, some 40 weeks on, and say little of the
        weeks before. The hierarchical model describes the whole course from the first visit.
        """
        whole = [name for name in self.blends if name.startswith("hierarchical")]
        if not whole:
            return self.best
        return self.blends[max(whole, key=lambda name: self.inner_scores[name])]


@dataclass(frozen=True)
class FittedModel:
    """A choice made and fitted: what `predict` needs.

    Attributes
    ----------
    blend, outlook : Blend
        For submissions, and for drawing a patient's course.
    chosen : str
        Name of the candidate that was chosen.
    feature_names : tuple of str
        Features of scans or a table it was fitted with; empty for visits alone.
    training : dict
        Seed, number of patients, inner scores: for the reader, not for predicting.
    """

    blend: Blend
    outlook: Blend
    chosen: str
    feature_names: tuple[str, ...]
    training: dict[str, Any]


def candidates(cohort: Cohort) -> tuple[str, ...]:
    """Return the forecasters this cohort allows: those with scans need scan features."""
    scans = bool(np.isfinite(cohort.baselines.features).any())
    return tuple(name for name in FORECASTERS if scans or not name.endswith("-scan"))


def fit_panel(
    cohort: Cohort,
    *,
    seed: int,
    names: tuple[str, ...] | None = None,
    visits: int = 1,
    workers: int | None = 1,
    progress: Progress = SILENT,
) -> Panel:
    """Fit every candidate on a cohort and choose among them by inner cross-validation.

    Parameters
    ----------
    visits : int
        From how many visits, at most, forecasts are recalibrated; the choice looks at one.
    workers : int, optional
        As in `parallel_map`: None for one process a core.
    """
    names = names or candidates(cohort)
    rows = cohort.scored()
    fold = assign_folds(cohort.n_patients, INNER_FOLDS, seed)
    fits, unseen = _fit_all(cohort, names, fold, seed, visits, workers, progress)
    questions, true_ml = cohort.questions(rows), cohort.fvc_ml[rows]
    blends: dict[str, Blend] = {}
    calibrated: dict[str, FloatArray] = {}
    for name in names:
        calibration, *by_visits = _calibrations(cohort, unseen[name])
        calibrated[name] = calibration.apply(unseen[name][0], cohort.baselines, questions)
        member = Member(name, fits[name], calibration, tuple(by_visits))
        blends[name] = Blend((member,), (1.0,))
    stacked = [name for name in names if name in _STACKED]
    if len(stacked) > 1:
        stack = fit_stack([calibrated[n] for n in stacked], true_ml, fold[questions.patient])
        calibrated[STACK] = stack.unseen_draws
        kept = [(blends[n].members[0], w) for n, w in zip(stacked, stack.weights, strict=True) if w]
        blends[STACK] = Blend(tuple(m for m, _ in kept), tuple(w for _, w in kept))
    scores = {name: _mean_score(draws, true_ml) for name, draws in calibrated.items()}
    return Panel(blends, scores, max(scores, key=lambda name: scores[name]))


def _calibrations(cohort: Cohort, unseen: list[FloatArray]) -> list[Calibration]:
    """Fit the recalibration of forecasts from the first visit, the first two, ..."""
    found: list[Calibration] = []
    for visits, draws in enumerate(unseen, start=1):
        rows = cohort.scored(visits)
        if visits > 1 and len(np.unique(cohort.patient[rows])) < LEAST_PATIENTS:
            break
        questions, true_ml = cohort.questions(rows), cohort.fvc_ml[rows]
        found.append(fit_calibration(draws, true_ml, cohort.baselines, questions))
    return found


def fit_one(cohort: Cohort, name: str, *, seed: int) -> Blend:
    """Fit one forecaster without recalibration: quick, and all a tiny cohort allows."""
    fitted = FORECASTERS[name].fit(cohort, seed=seed)
    return Blend((Member(name, fitted, Calibration()),), (1.0,))


def fit_model(
    training: Cohort,
    *,
    seed: int,
    visits: int = MOST_VISITS,
    workers: int | None = None,
    progress: Progress = SILENT,
) -> FittedModel:
    """Choose a forecaster by inner cross-validation and refit it on everyone.

    `visits` is as in `fit_panel`.
    """
    meta: dict[str, Any] = {"seed": seed, "n_patients": training.n_patients, "folds": INNER_FOLDS}
    names = training.baselines.feature_names
    if training.n_patients < LEAST_PATIENTS:
        quick = fit_one(training, QUICK, seed=seed)
        return FittedModel(quick, quick, QUICK, names, meta)
    panel = fit_panel(training, seed=seed, visits=visits, workers=workers, progress=progress)
    meta["inner_scores"] = panel.inner_scores
    scores = ", ".join(f"{name} {score:.3f}" for name, score in panel.inner_scores.items())
    progress.note(f"chose {panel.chosen} by inner cross-validation ({scores})")
    _warn_of_chains(panel, progress)
    return FittedModel(panel.best, panel.outlook, panel.chosen, names, meta)


def _warn_of_chains(panel: Panel, progress: Progress) -> None:
    members = {one.name: one for one in (*panel.best.members, *panel.outlook.members)}
    for name, member in members.items():
        fitted = member.fitted
        if isinstance(fitted, HierarchicalFit) and fitted.r_hat > _R_HAT_LIMIT:
            progress.note(
                f"{name}: chains disagree (R-hat {fitted.r_hat:.2f}); its forecasts are "
                "less certain than they look, so try another --seed and compare"
            )


def assign_folds(n_patients: int, n_folds: int, seed: int) -> IntArray:
    """Return each patient's fold: random, of sizes that differ by one at most."""
    fold: IntArray = np.random.default_rng(seed).permutation(n_patients) % n_folds
    return fold


@dataclass(frozen=True, slots=True)
class _Task:
    """Fit one forecaster, on all patients or without one fold, which it then forecasts."""

    name: str
    cohort: Cohort
    fold: IntArray
    held: int | None
    seed: int
    visits: int


def _fit_all(
    cohort: Cohort,
    names: tuple[str, ...],
    fold: IntArray,
    seed: int,
    visits: int,
    workers: int | None,
    progress: Progress,
) -> tuple[dict[str, Fitted], dict[str, list[FloatArray]]]:
    """Return the fits, and out-of-fold draws of the visits that score, by visits seen."""
    held: list[int | None] = [None, *range(INNER_FOLDS)]
    tasks = [_Task(name, cohort, fold, k, seed, visits) for name in names for k in held]
    results = parallel_map(
        _run, tasks, workers=workers, label="fitting forecasters", progress=progress
    )
    fits: dict[str, Fitted] = {}
    unseen: dict[str, list[FloatArray]] = {}
    for task, (fitted, by_visits) in zip(tasks, results, strict=True):
        if task.held is None:
            fits[task.name] = fitted
            continue
        rows = [cohort.scored(k) for k in range(1, len(by_visits) + 1)]
        of_name = unseen.setdefault(task.name, [np.empty((len(r), DRAWS)) for r in rows])
        for known, asked, draws in zip(of_name, rows, by_visits, strict=True):
            known[fold[cohort.patient[asked]] == task.held] = draws
    return fits, unseen


def _run(task: _Task) -> tuple[Fitted, list[FloatArray]]:
    """Return the fit, and draws of the fold it did not see from one visit and, if it can, more."""
    forecaster, cohort = FORECASTERS[task.name], task.cohort
    if task.held is None:
        return forecaster.fit(cohort, seed=task.seed), []
    fitted = forecaster.fit(cohort.take(np.flatnonzero(task.fold != task.held)), seed=task.seed)
    draws = []
    for visits in range(1, task.visits + 1):
        rows = cohort.scored(visits)
        questions = cohort.questions(rows[task.fold[cohort.patient[rows]] == task.held])
        if isinstance(fitted, HierarchicalFit):
            seen = cohort.later_visits(visits - 1)
            draws.append(fitted.forecast(cohort.baselines, questions, seen))
        elif visits == 1:
            draws.append(fitted.forecast(cohort.baselines, questions))
    return fitted, draws


def _mean_score(draws: FloatArray, true_ml: FloatArray) -> float:
    decision = decide(draws)
    return float(laplace_log_likelihood(true_ml, decision.fvc_ml, decision.confidence_ml).mean())
