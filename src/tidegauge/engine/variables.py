"""A `Prior` as a PyMC random variable, inside a model context."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm

from tidegauge.engine.priors import Prior


def variable(name: str, prior: Prior, *, dims: str | tuple[str, ...] | None = None) -> Any:
    """Add a random variable with this prior to the model being built."""
    # NumPy's doubles stay doubles; Python's floats may become single precision on their way.
    mu, sd, upper = np.float64(prior.mu), np.float64(prior.sd), np.float64(prior.upper)
    match prior.kind:
        case "normal":
            return pm.Normal(name, mu, sd, dims=dims)
        case "half_normal":
            return pm.HalfNormal(name, sd, dims=dims)
        case "half_cauchy":
            return pm.HalfCauchy(name, sd, dims=dims)
        case "truncated_normal":
            return pm.TruncatedNormal(name, mu, sd, upper=upper, dims=dims)
        case "gamma":
            return pm.Gamma(name, mu=mu, sigma=sd, dims=dims)
        case _:
            raise ValueError(f"{name}: no prior of kind {prior.kind!r}")
