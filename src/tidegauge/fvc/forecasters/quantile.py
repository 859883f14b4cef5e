"""Linear quantile regression of the change since the first visit."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from tidegauge.arrays import FloatArray, IntArray
from tidegauge.fvc.data.cohort import Baselines, Cohort, Questions
from tidegauge.fvc.data.covariates import column_numbers, level_scale, table_covariates
from tidegauge.fvc.forecasters import LAPLACE_SHAPE, Array, State

LEVELS = np.array([0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95])
_LEAST_VISITS = 30
_TYPICAL = np.array([-1.3, -0.6])  # median change and slope where there is too little to learn


@dataclass(frozen=True, slots=True)
class QuantileFit:
    """Fitted quantiles: one row of intercept and coefficients a level.

    Attributes
    ----------
    coefficients : ndarray of shape (levels, 1 + inputs)
        In units of ``100 sqrt(FVC0 / 2700)`` ml.
    columns : ndarray
        Which table covariates are used, after the gap.
    """

    coefficients: FloatArray
    columns: IntArray

    def forecast(self, baselines: Baselines, questions: Questions) -> FloatArray:
        """Return draws that pass through the quantiles, with Laplace tails."""
        inputs = _inputs(baselines, questions, self.columns)
        # Quantile lines may cross; sorting each row undoes it and never scores worse.
        quantiles = np.sort(self.coefficients[:, 0] + inputs @ self.coefficients[:, 1:].T, axis=1)
        unit = 100.0 * level_scale(baselines)[questions.patient]
        draws = unit[:, None] * _through(quantiles)
        result: FloatArray = baselines.fvc_ml[questions.patient, None] + draws
        return result

    def state(self) -> dict[str, Array]:
        """Return the coefficients."""
        return {"coefficients": self.coefficients, "columns": self.columns}


@dataclass(frozen=True, slots=True)
class Quantile:
    """Regress quantiles on the gap and a few covariates.

    Attributes
    ----------
    covariates : tuple of str
        Names out of `TABLE_COVARIATES`.
    penalty : float
        L1 penalty on every coefficient, in units of 100 ml of pinball loss.
    """

    name: str = "quantile"
    covariates: tuple[str, ...] = ("current_smoker", "male", "percent")
    penalty: float = 0.01

    def fit(self, cohort: Cohort, *, seed: int) -> QuantileFit:
        """Fit each level on the visits that score."""
        from sklearn.linear_model import QuantileRegressor

        columns = column_numbers(self.covariates)
        rows = cohort.scored()
        if len(rows) < _LEAST_VISITS:
            return _typical(columns)
        questions = cohort.questions(rows)
        inputs = _inputs(cohort.baselines, questions, columns)
        unit = 100.0 * level_scale(cohort.baselines)[questions.patient]
        change = (cohort.fvc_ml[rows] - cohort.baselines.fvc_ml[questions.patient]) / unit
        fits = []
        for level in LEVELS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # HiGHS remarks on ties that do not matter
                line = QuantileRegressor(quantile=level, alpha=self.penalty).fit(inputs, change)
            fits.append([line.intercept_, *line.coef_])
        return QuantileFit(np.array(fits), columns)

    def restore(self, state: State) -> QuantileFit:
        """Rebuild from the saved coefficients."""
        return QuantileFit(state["coefficients"], state["columns"])


def _typical(columns: IntArray) -> QuantileFit:
    coefficients = np.zeros((len(LEVELS), 2 + len(columns)))
    coefficients[:, 0] = _TYPICAL[0] + 1.8 * _laplace_quantile(LEVELS)
    coefficients[:, 1] = _TYPICAL[1]
    return QuantileFit(coefficients, columns)


def _inputs(baselines: Baselines, questions: Questions, columns: IntArray) -> FloatArray:
    covariates = table_covariates(baselines)[:, columns][questions.patient]
    return np.column_stack([(questions.gap_weeks - 38.0) / 20.0, covariates])


def _laplace_quantile(level: FloatArray) -> FloatArray:
    """Return the quantile of a Laplace with mean absolute deviation 1."""
    tail = np.minimum(level, 1 - level)
    quantile: FloatArray = np.sign(level - 0.5) * -np.log(2 * tail)
    return quantile


def _through(quantiles: FloatArray) -> FloatArray:
    """Draw from each row's quantiles: linear between them on the Laplace scale, and beyond."""
    at = _laplace_quantile(LEVELS)
    right = np.clip(np.searchsorted(at, LAPLACE_SHAPE), 1, len(at) - 1)
    share = (LAPLACE_SHAPE - at[right - 1]) / (at[right] - at[right - 1])
    draws: FloatArray = quantiles[:, right - 1] * (1 - share) + quantiles[:, right] * share
    return draws
