"""The score-optimal direct model: a handful of numbers fitted on the score itself.

With ``u = (gap - 38) / 20``, ``t = gap / 38`` and ``s = sqrt(FVC0 / 2700)``::

    FVC        = FVC0 + 100 s (c + b u + t x.g)
    Confidence = max(70, 250 exp(a0 + a1 u + z.h))

for standardised covariates x and z. Ridge terms hold g and h near 0: they are priors on numbers
that a hundred-odd patients cannot settle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from tidegauge.arrays import FloatArray, IntArray
from tidegauge.fvc.data.cohort import Baselines, Cohort, Questions
from tidegauge.fvc.data.covariates import (
    FeatureScaling,
    column_numbers,
    level_scale,
    table_covariates,
)
from tidegauge.fvc.forecasters import Array, State, laplace_draws
from tidegauge.scores import CONFIDENCE_FLOOR_ML, ERROR_CAP_ML

CENTRE_WEEKS, SPREAD_WEEKS = 38.0, 20.0  # of the visits that score
_SMOOTHING_ML = 4.0  # rounds the corner of |error|, so that L-BFGS may be used
_TYPICAL = np.array([-1.3, -0.7, 0.0, 0.0])  # c, b, a0, a1 where there is nothing to learn from
_TYPICAL_STRENGTH = 0.3  # in visits: decides only when there are hardly any


@dataclass(frozen=True, slots=True)
class _Design:
    """Questions as the model sees them, one row each."""

    fvc0_ml: FloatArray
    unit_ml: FloatArray  # 100 s
    u: FloatArray
    t: FloatArray
    x: FloatArray
    z: FloatArray


@dataclass(frozen=True, slots=True)
class DirectFit:
    """A fitted direct model.

    Attributes
    ----------
    line : ndarray
        c, b, a0, a1.
    shift, spread : ndarray
        g (the named table covariates, then the scan features) and h.
    shift_columns, spread_columns : ndarray
        Which table covariates they belong to.
    scaling : FeatureScaling
        Of the scan features; empty without scans.
    """

    line: FloatArray
    shift: FloatArray
    spread: FloatArray
    shift_columns: IntArray
    spread_columns: IntArray
    scaling: FeatureScaling

    def forecast(self, baselines: Baselines, questions: Questions) -> FloatArray:
        """Return Laplace draws with the fitted median and Confidence."""
        columns = (self.shift_columns, self.spread_columns)
        design = _design(baselines, questions, columns, self.scaling)
        parameters = np.concatenate([self.line, self.shift, self.spread])
        median, log_confidence = _predict(parameters, design)
        confidence = np.maximum(np.exp(log_confidence), CONFIDENCE_FLOOR_ML)
        return laplace_draws(median, confidence)

    def state(self) -> dict[str, Array]:
        """Return every number of the model."""
        return {
            "line": self.line,
            "shift": self.shift,
            "spread": self.spread,
            "shift_columns": self.shift_columns,
            "spread_columns": self.spread_columns,
            "feature_mean": self.scaling.mean,
            "feature_sd": self.scaling.sd,
        }


@dataclass(frozen=True, slots=True)
class Direct:
    """Fit the score itself.

    Attributes
    ----------
    shift_covariates, spread_covariates : tuple of str
        Names out of `TABLE_COVARIATES` that may move FVC and Confidence.
    shift_ridge, spread_ridge, scan_ridge : float
        Penalty on each squared coefficient of these and of the scan features, in score per visit.
    scans : bool
        Whether scan features may move FVC.
    """

    name: str = "direct"
    shift_covariates: tuple[str, ...] = ("current_smoker",)
    spread_covariates: tuple[str, ...] = ("male",)
    shift_ridge: float = 0.01
    spread_ridge: float = 0.01
    scan_ridge: float = 0.5  # some thirty features that say much the same
    scans: bool = False

    def fit(self, cohort: Cohort, *, seed: int) -> DirectFit:
        """Maximise the penalised mean score of the visits that score."""
        base = cohort.baselines if self.scans else cohort.without_features().baselines
        moves, widens = (
            column_numbers(self.shift_covariates),
            column_numbers(self.spread_covariates),
        )
        scaling = FeatureScaling.of(base.features)
        rows = cohort.scored()
        design = _design(base, cohort.questions(rows), (moves, widens), scaling)
        ridge = np.concatenate(
            [
                np.full(4, _TYPICAL_STRENGTH / max(len(rows), 1)),
                np.full(len(moves), self.shift_ridge),
                np.full(len(scaling.mean), self.scan_ridge),
                np.full(len(widens), self.spread_ridge),
            ]
        )
        start = np.concatenate([_TYPICAL, np.zeros(len(ridge) - 4)])
        found = minimize(
            _loss,
            start,
            args=(design, cohort.fvc_ml[rows], ridge, start),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 500},
        ).x
        line, shift, spread = np.split(found, [4, 4 + design.x.shape[1]])
        return DirectFit(line, shift, spread, moves, widens, scaling)

    def restore(self, state: State) -> DirectFit:
        """Rebuild from the saved numbers."""
        return DirectFit(
            state["line"],
            state["shift"],
            state["spread"],
            state["shift_columns"],
            state["spread_columns"],
            FeatureScaling(state["feature_mean"], state["feature_sd"]),
        )


def _design(
    baselines: Baselines,
    questions: Questions,
    columns: tuple[IntArray, IntArray],
    scaling: FeatureScaling,
) -> _Design:
    table = table_covariates(baselines)
    features = scaling.apply(baselines.features[:, : len(scaling.mean)])
    patient = questions.patient
    return _Design(
        fvc0_ml=baselines.fvc_ml[patient],
        unit_ml=100.0 * level_scale(baselines)[patient],
        u=(questions.gap_weeks - CENTRE_WEEKS) / SPREAD_WEEKS,
        t=questions.gap_weeks / CENTRE_WEEKS,
        x=np.hstack([table[:, columns[0]], features])[patient],
        z=table[:, columns[1]][patient],
    )


def _predict(parameters: FloatArray, design: _Design) -> tuple[FloatArray, FloatArray]:
    c, b, a0, a1 = parameters[:4]
    shift, spread = np.split(parameters[4:], [design.x.shape[1]])
    median = design.fvc0_ml + design.unit_ml * (c + b * design.u + design.t * (design.x @ shift))
    log_confidence = np.log(250.0) + a0 + a1 * design.u + design.z @ spread
    return median, log_confidence


def _loss(
    parameters: FloatArray,
    design: _Design,
    true_ml: FloatArray,
    ridge: FloatArray,
    centre: FloatArray,
) -> tuple[float, FloatArray]:
    """Return the penalised negative mean score and its gradient."""
    median, log_confidence = _predict(parameters, design)
    confidence = np.exp(log_confidence)
    floored = confidence < CONFIDENCE_FLOOR_ML
    sigma = np.maximum(confidence, CONFIDENCE_FLOOR_ML)
    error = median - true_ml
    distance = np.sqrt(error**2 + _SMOOTHING_ML**2)
    capped = distance > ERROR_CAP_ML
    distance = np.minimum(distance, ERROR_CAP_ML)
    n = max(len(true_ml), 1)
    by_median = np.where(capped, 0.0, np.sqrt(2.0) * error / distance / sigma) * design.unit_ml / n
    by_log = np.where(floored, 0.0, 1.0 - np.sqrt(2.0) * distance / sigma) / n
    away = parameters - centre
    gradient = np.concatenate(
        [
            [by_median.sum(), by_median @ design.u, by_log.sum(), by_log @ design.u],
            (by_median * design.t) @ design.x,
            by_log @ design.z,
        ]
    )
    value = (np.sqrt(2.0) * distance / sigma + np.log(np.sqrt(2.0) * sigma)).sum() / n
    return float(value + ridge @ away**2), gradient + 2 * ridge * away
