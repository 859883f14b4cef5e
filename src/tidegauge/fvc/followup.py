"""Forecasts of patients who have been measured more than once, and what each visit is worth.

The hierarchical model is conditioned on every visit, and recalibrated by how many there are: on
out-of-fold forecasts from as many visits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tidegauge.arrays import FloatArray
from tidegauge.engine.parallel import parallel_map
from tidegauge.errors import InputError
from tidegauge.fvc.data.cohort import Baselines, Cohort, Questions, Visits
from tidegauge.fvc.decision import decide
from tidegauge.fvc.forecasters.hierarchical import HierarchicalFit
from tidegauge.fvc.forecasters.stack import POSSIBLE_FVC_ML, Blend, Member
from tidegauge.fvc.selection import LEAST_PATIENTS, MOST_VISITS, assign_folds, fit_panel
from tidegauge.progress import SILENT, Progress
from tidegauge.schema.osic import SCORED_VISITS
from tidegauge.scores import laplace_log_likelihood

COVERAGES = (0.5, 0.8, 0.95)
_FORECASTER = "hierarchical"


@dataclass(frozen=True)
class FollowUp:
    """A blend for patients seen once, and the hierarchical model for those seen more often.

    Attributes
    ----------
    blend : Blend
        Forecasts patients of whom only the first visit is known.
    outlook : Blend
        Holds the hierarchical model; without one every forecast is from the first visit.
    seen : Visits
        The later visits that are known.
    """

    blend: Blend
    outlook: Blend
    seen: Visits

    def forecast(self, baselines: Baselines, questions: Questions) -> FloatArray:
        """Return predictive draws in ml, shape (questions, DRAWS)."""
        draws = self.blend.forecast(baselines, questions)
        followed = np.flatnonzero(np.isin(questions.patient, self.seen.patient))
        members = [one for one in self.outlook.members if isinstance(one.fitted, HierarchicalFit)]
        if members and len(followed):
            asked = questions.take(followed)
            found = forecast_from_visits(members[0], baselines, asked, self.seen)
            draws[followed] = np.clip(found, *POSSIBLE_FVC_ML)
        return draws


def forecast_from_visits(
    member: Member, baselines: Baselines, questions: Questions, seen: Visits
) -> FloatArray:
    """Return draws of a hierarchical member, recalibrated by how many visits a patient has."""
    assert isinstance(member.fitted, HierarchicalFit)  # for the type checker: no other is asked
    draws = member.fitted.forecast(baselines, questions, seen)
    n_later = np.bincount(seen.patient, minlength=len(baselines))[questions.patient]
    calibrations = (member.calibration, *member.by_visits)
    which = np.minimum(n_later, len(calibrations) - 1)
    for k, calibration in enumerate(calibrations):
        rows = np.flatnonzero(which == k)
        draws[rows] = calibration.apply(draws[rows], baselines, questions.take(rows))
    return draws


def crossval_visits(
    cohort: Cohort,
    *,
    most: int = 3,
    repeats: int = 10,
    folds: int = 5,
    seed: int = 1,
    workers: int | None = None,
    progress: Progress = SILENT,
) -> pd.DataFrame:
    """Cross-validate forecasts of the last three visits from the first one, two, ... visits.

    Every number of visits is scored on the same patients and visits: those with `most` visits
    before the last three. Folds hold out whole patients; the model is fitted and recalibrated on
    the others.

    Returns
    -------
    DataFrame
        One row a number of visits: visits, score, score_se (over patients), gain over one visit
        and gain_se (paired), coverage of central intervals and its standard error over patients,
        mean_error_ml.

    Raises
    ------
    InputError
        Too few patients with enough visits.
    """
    n_later = np.bincount(cohort.patient[~cohort.first], minlength=cohort.n_patients)
    usable = np.flatnonzero(n_later >= most - 1 + SCORED_VISITS)
    if len(usable) < max(LEAST_PATIENTS, 2 * folds):
        raise InputError(
            f"{len(usable)} patients have {most + SCORED_VISITS} visits: at least "
            f"{max(LEAST_PATIENTS, 2 * folds)} are needed; give fewer --visits or more patients"
        )
    tasks = [
        _Task(cohort, most, repeat, fold, folds, seed)
        for repeat in range(repeats)
        for fold in range(folds)
    ]
    frames = parallel_map(
        _score_fold, tasks, workers=workers, label="cross-validating visits", progress=progress
    )
    frame = pd.concat(frames, ignore_index=True)
    return _summary(frame[frame["patient"].isin(usable)])


@dataclass(frozen=True, slots=True)
class _Task:
    cohort: Cohort
    most: int
    repeat: int
    fold: int
    folds: int
    seed: int


def _score_fold(task: _Task) -> pd.DataFrame:
    cohort, seed = task.cohort, task.seed + 1000 * task.repeat
    fold = assign_folds(cohort.n_patients, task.folds, seed)
    training = cohort.take(np.flatnonzero(fold != task.fold))
    panel = fit_panel(training, seed=seed, names=(_FORECASTER,), visits=min(task.most, MOST_VISITS))
    (member,) = panel.blends[_FORECASTER].members
    rows = cohort.scored()
    rows = rows[fold[cohort.patient[rows]] == task.fold]
    true_ml = cohort.fvc_ml[rows]
    frames = []
    for visits in range(1, task.most + 1):
        seen = cohort.later_visits(visits - 1)
        draws = forecast_from_visits(member, cohort.baselines, cohort.questions(rows), seen)
        decision = decide(draws)
        frames.append(
            pd.DataFrame(
                {
                    "visits": visits,
                    "patient": cohort.patient[rows],
                    "score": laplace_log_likelihood(
                        true_ml, decision.fvc_ml, decision.confidence_ml
                    ),
                    "error_ml": np.abs(true_ml - decision.fvc_ml),
                    "pit": (draws < true_ml[:, None]).mean(axis=1),
                }
            )
        )
    return pd.concat(frames)


def _summary(frame: pd.DataFrame) -> pd.DataFrame:
    per_patient = frame.groupby(["patient", "visits"])["score"].mean().unstack("visits")
    gain = per_patient.sub(per_patient[1], axis=0)
    root = np.sqrt(len(per_patient))
    columns = {
        "score": per_patient.mean(),
        "score_se": per_patient.std(ddof=1) / root,
        "gain": gain.mean(),
        "gain_se": gain.std(ddof=1) / root,
    }
    depth = (frame["pit"] - 0.5).abs()
    for share in COVERAGES:
        # Visits of one patient, and repeats of one visit, say the same thing: patients count.
        is_inside = (depth < share / 2).groupby([frame["patient"], frame["visits"]])
        inside = is_inside.mean().unstack("visits")
        columns[f"coverage_{share:.0%}"] = inside.mean()
        columns[f"coverage_{share:.0%}_se"] = inside.std(ddof=1) / root
    table = pd.DataFrame(columns | {"mean_error_ml": frame.groupby("visits")["error_ml"].mean()})
    table.insert(0, "patients", len(per_patient))
    return table.reset_index()
