"""Points to integrate over a few parameters: spread over their prior, then also where they matter.

Half of the points are even over the prior, so that no place that it allows is missed; the other
half follow a wide t distribution around where the first half found the evidence to be. Every point
carries the prior's density over that of the mixture as its weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats

from tidegauge.arrays import FloatArray
from tidegauge.engine.priors import Prior

Spread = Prior | tuple[float, float]  # a prior, or the two ends of an even one

_POINTS_AT_ONCE = 8192
_DEGREES = 5  # of the t distribution: its tails are heavier than those of any of these posteriors
_WIDER = 2.0  # its covariance is that many times the one found
_LEAST_VARIANCE = 3e-3  # in prior variances, should one point have had all the weight


@dataclass(frozen=True)
class Points:
    """Values (point,) of every parameter, and the log of the points' weights."""

    values: dict[str, FloatArray]
    log_weight: FloatArray

    def chunks(self) -> list[Points]:
        """Cut the points into parts that memory holds."""
        starts = range(0, self.log_weight.size, _POINTS_AT_ONCE)
        cuts = [slice(start, start + _POINTS_AT_ONCE) for start in starts]
        return [
            Points({name: v[cut] for name, v in self.values.items()}, self.log_weight[cut])
            for cut in cuts
        ]


def spread_points(
    priors: Mapping[str, Spread],
    log_evidence: Callable[[Points], FloatArray],
    *,
    log2_size: int,
    rng: np.random.Generator,
) -> Points:
    """Return 2 ** (`log2_size` + 1) points for the parameters named by their priors.

    Parameters
    ----------
    log_evidence : callable
        Of points, for all that is left to integrate; shape (point,).
    """
    dims = len(priors)
    # Every parameter as the standard normal score of its place in its prior.
    first = stats.norm.ppf(stats.qmc.Sobol(dims, seed=rng).random_base2(log2_size))
    even = _points_at(first, priors, np.zeros(len(first)))
    log_weight = np.concatenate([log_evidence(part) for part in even.chunks()])
    weight = np.exp(log_weight - log_weight.max())
    centre = np.average(first, axis=0, weights=weight)
    found = np.cov(first.T, aweights=weight, ddof=0).reshape(dims, dims)
    near = stats.multivariate_t(
        centre, _WIDER * found + _LEAST_VARIANCE * np.eye(dims), df=_DEGREES
    )
    cube = stats.qmc.Sobol(dims + 1, seed=rng).random_base2(log2_size)
    stretch = np.sqrt(_DEGREES / stats.chi2.ppf(cube[:, :1], _DEGREES))
    second = centre + stats.norm.ppf(cube[:, 1:]) @ np.linalg.cholesky(near.shape).T * stretch
    places = np.concatenate([first, second])
    log_prior = stats.norm.logpdf(places).sum(axis=1)
    log_mixture = np.logaddexp(log_prior, near.logpdf(places).ravel()) - np.log(2)
    return _points_at(places, priors, log_prior - log_mixture)


def _points_at(scores: FloatArray, priors: Mapping[str, Spread], log_weight: FloatArray) -> Points:
    # A score of nine standard deviations would be the end of the prior, which may be infinite.
    places = np.clip(stats.norm.cdf(scores), 1e-15, 1 - 1e-15).T
    values = {
        name: prior_quantile(prior, place)
        for (name, prior), place in zip(priors.items(), places, strict=True)
    }
    return Points(values, log_weight)


def prior_quantile(prior: Spread, place: FloatArray) -> FloatArray:
    """Return the values of a prior at places between 0 and 1."""
    if isinstance(prior, tuple):
        return prior[0] + (prior[1] - prior[0]) * place
    return prior.quantile(place)
