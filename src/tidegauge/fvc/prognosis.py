"""What a predictive distribution says of one patient over the coming year and beyond."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.fvc.data.cohort import Baselines, Cohort, Questions

YEAR_WEEKS = 52.0
FALL = 0.10  # of the first FVC: the fall that clinical trials call progression
LEVELS = (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975)
_GRID_WEEKS = np.arange(0.0, 66.0, 5.0)


class Predictive(Protocol):
    """Anything that forecasts questions as draws."""

    def forecast(self, baselines: Baselines, questions: Questions) -> FloatArray:
        """Return draws in ml, shape (questions, draws)."""


@dataclass(frozen=True)
class Prognosis:
    """One patient's outlook.

    Attributes
    ----------
    patient : str
    week : float
        Of the first visit.
    fvc_ml, percent, age : float
        At the first visit.
    gap_weeks : ndarray of shape (w,)
        Weeks since then.
    quantiles_ml : ndarray of shape (levels, w)
        Of a measurement at that week, at `LEVELS`.
    visit_gaps_weeks, visits_ml : ndarray
        What was measured, the first visit included.
    change_ml_per_year : float
        Median change from now to a year later.
    fall_probability : float
        Of measuring at least 10 % less than the first FVC a year later.
    """

    patient: str
    week: float
    fvc_ml: float
    percent: float
    age: float
    gap_weeks: FloatArray
    quantiles_ml: FloatArray
    visit_gaps_weeks: FloatArray
    visits_ml: FloatArray
    change_ml_per_year: float
    fall_probability: float

    @property
    def year_ml(self) -> tuple[float, float, float]:
        """The 10 %, 50 % and 90 % quantiles a year after the first visit."""
        rows = (LEVELS.index(0.1), LEVELS.index(0.5), LEVELS.index(0.9))
        low, middle, high = (
            float(np.interp(YEAR_WEEKS, self.gap_weeks, self.quantiles_ml[row])) for row in rows
        )
        return low, middle, high


def prognose(forecaster: Predictive, cohort: Cohort) -> list[Prognosis]:
    """Return the outlook of every patient of a cohort."""
    baselines, n = cohort.baselines, cohort.n_patients
    weeks = np.union1d(_GRID_WEEKS, [YEAR_WEEKS])
    questions = Questions(np.repeat(np.arange(n), len(weeks)), np.tile(weeks, n))
    draws = forecaster.forecast(baselines, questions).reshape(n, len(weeks), -1)
    quantiles = np.quantile(draws, LEVELS, axis=2)
    year = int(np.searchsorted(weeks, YEAR_WEEKS))
    median = quantiles[LEVELS.index(0.5)]
    fallen = draws[:, year] <= (1 - FALL) * baselines.fvc_ml[:, None]
    return [
        Prognosis(
            patient=str(baselines.patient[i]),
            week=float(baselines.week[i]),
            fvc_ml=float(baselines.fvc_ml[i]),
            percent=float(baselines.percent[i]),
            age=float(baselines.age[i]),
            gap_weeks=weeks,
            quantiles_ml=quantiles[:, i],
            visit_gaps_weeks=cohort.gap_weeks[cohort.patient == i],
            visits_ml=cohort.fvc_ml[cohort.patient == i],
            change_ml_per_year=float(median[i, year] - median[i, 0]),
            fall_probability=float(fallen[i].mean()),
        )
        for i in range(n)
    ]


def faster_share(prognoses: list[Prognosis], population: list[Prognosis]) -> FloatArray:
    """Return for each patient the share of a population with a slower expected decline."""
    change = np.array([one.change_ml_per_year for one in prognoses])
    others = np.array([one.change_ml_per_year for one in population])
    share: FloatArray = (change[:, None] < others).mean(axis=1)
    return share
