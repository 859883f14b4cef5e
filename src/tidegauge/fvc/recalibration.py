"""Recalibration of predictive draws on forecasts of patients that the fit had not seen.

A forecaster fitted on a hundred patients is too sure of itself, and one fitted on all visits is
off at the last three, which alone score. Three numbers repair it, the same for every forecaster::

    draw -> median + shift 100 s t + exp(widen + widen_by_gap u) (draw - median)

with ``t = gap / 38``, ``s = sqrt(FVC0 / 2700)`` and ``u = (gap - 38) / 20``, held within ±1. They
are fitted on out-of-fold forecasts of the training patients' last three visits, by the score, with
a ridge.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from tidegauge.arrays import FloatArray
from tidegauge.fvc.data.cohort import Baselines, Questions
from tidegauge.fvc.data.covariates import level_scale
from tidegauge.scores import ERROR_CAP_ML

_RIDGE = np.array([0.01, 0.002, 0.02])  # score per visit; all small against what errors say
_SMOOTHING_ML = 4.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """Shift in units of about 100 ml per 38 weeks, and log widening at 38 weeks and per 20."""

    shift: float = 0.0
    widen: float = 0.0
    widen_by_gap: float = 0.0

    def apply(self, draws_ml: FloatArray, baselines: Baselines, questions: Questions) -> FloatArray:
        """Return recalibrated draws, still sorted."""
        unit, t, u = _coordinates(baselines, questions)
        median = np.median(draws_ml, axis=1)
        factor = np.exp(np.clip(self.widen + self.widen_by_gap * u, -2.0, 2.0))
        moved = median + self.shift * unit * t
        draws: FloatArray = moved[:, None] + factor[:, None] * (draws_ml - median[:, None])
        return draws


def fit_calibration(
    draws_ml: FloatArray, true_ml: FloatArray, baselines: Baselines, questions: Questions
) -> Calibration:
    """Fit the recalibration on out-of-fold draws of visits that score."""
    if len(true_ml) == 0:
        return Calibration()
    unit, t, u = _coordinates(baselines, questions)
    median = np.median(draws_ml, axis=1)
    spread = np.minimum(np.abs(draws_ml - median[:, None]), ERROR_CAP_ML).mean(axis=1)
    log_sigma = np.log(np.maximum(np.sqrt(2.0) * spread, 1.0))

    def loss(x: FloatArray) -> tuple[float, FloatArray]:
        sigma = np.exp(log_sigma + x[1] + x[2] * u)
        error = median + x[0] * unit * t - true_ml
        distance = np.sqrt(error**2 + _SMOOTHING_ML**2)
        inside = distance < ERROR_CAP_ML
        ratio = np.sqrt(2.0) * np.minimum(distance, ERROR_CAP_ML) / sigma
        by_shift = np.where(inside, np.sqrt(2.0) * error / distance / sigma, 0.0) * unit * t
        by_log = 1.0 - ratio
        gradient = np.array([by_shift.mean(), by_log.mean(), (by_log * u).mean()])
        value = (ratio + np.log(sigma)).mean() + _RIDGE @ x**2
        return float(value), gradient + 2 * _RIDGE * x

    found = minimize(loss, np.zeros(3), jac=True, method="L-BFGS-B").x
    return Calibration(*(float(value) for value in found))


def _coordinates(
    baselines: Baselines, questions: Questions
) -> tuple[FloatArray, FloatArray, FloatArray]:
    unit = 100.0 * level_scale(baselines)[questions.patient]
    gap = questions.gap_weeks
    # Beyond the gaps it was fitted on the widening stays what it was at their edge.
    return unit, gap / 38.0, np.clip((gap - 38.0) / 20.0, -1.0, 1.0)
