"""Cross-validation: grouped by patient, repeated, nested; the last three visits score.

Each outer fold is forecast from its patients' first visits by a panel fitted on the others. The
panel makes all its choices inside, so the row ``nested`` is what the whole procedure scores on
patients it never saw. The other rows show each forecaster alone; the best of them is a choice made
after the fact and must not be quoted.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tidegauge.arrays import IntArray
from tidegauge.engine.parallel import parallel_map
from tidegauge.errors import InputError
from tidegauge.fvc.data.cohort import Cohort
from tidegauge.fvc.decision import decide
from tidegauge.fvc.forecasters.stack import Blend
from tidegauge.fvc.selection import (
    LEAST_PATIENTS,
    assign_folds,
    candidates,
    fit_panel,
)
from tidegauge.progress import SILENT, Progress
from tidegauge.scores import laplace_log_likelihood
from tidegauge.system import available_cores

NESTED = "nested"
OUTER_FOLDS = 5
COVERAGES = (0.5, 0.8, 0.95)
GAP_EDGES_WEEKS = (0, 26, 39, 52)  # half a year, then quarters


@dataclass(frozen=True)
class Crossval:
    """The outcome of a cross-validation.

    Attributes
    ----------
    forecasts : DataFrame
        One row a forecaster, repeat and visit: forecaster, repeat, fold, patient, gap_weeks,
        true_ml, fvc_ml, confidence_ml, score, pit.
    choices : DataFrame
        What each outer fold chose: repeat, fold, chosen, inner_score.
    outlooks : list of Blend
        What each outer fold draws a patient's course with, in the order of `choices`.
    n_patients, repeats, folds, seed : int
    """

    forecasts: pd.DataFrame
    choices: pd.DataFrame
    outlooks: list[Blend]
    n_patients: int
    repeats: int
    folds: int
    seed: int

    def held_out(self, repeat: int, fold: int) -> IntArray:
        """Return the patients, by number, whom this outer fold did not learn from."""
        assigned = assign_folds(self.n_patients, self.folds, _repeat_seed(self.seed, repeat))
        return np.flatnonzero(assigned == fold)

    def per_patient(self) -> pd.DataFrame:
        """Return mean scores, one row a patient, one column a forecaster."""
        by = self.forecasts.groupby(["patient", "forecaster"], sort=True)["score"].mean()
        return by.unstack("forecaster")[self.names()]

    def names(self) -> list[str]:
        """Return the forecasters, ``nested`` first."""
        names = list(dict.fromkeys(self.forecasts["forecaster"]))
        return [NESTED, *(name for name in names if name != NESTED)]

    def scores(self) -> pd.DataFrame:
        """Return score, standard error over patients, and the paired difference to ``nested``.

        ``within_error`` is true where the difference is less than two of its standard errors.
        """
        table = self.per_patient()
        difference = table.sub(table[NESTED], axis=0)
        root = np.sqrt(len(table))
        result = pd.DataFrame(
            {
                "score": table.mean(),
                "score_se": table.std(ddof=1) / root,
                "difference": difference.mean(),
                "difference_se": difference.std(ddof=1) / root,
                "chosen_share": [
                    float("nan") if name == NESTED else (self.choices["chosen"] == name).mean()
                    for name in table.columns
                ],
            }
        )
        result["within_error"] = result["difference"].abs() < 2 * result["difference_se"]
        result.index.name = "forecaster"
        return result.reset_index()

    def calibration(self) -> pd.DataFrame:
        """Return coverage of central intervals and mean score, overall and by gap."""
        frame = self.forecasts.assign(gap=_gap_bins(self.forecasts["gap_weeks"]))
        overall = frame.assign(gap="all")
        rows = []
        for (name, gap), part in pd.concat([overall, frame]).groupby(
            ["forecaster", "gap"], sort=False
        ):
            depth = (part["pit"] - 0.5).abs()
            cover = {f"coverage_{c:.0%}": (depth < c / 2).mean() for c in COVERAGES}
            rows.append(
                {
                    "forecaster": name,
                    "gap_weeks": gap,
                    "visits": len(part) // self.repeats,
                    **cover,
                    "mean_error_ml": (part["true_ml"] - part["fvc_ml"]).abs().mean(),
                    "score": part["score"].mean(),
                }
            )
        order = {name: i for i, name in enumerate(self.names())}
        gaps = {label: i for i, label in enumerate(["all", *gap_labels()])}
        table = pd.DataFrame(rows)
        place = table["forecaster"].map(order) * 100 + table["gap_weeks"].map(gaps)
        return table.iloc[np.argsort(place.to_numpy(), kind="stable")].reset_index(drop=True)

    def warnings(self) -> list[str]:
        """Return what a reader of the table must not conclude, in words."""
        table = self.scores()
        close = table[table["within_error"] & (table["forecaster"] != NESTED)]
        differences = [
            f"{row.forecaster} ({row.difference:+.3f} ± {row.difference_se:.3f})"
            for row in close.itertuples()
        ]
        lines = (
            [
                "within two standard errors of nested, so no evidence that either is better: "
                + ", ".join(differences)
            ]
            if differences
            else []
        )
        cover = self.calibration()
        for row in cover[cover["forecaster"] == NESTED].to_dict("records"):
            if not 0.72 <= row["coverage_80%"] <= 0.88 and row["visits"] >= 30:
                lines.append(
                    f"80 % intervals at gap {row['gap_weeks']} cover {row['coverage_80%']:.0%}: "
                    "predictive widths are off there"
                )
        return lines


def crossval(
    cohort: Cohort,
    *,
    repeats: int = 10,
    folds: int = OUTER_FOLDS,
    seed: int = 1,
    names: tuple[str, ...] | None = None,
    workers: int | None = None,
    progress: Progress = SILENT,
) -> Crossval:
    """Cross-validate every candidate and the choice among them.

    Raises
    ------
    InputError
        Too few patients with later visits to split.
    """
    n_usable = len(np.unique(cohort.patient[cohort.scored()]))
    if n_usable < max(LEAST_PATIENTS, 2 * folds):
        raise InputError(
            f"{n_usable} patients with later visits: cross-validation needs at least "
            f"{max(LEAST_PATIENTS, 2 * folds)}; give more patients or full histories"
        )
    names = names or candidates(cohort)
    tasks = [
        _Task(cohort, repeat, fold, folds, seed, names)
        for repeat in range(repeats)
        for fold in range(folds)
    ]
    results = parallel_map(
        _run,
        tasks,
        workers=workers or available_cores(),
        label="cross-validating",
        progress=progress,
    )
    choices = pd.DataFrame([choice for _, choice, _ in results])
    forecasts = pd.concat([frame for frame, _, _ in results], ignore_index=True)
    outlooks = [outlook for _, _, outlook in results]
    return Crossval(forecasts, choices, outlooks, cohort.n_patients, repeats, folds, seed)


def _repeat_seed(seed: int, repeat: int) -> int:
    return seed + 1000 * repeat


@dataclass(frozen=True, slots=True)
class _Task:
    cohort: Cohort
    repeat: int
    fold: int
    folds: int
    seed: int
    names: tuple[str, ...]


def _run(task: _Task) -> tuple[pd.DataFrame, dict[str, object], Blend]:
    seed = _repeat_seed(task.seed, task.repeat)
    fold = assign_folds(task.cohort.n_patients, task.folds, seed)
    training = task.cohort.take(np.flatnonzero(fold != task.fold))
    test = task.cohort.take(np.flatnonzero(fold == task.fold))
    panel = fit_panel(training, seed=seed, names=task.names)
    rows = test.scored()
    frames = []
    for name, blend in panel.blends.items():
        frame = _score(test, rows, blend.forecast(test.baselines, test.questions(rows)))
        frames.append(frame.assign(forecaster=name))
        if name == panel.chosen:
            frames.append(frame.assign(forecaster=NESTED))
    choice = {
        "repeat": task.repeat,
        "fold": task.fold,
        "chosen": panel.chosen,
        "inner_score": panel.inner_scores[panel.chosen],
    }
    return pd.concat(frames).assign(repeat=task.repeat, fold=task.fold), choice, panel.outlook


def _score(test: Cohort, rows: IntArray, draws: np.ndarray) -> pd.DataFrame:
    decision, true_ml = decide(draws), test.fvc_ml[rows]
    below = (draws < true_ml[:, None]).mean(axis=1)
    return pd.DataFrame(
        {
            "patient": test.baselines.patient[test.patient[rows]],
            "gap_weeks": test.gap_weeks[rows],
            "true_ml": true_ml,
            "fvc_ml": decision.fvc_ml,
            "confidence_ml": decision.confidence_ml,
            "score": laplace_log_likelihood(true_ml, decision.fvc_ml, decision.confidence_ml),
            "pit": below,
        }
    )


def gap_labels() -> list[str]:
    """Return the names of the bins of weeks since the first visit."""
    inner = [f"{a}-{b}" for a, b in itertools.pairwise(GAP_EDGES_WEEKS)]
    return [*inner, f"{GAP_EDGES_WEEKS[-1]}+"]


def _gap_bins(gap_weeks: pd.Series) -> list[str]:
    labels = gap_labels()
    place = np.digitize(gap_weeks.to_numpy(), GAP_EDGES_WEEKS[1:])
    return [labels[k] for k in place]
