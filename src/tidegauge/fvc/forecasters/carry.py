"""The first FVC carried forward, with the one Confidence that suits the training patients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.fvc.data.cohort import Baselines, Cohort, Questions
from tidegauge.fvc.forecasters import Array, State, laplace_draws
from tidegauge.scores import CONFIDENCE_FLOOR_ML, ERROR_CAP_ML

DEFAULT_CONFIDENCE_ML = 300.0


def constant_confidence_ml(errors_ml: FloatArray) -> float:
    """Return the constant Confidence with the best score for these errors."""
    if len(errors_ml) == 0:
        return DEFAULT_CONFIDENCE_ML
    mean_error = np.minimum(np.abs(errors_ml), ERROR_CAP_ML).mean()
    return float(max(np.sqrt(2.0) * mean_error, CONFIDENCE_FLOOR_ML))


@dataclass(frozen=True, slots=True)
class CarryFit:
    """A fitted carry-forward: one Confidence in ml."""

    confidence_ml: float

    def forecast(self, baselines: Baselines, questions: Questions) -> FloatArray:
        """Return Laplace draws around each patient's first FVC."""
        median = baselines.fvc_ml[questions.patient]
        return laplace_draws(median, np.full(len(median), self.confidence_ml))

    def state(self) -> dict[str, Array]:
        """Return the Confidence."""
        return {"confidence_ml": np.array(self.confidence_ml)}


@dataclass(frozen=True, slots=True)
class Carry:
    """Carry the first FVC forward."""

    name: str = "carry"

    def fit(self, cohort: Cohort, *, seed: int) -> CarryFit:
        """Choose the Confidence on the visits that score."""
        rows = cohort.scored()
        errors = cohort.fvc_ml[rows] - cohort.baselines.fvc_ml[cohort.patient[rows]]
        return CarryFit(constant_confidence_ml(errors))

    def restore(self, state: State) -> CarryFit:
        """Rebuild from the saved Confidence."""
        return CarryFit(float(state["confidence_ml"]))
