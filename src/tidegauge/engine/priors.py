"""Priors as plain data: what a model's dataclass holds and what is saved with its fit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prior:
    """A univariate prior by name and parameters.

    Attributes
    ----------
    kind : str
        ``normal``, ``half_normal``, ``half_cauchy``, ``truncated_normal`` or ``gamma``.
    mu, sd : float
        Location (0 for the half priors) and scale, in the parameter's own units; of a gamma its
        mean and standard deviation.
    upper : float
        Upper bound of a truncated normal.
    """

    kind: str
    mu: float
    sd: float
    upper: float = float("inf")


def normal(mu: float, sd: float) -> Prior:
    """Return Normal(mu, sd)."""
    return Prior("normal", mu, sd)


def half_normal(sd: float) -> Prior:
    """Return HalfNormal(sd)."""
    return Prior("half_normal", 0.0, sd)


def half_cauchy(scale: float) -> Prior:
    """Return HalfCauchy(scale)."""
    return Prior("half_cauchy", 0.0, scale)


def truncated_normal(mu: float, sd: float, *, upper: float) -> Prior:
    """Return Normal(mu, sd) truncated to values of at most `upper`."""
    return Prior("truncated_normal", mu, sd, upper)


def gamma(*, mean: float, sd: float) -> Prior:
    """Return the Gamma distribution with this mean and standard deviation."""
    return Prior("gamma", mean, sd)
