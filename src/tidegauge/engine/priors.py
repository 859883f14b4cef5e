"""Priors as plain data: what a model's dataclass holds and what is saved with its fit.

All that is known of a kind of prior stands in `_KINDS`: density, quantiles, text, PyMC variable,
and the code by which a compiled density knows the form of its log density without the constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy  # loads scipy.special when it is first used: `--help` needs no priors

from tidegauge.arrays import FloatArray

GAUSSIAN, HALF_CAUCHY, GAMMA, LOGISTIC, LOG_NORMAL = 0.0, 1.0, 2.0, 3.0, 4.0

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True, slots=True)
class Prior:
    """A univariate prior by name and parameters.

    Attributes
    ----------
    kind : str
        ``normal``, ``half_normal``, ``half_cauchy``, ``truncated_normal``, ``gamma``,
        ``log_normal`` or ``uniform_logit``.
    mu, sd : float
        Location (0 for the half priors) and scale, in the parameter's own units; of a gamma its
        mean and standard deviation, of a log-normal those of the natural logarithm.
    upper : float
        Upper bound of a truncated normal.

    Raises
    ------
    ValueError
        There is no such kind.
    """

    kind: str
    mu: float
    sd: float
    upper: float = float("inf")

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            known = ", ".join(_KINDS)
            raise ValueError(f"no prior of kind {self.kind!r}; choose from {known}")

    def __str__(self) -> str:
        return _KINDS[self.kind].text.format(self=self)

    @property
    def support(self) -> tuple[float, float]:
        """The ends between which the density is positive."""
        return _SUPPORTS[_KINDS[self.kind].support](self)

    @property
    def code(self) -> float:
        """The form of the log density, as compiled densities know it."""
        return _KINDS[self.kind].code

    @property
    def log_normaliser(self) -> float:
        """The constant of the log density, which `log_kernel` leaves out."""
        return _KINDS[self.kind].log_normaliser(self)

    def log_kernel(self, values: FloatArray) -> FloatArray:
        """Return the log density without its constant; values must lie in the support."""
        return np.asarray(_LOG_KERNELS[self.code](self, values), dtype=np.float64)

    def logpdf(self, values: FloatArray) -> FloatArray:
        """Return the log density, minus infinity outside the support."""
        low, high = self.support
        inside = (values >= low) & (values <= high)
        somewhere = np.where(inside, values, self.quantile(np.asarray(0.5)))
        return np.where(inside, self.log_kernel(somewhere) + self.log_normaliser, -np.inf)

    def quantile(self, probability: FloatArray) -> FloatArray:
        """Return the values below which the prior has these probabilities."""
        return np.asarray(_KINDS[self.kind].quantile(self, probability), dtype=np.float64)

    def powered(self, power: float) -> Prior | None:
        """Return the prior whose density is this one's to a power, or None if it is of no kind."""
        if self.code not in (GAUSSIAN, LOG_NORMAL):
            return None
        # A power of 1 / value moves the mean of the logarithm.
        moved = self.mu + (self.code == LOG_NORMAL) * self.sd**2 * (1 / power - 1)
        return replace(self, mu=moved, sd=self.sd / np.sqrt(power))

    def to_pymc(self, name: str, *, dims: str | tuple[str, ...] | None = None) -> Any:
        """Add a random variable with this prior to the PyMC model being built."""
        import pymc as pm

        distribution, arguments = _KINDS[self.kind].pymc
        # NumPy's doubles stay doubles; Python's floats may become single precision on their way.
        given = {key: np.float64(getattr(self, field)) for key, field in arguments.items()}
        return getattr(pm, distribution)(name, **given, dims=dims)


@dataclass(frozen=True)
class _Kind:
    """What a kind of prior is; functions take the prior first."""

    code: float
    support: str
    log_normaliser: Callable[[Prior], float]
    quantile: Callable[[Prior, FloatArray], Any]
    text: str
    pymc: tuple[str, Mapping[str, str]]  # distribution, and our field for each of its parameters


def _gaussian_log_normaliser(prior: Prior) -> float:
    return -_HALF_LOG_2PI - math.log(prior.sd)


def _half_normal_log_normaliser(prior: Prior) -> float:
    return math.log(2) - _HALF_LOG_2PI - math.log(prior.sd)


def _truncated_log_normaliser(prior: Prior) -> float:
    inside = float(scipy.special.log_ndtr((prior.upper - prior.mu) / prior.sd))
    return _gaussian_log_normaliser(prior) - inside


def _truncated_quantile(prior: Prior, probability: FloatArray) -> Any:
    below_upper = scipy.special.ndtr((prior.upper - prior.mu) / prior.sd)
    return prior.mu + prior.sd * scipy.special.ndtri(probability * below_upper)


def _log_normal_quantile(prior: Prior, probability: FloatArray) -> Any:
    return np.exp(prior.mu + prior.sd * scipy.special.ndtri(probability))


def gamma_shape_rate(prior: Prior) -> tuple[float, float]:
    """Return shape and rate of a gamma prior."""
    return (prior.mu / prior.sd) ** 2, prior.mu / prior.sd**2


def _gamma_log_normaliser(prior: Prior) -> float:
    shape, rate = gamma_shape_rate(prior)
    return shape * math.log(rate) - math.lgamma(shape)


def _gamma_quantile(prior: Prior, probability: FloatArray) -> Any:
    shape, rate = gamma_shape_rate(prior)
    return scipy.special.gammaincinv(shape, probability) / rate


def _gaussian_log_kernel(prior: Prior, values: FloatArray) -> Any:
    return -0.5 * ((values - prior.mu) / prior.sd) ** 2


def _cauchy_log_kernel(prior: Prior, values: FloatArray) -> Any:
    return -np.log1p((values / prior.sd) ** 2)


def _gamma_log_kernel(prior: Prior, values: FloatArray) -> Any:
    shape, rate = gamma_shape_rate(prior)
    return (shape - 1) * np.log(values) - rate * values


def _log_normal_log_kernel(prior: Prior, values: FloatArray) -> Any:
    logs = np.log(values)
    return -0.5 * ((logs - prior.mu) / prior.sd) ** 2 - logs


def _logistic_log_kernel(prior: Prior, values: FloatArray) -> Any:
    return -np.abs(values) - 2 * np.log1p(np.exp(-np.abs(values)))


_LOG_KERNELS: Mapping[float, Callable[[Prior, FloatArray], Any]] = {
    GAUSSIAN: _gaussian_log_kernel,
    HALF_CAUCHY: _cauchy_log_kernel,
    GAMMA: _gamma_log_kernel,
    LOGISTIC: _logistic_log_kernel,
    LOG_NORMAL: _log_normal_log_kernel,
}
_SUPPORTS: Mapping[str, Callable[[Prior], tuple[float, float]]] = {
    "real": lambda prior: (-math.inf, math.inf),
    "positive": lambda prior: (0.0, math.inf),
    "bounded": lambda prior: (-math.inf, prior.upper),
}
_KINDS: Mapping[str, _Kind] = {
    "normal": _Kind(
        code=GAUSSIAN,
        support="real",
        log_normaliser=_gaussian_log_normaliser,
        quantile=lambda prior, probability: prior.mu + prior.sd * scipy.special.ndtri(probability),
        text="Normal({self.mu:g}, {self.sd:g})",
        pymc=("Normal", {"mu": "mu", "sigma": "sd"}),
    ),
    "half_normal": _Kind(
        code=GAUSSIAN,
        support="positive",
        log_normaliser=_half_normal_log_normaliser,
        quantile=lambda prior, probability: prior.sd * scipy.special.ndtri(0.5 * (1 + probability)),
        text="HalfNormal({self.sd:g})",
        pymc=("HalfNormal", {"sigma": "sd"}),
    ),
    "half_cauchy": _Kind(
        code=HALF_CAUCHY,
        support="positive",
        log_normaliser=lambda prior: math.log(2 / math.pi / prior.sd),
        quantile=lambda prior, probability: prior.sd * np.tan(0.5 * math.pi * probability),
        text="HalfCauchy({self.sd:g})",
        pymc=("HalfCauchy", {"beta": "sd"}),
    ),
    "truncated_normal": _Kind(
        code=GAUSSIAN,
        support="bounded",
        log_normaliser=_truncated_log_normaliser,
        quantile=_truncated_quantile,
        text="Normal({self.mu:g}, {self.sd:g}) up to {self.upper:g}",
        pymc=("TruncatedNormal", {"mu": "mu", "sigma": "sd", "upper": "upper"}),
    ),
    "gamma": _Kind(
        code=GAMMA,
        support="positive",
        log_normaliser=_gamma_log_normaliser,
        quantile=_gamma_quantile,
        text="Gamma(mean {self.mu:.4g}, sd {self.sd:.4g})",
        pymc=("Gamma", {"mu": "mu", "sigma": "sd"}),
    ),
    "log_normal": _Kind(
        code=LOG_NORMAL,
        support="positive",
        log_normaliser=_gaussian_log_normaliser,
        quantile=_log_normal_quantile,
        text="LogNormal({self.mu:.4g}, {self.sd:g})",
        pymc=("LogNormal", {"mu": "mu", "sigma": "sd"}),
    ),
    "uniform_logit": _Kind(
        code=LOGISTIC,
        support="real",
        log_normaliser=lambda prior: 0.0,
        quantile=lambda prior, probability: scipy.special.logit(probability),
        text="logit of Uniform(0, 1)",
        pymc=("Logistic", {"mu": "mu"}),
    ),
}


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


def log_normal(mu: float, sd: float) -> Prior:
    """Return the distribution of exp(x), x ~ Normal(mu, sd): its median is exp(mu)."""
    return Prior("log_normal", mu, sd)


def uniform_logit() -> Prior:
    """Return the prior of the logit of a share that is uniform between 0 and 1."""
    return Prior("uniform_logit", 0.0, math.pi / math.sqrt(3))


# By kind, with the parameters as a file of options names them.
MAKERS: Mapping[str, Callable[..., Prior]] = {
    "normal": normal,
    "half_normal": half_normal,
    "half_cauchy": half_cauchy,
    "truncated_normal": truncated_normal,
    "gamma": gamma,
    "log_normal": log_normal,
}


def kinds_like(prior: Prior) -> tuple[str, ...]:
    """Return the kinds of prior that have the same support and so may stand in its place."""
    support = _KINDS[prior.kind].support
    return tuple(kind for kind in MAKERS if _KINDS[kind].support == support)
