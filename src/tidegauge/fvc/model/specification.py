"""The hierarchical model as PyMC: the specification that the kernel is held to."""

from __future__ import annotations

import numpy as np
import pymc as pm

from tidegauge.fvc.model.design import DEFAULT_PRIORS, HierarchicalDesign, HierarchicalPriors


def build_model(
    design: HierarchicalDesign, priors: HierarchicalPriors = DEFAULT_PRIORS
) -> pm.Model:
    """Build the model of `tidegauge.fvc.model.design` without sampling it."""
    patients = design.patients
    coords = {"patient": np.arange(len(patients.unit_ml)), "effect": np.arange(patients.x.shape[1])}
    with pm.Model(coords=coords) as model:
        level_mean = priors.level_mean.to_pymc("level_mean")
        level_expected = priors.level_expected.to_pymc("level_expected")
        level_sd = priors.level_sd.to_pymc("level_sd")
        slope_mean = priors.slope_mean.to_pymc("slope_mean")
        effect_sd = priors.effect_sd.to_pymc("effect_sd")
        slope_sd = priors.slope_sd.to_pymc("slope_sd")
        sigma = priors.sigma.to_pymc("sigma")
        growth = priors.growth.to_pymc("growth")
        nu = 1 + pm.math.exp(priors.log_nu.to_pymc("log_nu"))
        nu_slope = 1 + pm.math.exp(priors.log_nu_slope.to_pymc("log_nu_slope"))
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
