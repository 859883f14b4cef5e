"""The hierarchical model's data and priors, as its specification and its kernel both read them.

Per patient, with ``unit = 100 sqrt(FVC0 / 2700)`` ml and ``t = gap / 38``, every visit (the first
one too, for it is as noisy as any) is::

    (FVC - FVC0) / unit ~ StudentT(1 + nu, level_i + slope_i t, sigma (FVC0 / 2700) ** growth)
    FVC0 + unit level_i ~ Normal(100 (level_mean + level_expected e_i), 100 level_sd)
    slope_i             ~ StudentT(1 + nu_slope, slope_mean + x_i . effect, slope_sd)
    effect_k            ~ Normal(0, effect_sd)

with e the healthy FVC that Percent refers to, standardised, and x covariates and scan features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegauge.arrays import FloatArray, IntArray
from tidegauge.engine.priors import Prior, half_normal, normal
from tidegauge.fvc.data.cohort import Baselines, Cohort
from tidegauge.fvc.data.covariates import (
    TYPICAL_FVC_ML,
    FeatureScaling,
    expected_fvc_ml,
    level_scale,
    table_covariates,
)

TIME_WEEKS = 38.0  # slopes are per 38 weeks, the typical gap of a visit that scores
SCALARS = (
    "level_mean",
    "level_expected",
    "log_level_sd",
    "slope_mean",
    "log_effect_sd",
    "log_slope_sd",
    "log_sigma",
    "growth",
    "log_nu",
    "log_nu_slope",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HierarchicalPriors:
    """Priors, in units of about 100 ml and of 38 weeks."""

    level_mean: Prior = normal(27.0, 5.0)
    level_expected: Prior = normal(5.0, 5.0)
    level_sd: Prior = half_normal(10.0)
    slope_mean: Prior = normal(-1.5, 1.0)
    effect_sd: Prior = half_normal(0.3)
    slope_sd: Prior = half_normal(2.0)
    sigma: Prior = half_normal(2.0)
    growth: Prior = normal(0.0, 0.3)
    log_nu: Prior = normal(1.2, 0.7)
    log_nu_slope: Prior = normal(1.2, 0.7)


DEFAULT_PRIORS = HierarchicalPriors()


@dataclass(frozen=True, slots=True)
class PatientDesign:
    """Per patient: unit in ml, observed and expected level, log size, covariates."""

    unit_ml: FloatArray
    observed: FloatArray  # FVC0 in units
    centre: FloatArray  # 100 ml in units
    expected: FloatArray
    log_size: FloatArray
    x: FloatArray


@dataclass(frozen=True, slots=True)
class HierarchicalDesign:
    """Training data: patients, and per visit whose it is, t and the change in units."""

    patients: PatientDesign
    patient: IntArray
    t: FloatArray
    change: FloatArray


def design_patients(
    baselines: Baselines, columns: IntArray, scaling: FeatureScaling
) -> PatientDesign:
    """Return what the model knows of these patients."""
    unit = 100.0 * level_scale(baselines)
    features = baselines.features[:, : len(scaling.mean)]
    return PatientDesign(
        unit_ml=unit,
        observed=baselines.fvc_ml / unit,
        centre=100.0 / unit,
        expected=np.clip((expected_fvc_ml(baselines) - 3500.0) / 750.0, -4.0, 4.0),
        log_size=np.log(baselines.fvc_ml / TYPICAL_FVC_ML),
        x=np.hstack([table_covariates(baselines)[:, columns], scaling.apply(features)]),
    )


def design_cohort(cohort: Cohort, columns: IntArray, scaling: FeatureScaling) -> HierarchicalDesign:
    """Return the training data of the model."""
    patients = design_patients(cohort.baselines, columns, scaling)
    base = cohort.baselines.fvc_ml[cohort.patient]
    return HierarchicalDesign(
        patients=patients,
        patient=cohort.patient,
        t=cohort.gap_weeks / TIME_WEEKS,
        change=(cohort.fvc_ml - base) / patients.unit_ml[cohort.patient],
    )
