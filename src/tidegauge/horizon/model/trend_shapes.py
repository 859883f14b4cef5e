"""Shapes of the trend of log2 horizons over release date: one table, one formula.

With t in years from the mean release date, a trend is linear in some of its coefficients::

    linear     level + rate t
    quadratic  level + rate t + bend t**2 / 2
    kink       level + rate t + change hinge(t - kink)
    logistic   level + height (logistic(k (t - middle)) - logistic(-k middle)),  k = 4 rate / height

The logistic is steepest, at `rate`, in its middle. NumPy and PyMC evaluate the same columns below;
`density.agents.trend_terms` compiles them with their slopes, and a test holds the two equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy  # loads scipy.special when it is first used: `--help` needs no trend

from tidegauge.arrays import FloatArray

HINGE_YEARS = 0.05  # over so many years a kink turns, so that it has a slope

# Codes by which the compiled density knows a shape.
CONSTANT, LINEAR, QUADRATIC, KINK, LOGISTIC = 0.0, 1.0, 2.0, 3.0, 4.0


@dataclass(frozen=True)
class TrendShape:
    """A shape: its code, its coefficients beside the level, and those that enter nonlinearly."""

    code: float
    terms: tuple[str, ...] = ()
    bending: tuple[str, ...] = ()

    @property
    def coefficients(self) -> tuple[str, ...]:
        """All coefficients, the level first."""
        return ("trend_level", *self.terms)

    @property
    def linear(self) -> tuple[str, ...]:
        """The coefficients in which it is linear; they come before those that bend it."""
        return tuple(name for name in self.coefficients if name not in self.bending)


TREND_SHAPES: Mapping[str, TrendShape] = {
    "none": TrendShape(CONSTANT),
    "linear": TrendShape(LINEAR, ("trend_rate",)),
    "quadratic": TrendShape(QUADRATIC, ("trend_rate", "trend_bend")),
    "kink": TrendShape(KINK, ("trend_rate", "trend_change", "trend_kink"), ("trend_kink",)),
    "logistic": TrendShape(
        LOGISTIC,
        ("trend_rate", "trend_log_height", "trend_middle"),
        ("trend_rate", "trend_log_height", "trend_middle"),
    ),
}
SHAPES = tuple(name for name, shape in TREND_SHAPES.items() if shape.terms)


class Functions(NamedTuple):
    """The elementary functions of a library: NumPy's, or PyTensor's."""

    exp: Callable[[Any], Any]
    logistic: Callable[[Any], Any]
    softplus: Callable[[Any], Any]


def _expit(u: Any) -> Any:
    return scipy.special.expit(u)


NUMPY = Functions(exp=np.exp, logistic=_expit, softplus=lambda u: np.logaddexp(0, u))


def trend_columns(
    shape: str, c: Mapping[str, Any], years: FloatArray, functions: Functions = NUMPY
) -> tuple[dict[str, Any], Any]:
    """Return what multiplies each linear coefficient but the level, and what is added.

    Parameters
    ----------
    c : mapping
        The shape's bending coefficients, broadcast against `years`.
    """
    if shape == "none":
        return {}, 0.0
    if shape == "logistic":
        height = functions.exp(c["trend_log_height"])
        k, middle = 4 * c["trend_rate"] / height, c["trend_middle"]
        rise = functions.logistic(k * (years - middle)) - functions.logistic(-k * middle)
        return {}, height * rise
    columns = {"trend_rate": years}
    if shape == "quadratic":
        columns["trend_bend"] = 0.5 * years**2
    elif shape == "kink":
        after = (years - c["trend_kink"]) / HINGE_YEARS
        columns["trend_change"] = HINGE_YEARS * functions.softplus(after)
    return columns, 0.0


def trend_at(
    shape: str, c: Mapping[str, Any], years: FloatArray, functions: Functions = NUMPY
) -> Any:
    """Return the trend in log2 minutes; coefficients are broadcast against `years`."""
    columns, added = trend_columns(shape, c, years, functions)
    value = c["trend_level"] + added
    for name, column in columns.items():
        value = value + c[name] * column
    return value


def trend_value(shape: str, coefficients: Mapping[str, Any], years: FloatArray) -> FloatArray:
    """Return the trend in log2 minutes, shape (..., year), from coefficients of shape (...).

    Parameters
    ----------
    shape : str
        One of SHAPES.
    years : ndarray, shape (year,)
        Years from the mean date of the design.
    """
    return np.asarray(trend_at(shape, _beside_years(shape, coefficients), years))


def trend_slope(shape: str, coefficients: Mapping[str, Any], years: FloatArray) -> FloatArray:
    """Return the derivative of `trend_value`: doublings a year."""
    c = _beside_years(shape, coefficients)
    slope: FloatArray = c["trend_rate"] + 0.0 * years
    if shape == "quadratic":
        slope = slope + c["trend_bend"] * years
    elif shape == "kink":
        slope = slope + c["trend_change"] * _expit((years - c["trend_kink"]) / HINGE_YEARS)
    elif shape == "logistic":
        steepness = 4 * c["trend_rate"] / np.exp(c["trend_log_height"])
        done = _expit(steepness * (years - c["trend_middle"]))
        slope = slope * 4 * done * (1 - done)
    return slope


def _beside_years(shape: str, coefficients: Mapping[str, Any]) -> dict[str, FloatArray]:
    names = TREND_SHAPES[shape].coefficients
    return {name: np.asarray(coefficients[name])[..., None] for name in names}
