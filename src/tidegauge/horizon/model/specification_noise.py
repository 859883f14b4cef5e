"""Noise of human times in the PyMC specification: densities, survival and interval probabilities.

Each kind has mean 0 and scale 1 in units of sigma_human; ``z`` is always so standardised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor import TensorVariable as Tensor

from tidegauge.horizon.model.human_noise import GUMBEL_MEAN, GUMBEL_SD

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_NEGLIGIBLE = 39.0  # exp(-39) is below the rounding of a double


class Noise(Protocol):
    """What human times need to know of their noise."""

    def observe(self, name: str, centre: Tensor, scale: Tensor, **observed: Any) -> Tensor:
        """Add observed log2 durations to the model."""

    def log_survival(self, z: Tensor) -> Tensor:
        """Return log P(e > z)."""

    def log_interval(self, low: Tensor, high: Tensor) -> Tensor:
        """Return log P(low <= e < high)."""


class NormalNoise:
    """Log-normal durations."""

    def observe(self, name: str, centre: Tensor, scale: Tensor, **observed: Any) -> Tensor:
        """Add observed log2 durations to the model."""
        return pm.Normal(name, centre, scale, **observed)

    def log_survival(self, z: Tensor) -> Tensor:
        """Return log P(e > z), exact in both tails."""
        above, below = pt.maximum(z, 0.0) / math.sqrt(2), pt.minimum(z, 0.0) / math.sqrt(2)
        upper = pt.log(0.5 * pt.erfcx(above)) - above**2
        return pt.switch(z > 0, upper, pt.log1p(-0.5 * pt.erfc(-below)))

    def log_interval(self, low: Tensor, high: Tensor) -> Tensor:
        """Return log P(low <= e < high) from whichever tail is the lighter."""
        low, high = _mirrored_to_the_right(low, high)
        at_low, at_high = self.log_survival(low), self.log_survival(high)
        return at_low + _log1mexp(at_low - at_high)


@dataclass(frozen=True)
class StudentNoise:
    """Student-t noise on the log scale: now and then a run is wildly long or short."""

    nu: Tensor

    def observe(self, name: str, centre: Tensor, scale: Tensor, **observed: Any) -> Tensor:
        """Add observed log2 durations to the model."""
        return pm.StudentT(name, nu=self.nu, mu=centre, sigma=scale, **observed)

    def log_survival(self, z: Tensor) -> Tensor:
        """Return log P(e > z) by quadrature.

        With e = sqrt(nu) sinh(u) the density of u is proportional to cosh(u) ** -nu, smooth and
        falling at least as fast from any u >= 0 as it falls from 0.
        """
        start = pt.arcsinh(abs(z) / pt.sqrt(self.nu))
        length = pt.arccosh(pt.exp(_NEGLIGIBLE / self.nu))
        u = start[..., None] + 0.5 * length * (_NODES + 1)
        log_terms = np.log(_WEIGHTS) - self.nu * _log_cosh(u)
        log_norm = pt.gammaln((self.nu + 1) / 2) - pt.gammaln(self.nu / 2) - 0.5 * math.log(math.pi)
        tail = pt.logsumexp(log_terms, axis=-1) + pt.log(0.5 * length) + log_norm
        return pt.switch(z > 0, tail, pt.log1p(-pt.exp(tail)))

    def log_interval(self, low: Tensor, high: Tensor) -> Tensor:
        """Return log P(low <= e < high) by quadrature of the density."""
        half = 0.5 * (high - low)
        z = (0.5 * (high + low))[..., None] + half[..., None] * _NODES
        log_terms = np.log(_WEIGHTS) + pm.logp(pm.StudentT.dist(nu=self.nu, mu=0, sigma=1), z)
        return pt.logsumexp(log_terms, axis=-1) + pt.log(half)


class WeibullNoise:
    """Weibull durations of geometric mean 2 ** mu_task: e is a standardised ln Exponential(1)."""

    def observe(self, name: str, centre: Tensor, scale: Tensor, **observed: Any) -> Tensor:
        """Add observed log2 durations to the model."""
        return pm.CustomDist(
            name,
            centre,
            scale,
            logp=_log_weibull_density,
            random=_draw_log_weibull,
            class_name="LogWeibull",
            **observed,
        )

    def log_survival(self, z: Tensor) -> Tensor:
        """Return log P(e > z)."""
        return -pt.exp(GUMBEL_SD * z + GUMBEL_MEAN)

    def log_interval(self, low: Tensor, high: Tensor) -> Tensor:
        """Return log P(low <= e < high)."""
        at_low = pt.exp(GUMBEL_SD * low + GUMBEL_MEAN)
        return -at_low + _log1mexp(at_low * pt.expm1(GUMBEL_SD * (high - low)))


def _log_weibull_density(log2: Tensor, centre: Tensor, scale: Tensor) -> Tensor:
    log_exponential = GUMBEL_SD * (log2 - centre) / scale + GUMBEL_MEAN
    return log_exponential - pt.exp(log_exponential) + math.log(GUMBEL_SD) - pt.log(scale)


def _draw_log_weibull(
    centre: np.ndarray, scale: np.ndarray, rng: np.random.Generator, size: tuple[int, ...]
) -> np.ndarray:
    noise = (np.log(rng.exponential(size=size)) - GUMBEL_MEAN) / GUMBEL_SD
    return np.asarray(centre + scale * noise)


def _mirrored_to_the_right(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    left = low + high < 0
    return pt.switch(left, -high, low), pt.switch(left, -low, high)


def _log1mexp(x: Tensor) -> Tensor:
    """Return log(1 - exp(-x)) for x > 0; each branch sees only arguments it is good at."""
    small, large = pt.minimum(x, math.log(2)), pt.maximum(x, math.log(2))
    return pt.switch(x < math.log(2), pt.log(-pt.expm1(-small)), pt.log1p(-pt.exp(-large)))


def _log_cosh(u: Tensor) -> Tensor:
    """Return log cosh(u) for u >= 0."""
    return u + pt.log1p(pt.exp(-2 * u)) - math.log(2)
