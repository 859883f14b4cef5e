"""A `Prior` as a PyMC random variable, inside a model context."""

from __future__ import annotations

from typing import Any

import pymc as pm

from tidegauge.engine.priors import Prior


def variable(name: str, prior: Prior, *, dims: str | tuple[str, ...] | None = None) -> Any:
    """Add a random variable with this prior to the model being built."""
    match prior.kind:
        case "normal":
            return pm.Normal(name, prior.mu, prior.sd, dims=dims)
        case "half_normal":
            return pm.HalfNormal(name, prior.sd, dims=dims)
        case "half_cauchy":
            return pm.HalfCauchy(name, prior.sd, dims=dims)
        case "truncated_normal":
            return pm.TruncatedNormal(name, prior.mu, prior.sd, upper=prior.upper, dims=dims)
        case "gamma":
            return pm.Gamma(name, mu=prior.mu, sigma=prior.sd, dims=dims)
        case _:
            raise ValueError(f"{name}: no prior of kind {prior.kind!r}")
