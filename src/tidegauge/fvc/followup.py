"""Forecasts of patients who have been measured more than once, and what each visit is worth.

The hierarchical model is conditioned on every visit. Its draws are used as they are: the
recalibration of `tidegauge.fvc.recalibration` was learnt on forecasts from the first visit.
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
from tidegauge.fvc.forecasters.hierarchical import Hierarchical, HierarchicalFit
from tidegauge.fvc.forecasters.stack import POSSIBLE_FVC_ML, Blend
from tidegauge.fvc.selection import LEAST_PATIENTS, assign_folds
from tidegauge.progress import SILENT, Progress
from tidegauge.schema.osic import SCORED_VISITS
from tidegauge.scores import laplace_log_likelihood

COVERAGES = (0.5, 0.8, 0.95)


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
        fits = [member.fitted for member in self.outlook.members]
        fitted = next((one for one in fits if isinstance(one, HierarchicalFit)), None)
        followed = np.flatnonzero(np.isin(questions.patient, self.seen.patient))
        if fitted is not None and len(followed):
            asked = Questions(questions.patient[followed], questions.gap_weeks[followed])
            draws[followed] = np.clip(
                fitted.forecast(baselines, asked, self.seen), *POSSIBLE_FVC_ML
            )
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
    before the last three. Folds hold out whole patients, and the model is fitted on the others.

    Returns
    -------
    DataFrame
        One row a number of visits: visits, score, score_se (over patients), gain over one visit
        and gain_se (paired), coverage of central intervals, mean_error_ml.

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
    fitted = Hierarchical().fit(cohort.take(np.flatnonzero(fold != task.fold)), seed=seed)
    rows = cohort.scored()
    rows = rows[fold[cohort.patient[rows]] == task.fold]
    true_ml = cohort.fvc_ml[rows]
    frames = []
    for visits in range(1, task.most + 1):
        seen = cohort.later_visits(visits - 1)
        draws = fitted.forecast(cohort.baselines, cohort.questions(rows), seen)
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
    depth = (frame["pit"] - 0.5).abs()
    table = pd.DataFrame(
        {
            "score": per_patient.mean(),
            "score_se": per_patient.std(ddof=1) / root,
            "gain": gain.mean(),
            "gain_se": gain.std(ddof=1) / root,
            **{
                f"coverage_{share:.0%}": (depth < share / 2).groupby(frame["visits"]).mean()
                for share in COVERAGES
            },
            "mean_error_ml": frame.groupby("visits")["error_ml"].mean(),
        }
    )
    table.insert(0, "patients", len(per_patient))
    return table.reset_index()
