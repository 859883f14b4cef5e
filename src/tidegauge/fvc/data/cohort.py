"""Patients, their visits and what is asked about them, as arrays.

A forecast sees a patient's first visit only: `Baselines` holds that visit and nothing later, so a
later Percent (FVC over a constant of the patient: it gives the answer away) cannot leak.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegauge.arrays import FloatArray, IntArray
from tidegauge.schema.osic import SCORED_VISITS


@dataclass(frozen=True, slots=True)
class Baselines:
    """What is known of each patient when the forecast is made.

    Attributes
    ----------
    patient : ndarray of str, shape (n,)
    week : ndarray
        Week of the first visit, relative to the scan; may be negative.
    fvc_ml, percent, age : ndarray
        As measured at the first visit.
    male, current_smoker, ex_smoker : ndarray
        1 or 0; an unknown category is the share seen in published cohorts.
    features : ndarray of shape (n, k)
        Scan features in their own units, NaN where missing; k may be 0.
    feature_names : tuple of str
        Their k names.
    """

    patient: NDArray[Any]
    week: FloatArray
    fvc_ml: FloatArray
    percent: FloatArray
    age: FloatArray
    male: FloatArray
    current_smoker: FloatArray
    ex_smoker: FloatArray
    features: FloatArray
    feature_names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.patient)

    def take(self, index: IntArray) -> Baselines:
        """Return these patients, in this order."""
        arrays = [f.name for f in fields(self) if f.name != "feature_names"]
        return replace(self, **{name: getattr(self, name)[index] for name in arrays})


@dataclass(frozen=True, slots=True)
class Questions:
    """Which patient, how long after the first visit.

    Attributes
    ----------
    patient : ndarray of int
        Row of the `Baselines` it goes with.
    gap_weeks : ndarray
        Weeks since the first visit; negative before it.
    """

    patient: IntArray
    gap_weeks: FloatArray

    def __len__(self) -> int:
        return len(self.patient)

    def take(self, rows: IntArray) -> Questions:
        """Return these questions, in this order."""
        return Questions(self.patient[rows], self.gap_weeks[rows])


@dataclass(frozen=True, slots=True)
class Visits:
    """Measurements after the first visit that a forecast may use as well.

    Attributes
    ----------
    patient : ndarray of int
        Row of the `Baselines` it goes with; sorted.
    gap_weeks, fvc_ml : ndarray
        Weeks since that patient's first visit, and the measurement.
    """

    patient: IntArray
    gap_weeks: FloatArray
    fvc_ml: FloatArray

    def __len__(self) -> int:
        return len(self.patient)

    def of(self, patients: IntArray) -> Visits:
        """Return the visits of these patients (in ascending order), renumbered."""
        rows = np.flatnonzero(np.isin(self.patient, patients))
        place = np.searchsorted(patients, self.patient[rows])
        return Visits(place, self.gap_weeks[rows], self.fvc_ml[rows])


@dataclass(frozen=True, slots=True)
class Cohort:
    """Patients with their histories.

    Attributes
    ----------
    baselines : Baselines
    patient : ndarray of int, shape (m,)
        Whose visit it is: a row of `baselines`. Visits are sorted by patient, then by week.
    gap_weeks, fvc_ml : ndarray
        Weeks since that patient's first visit, and the measurement.
    first : ndarray of bool
        Whether this row is the visit that `baselines` holds.
    """

    baselines: Baselines
    patient: IntArray
    gap_weeks: FloatArray
    fvc_ml: FloatArray
    first: NDArray[np.bool_]

    @property
    def n_patients(self) -> int:
        """How many patients there are."""
        return len(self.baselines)

    def take(self, index: IntArray) -> Cohort:
        """Return these patients with all their visits, renumbered in the order given."""
        position = np.full(self.n_patients, -1)
        position[index] = np.arange(len(index))
        kept = np.flatnonzero(position[self.patient] >= 0)
        kept = kept[np.argsort(position[self.patient[kept]], kind="stable")]
        return Cohort(
            baselines=self.baselines.take(index),
            patient=position[self.patient[kept]],
            gap_weeks=self.gap_weeks[kept],
            fvc_ml=self.fvc_ml[kept],
            first=self.first[kept],
        )

    def scored(self, visits: int = 1) -> IntArray:
        """Return the rows that score: each patient's last three, as far as not among the first."""
        later = np.flatnonzero(~self.first)
        # Counted from both ends, because rows are sorted by patient and week.
        patient, number = self.patient[later], np.arange(len(later))
        start, end = (np.searchsorted(patient, patient, side=side) for side in ("left", "right"))
        return later[(end - number <= SCORED_VISITS) & (number - start >= visits - 1)]

    def later_visits(self, most: int | None = None) -> Visits:
        """Return the visits after the first one, of each patient the earliest `most`."""
        later = np.flatnonzero(~self.first)
        patient = self.patient[later]
        place = np.arange(len(later)) - np.searchsorted(patient, patient, side="left")
        kept = later if most is None else later[place < most]
        return Visits(self.patient[kept], self.gap_weeks[kept], self.fvc_ml[kept])

    def questions(self, rows: IntArray) -> Questions:
        """Return what a forecaster is asked in order to predict these visits."""
        return Questions(self.patient[rows], self.gap_weeks[rows])

    def with_features(self, features: FloatArray, names: tuple[str, ...]) -> Cohort:
        """Return the cohort with these scan features, one row a patient."""
        return replace(
            self, baselines=replace(self.baselines, features=features, feature_names=names)
        )

    def without_features(self) -> Cohort:
        """Return the cohort as its tables alone describe it."""
        return self.with_features(np.empty((self.n_patients, 0)), ())
