"""The hierarchical model as PyMC: the specification that the kernel is held to."""

from __future__ import annotations

import numpy as np
import pymc as pm

from tidegauge.engine.variables import variable
from tidegauge.fvc.model.design import DEFAULT_PRIORS, HierarchicalDesign, HierarchicalPriors


def build_model(
    design: HierarchicalDesign, priors: HierarchicalPriors = DEFAULT_PRIORS
) -> pm.Model:
    """Build the model of `tidegauge.fvc.model.design` without sampling it."""
    patients = design.patients
    coords = {"patient": np.arange(len(patients.unit_ml)), "effect": np.arange(patients.x.shape[1])}
    with pm.Model(coords=coords) as model:
        level_mean = variable("level_mean", priors.level_mean)
        level_expected = variable("level_expected", priors.level_expected)
        level_sd = variable("level_sd", priors.level_sd)
        slope_mean = variable("slope_mean", priors.slope_mean)
        effect_sd = variable("effect_sd", priors.effect_sd)
        slope_sd = variable("slope_sd", priors.slope_sd)
        sigma = variable("sigma", priors.sigma)
        growth = variable("growth", priors.growth)
        nu = 1 + pm.math.exp(variable("log_nu", priors.log_nu))
        nu_slope = 1 + pm.math.exp(variable("log_nu_slope", priors.log_nu_slope))
        effect_z = pm.Normal("effect_z", 0.0, 1.0, dims="effect")
        typical = (level_mean + level_expected * patients.expected) * patients.centre
        level = pm.Normal(
            "level", typical - patients.observed, level_sd * patients.centre, dims="patient"
        )
        slope = pm.StudentT(
            "slope",
            nu=nu_slope,
            mu=slope_mean + effect_sd * pm.math.dot(patients.x, effect_z),
            sigma=slope_sd,
            dims="patient",
        )
        scale = sigma * pm.math.exp(growth * patients.log_size)
        pm.StudentT(
            "change",
            nu=nu,
            mu=level[design.patient] + slope[design.patient] * design.t,
            sigma=scale[design.patient],
            observed=design.change,
        )
    return model
