"""What a forecaster may regress on: first-visit covariates on fixed scales, and scan features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegauge.arrays import FloatArray, IntArray
from tidegauge.fvc.data.cohort import Baselines

TABLE_COVARIATES = (
    "current_smoker",
    "male",
    "age",
    "percent",
    "fvc",
    "expected_fvc",
    "ex_smoker",
    "week",
)
TYPICAL_FVC_ML = 2700.0
_CLIP_SD = 3.0  # one odd scan must not swing its own forecast


def column_numbers(names: tuple[str, ...]) -> IntArray:
    """Return where these covariates are in `TABLE_COVARIATES`."""
    return np.array([TABLE_COVARIATES.index(name) for name in names], dtype=np.int64)


def level_scale(baselines: Baselines) -> FloatArray:
    """Return how much larger errors and declines are than at a typical FVC: its square root."""
    scale: FloatArray = np.sqrt(baselines.fvc_ml / TYPICAL_FVC_ML)
    return scale


def expected_fvc_ml(baselines: Baselines) -> FloatArray:
    """Return the healthy FVC that Percent refers to: known without the visit's noise."""
    expected: FloatArray = 100.0 * baselines.fvc_ml / baselines.percent
    return expected


def table_covariates(baselines: Baselines) -> FloatArray:
    """Return the covariates of `TABLE_COVARIATES`, one column each, about mean 0 and sd 1.

    Centres and scales are constants near those of published cohorts, so a patient's covariates
    never depend on who else is in the table.
    """
    columns = [
        (baselines.current_smoker - 0.05) / 0.22,
        (baselines.male - 0.79) / 0.41,
        (baselines.age - 67.0) / 7.0,
        (baselines.percent - 77.0) / 19.0,
        (baselines.fvc_ml - TYPICAL_FVC_ML) / 800.0,
        (expected_fvc_ml(baselines) - 3500.0) / 750.0,
        (baselines.ex_smoker - 0.67) / 0.47,
        np.clip((baselines.week - 14.0) / 17.0, -_CLIP_SD, _CLIP_SD),
    ]
    return np.stack(columns, axis=1)


@dataclass(frozen=True, slots=True)
class FeatureScaling:
    """Standardisation of scan features by the training patients; a missing value is the mean.

    Attributes
    ----------
    mean, sd : ndarray of shape (k,)
    """

    mean: FloatArray
    sd: FloatArray

    @classmethod
    def of(cls, features: FloatArray) -> FeatureScaling:
        """Return the scaling of these training features; one without spread becomes 0."""
        seen = np.isfinite(features)
        count = np.maximum(seen.sum(axis=0), 1)
        filled = np.where(seen, features, 0.0)
        mean = filled.sum(axis=0) / count
        spread = np.where(seen, filled - mean, 0.0)
        sd = np.sqrt((spread**2).sum(axis=0) / count)
        return cls(mean, np.where(sd > 0, sd, np.inf))

    def apply(self, features: FloatArray) -> FloatArray:
        """Return standardised features, clipped, with 0 where missing."""
        z = (features - self.mean) / self.sd
        return np.clip(np.where(np.isfinite(z), z, 0.0), -_CLIP_SD, _CLIP_SD)
