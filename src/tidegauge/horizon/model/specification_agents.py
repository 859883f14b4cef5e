"""Agents in the PyMC specification: each alone, or among others and on a trend over time."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.transforms import Interval
from pytensor.tensor import TensorVariable as Tensor

from tidegauge.arrays import FloatArray
from tidegauge.errors import InputError
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.model.observations import (
    group_index,
    groups_of,
    in_joint_prior,
    prior_length,
    trend_years,
)
from tidegauge.horizon.model.options import HorizonOptions, HorizonPriors
from tidegauge.horizon.model.trend_shapes import TREND_SHAPES, Functions, trend_at

_PYTENSOR = Functions(exp=pt.exp, logistic=pt.sigmoid, softplus=pt.softplus)


def add_agents(
    design: Design, priors: HorizonPriors, options: HorizonOptions
) -> tuple[Tensor, Tensor]:
    """Add alpha and beta of each agent, with the priors that the options name."""
    beta = (
        _add_pooled_slopes(design, priors, options)
        if options.pools_slopes
        else priors.beta.to_pymc("beta", dims="agent")
    )
    # Its own prior is one of the logit alpha + beta m at a task of m log2 minutes.
    centre = priors.alpha.mu - beta * prior_length(design, options)
    spread = pt.full((len(design.agents),), priors.alpha.sd)
    joint = in_joint_prior(design, options)
    if joint.any():
        log2_horizon = _add_trend(priors, options, trend_years(design, options))
        if groups_of(design, options):
            log2_horizon = log2_horizon + _add_group_effects("horizon", design, priors, options)
        # A horizon is -alpha / beta: given beta, a normal horizon is a normal alpha.
        centre = pt.switch(joint, -beta * log2_horizon, centre)
        sigma = priors.sigma_horizon.to_pymc("sigma_horizon")
        spread = pt.switch(joint, -beta * sigma, spread)
    return pm.Normal("alpha", centre, spread, dims="agent"), beta


def _add_pooled_slopes(design: Design, priors: HorizonPriors, options: HorizonOptions) -> Tensor:
    """Add slopes whose log steepness is normal around a common mean."""
    centre = priors.mu_slope.to_pymc("mu_slope")
    sigma = priors.sigma_slope.to_pymc("sigma_slope")
    if groups_of(design, options):
        centre = centre + _add_group_effects("slope", design, priors, options)
    return pm.CustomDist(
        "beta",
        centre,
        sigma,
        dist=_minus_log_normal,
        class_name="MinusLogNormal",
        transform=Interval(None, 0.0),
        initval=np.full(len(design.agents), -0.5),
        dims="agent",
    )


def _minus_log_normal(centre: Tensor, sigma: Tensor, size: Tensor) -> Tensor:
    return -pm.LogNormal.dist(centre, sigma, size=size)


def _add_group_effects(
    kind: str, design: Design, priors: HorizonPriors, options: HorizonOptions
) -> Tensor:
    """Return each agent's share in its lab's or model family's own level."""
    sigma = getattr(priors, f"sigma_group_{kind}").to_pymc(f"sigma_group_{kind}")
    effect = pm.Normal(f"group_{kind}", 0.0, sigma, dims="group")
    return effect[group_index(design, options)]


def _add_trend(priors: HorizonPriors, options: HorizonOptions, years: FloatArray) -> Tensor:
    """Return the log2 horizon of the trend at each agent's date; at the mean date without one."""
    level = priors.trend_level.to_pymc("trend_level")
    dated = years[~np.isnan(years)]
    if options.trend == "none":
        return pt.full((years.size,), level)
    if np.unique(dated).size < 2:
        raise InputError(
            f"trend={options.trend}: at least two release dates are needed; give --release-dates "
            "or use trend=none"
        )
    t = np.where(np.isnan(years), 0.0, years)
    coefficients = {"trend_level": level}
    for name in TREND_SHAPES[options.trend].terms:
        coefficients[name] = (
            pm.Uniform(name, dated.min(), dated.max())
            if name == "trend_kink"
            else getattr(priors, name).to_pymc(name)
        )
    trend = trend_at(options.trend, coefficients, t, _PYTENSOR)
    # Without a date, an agent is as if released on the mean date.
    return pt.switch(np.isnan(years), level, trend)
