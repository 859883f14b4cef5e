"""One decline for everyone: a median line through the changes since the first visit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.fvc.data.cohort import Baselines, Cohort, Questions
from tidegauge.fvc.forecasters import Array, State, laplace_draws
from tidegauge.fvc.forecasters.carry import constant_confidence_ml

DEFAULT_SLOPE_ML_PER_WEEK = -4.0


@dataclass(frozen=True, slots=True)
class LinearFit:
    """A fitted line: ``FVC0 + offset_ml + slope_ml_per_week * gap`` with one Confidence."""

    offset_ml: float
    slope_ml_per_week: float
    confidence_ml: float

    def forecast(self, baselines: Baselines, questions: Questions) -> FloatArray:
        """Return Laplace draws around the line through each patient's first FVC."""
        change = self.offset_ml + self.slope_ml_per_week * questions.gap_weeks
        median = baselines.fvc_ml[questions.patient] + change
        return laplace_draws(median, np.full(len(median), self.confidence_ml))

    def state(self) -> dict[str, Array]:
        """Return the line and the Confidence."""
        return {"line": np.array([self.offset_ml, self.slope_ml_per_week, self.confidence_ml])}


@dataclass(frozen=True, slots=True)
class Linear:
    """Let everyone decline by the same line."""

    name: str = "linear"

    def fit(self, cohort: Cohort, *, seed: int) -> LinearFit:
        """Fit the median line on the visits that score."""
        from sklearn.linear_model import QuantileRegressor

        rows = cohort.scored()
        if len(rows) < 3:
            return LinearFit(0.0, DEFAULT_SLOPE_ML_PER_WEEK, constant_confidence_ml(np.empty(0)))
        change = cohort.fvc_ml[rows] - cohort.baselines.fvc_ml[cohort.patient[rows]]
        gap = cohort.gap_weeks[rows]
        line = QuantileRegressor(quantile=0.5, alpha=0.0).fit(gap[:, None], change)
        errors = change - line.predict(gap[:, None])
        return LinearFit(
            float(line.intercept_), float(line.coef_[0]), constant_confidence_ml(errors)
        )

    def restore(self, state: State) -> LinearFit:
        """Rebuild from the saved line."""
        return LinearFit(*(float(value) for value in state["line"]))
