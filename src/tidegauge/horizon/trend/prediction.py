"""How well each shape of trend predicts agents it has not seen, from their measured horizons.

The agents' log2 T50 were measured as m, with errors of covariance Sigma, by a fit without a trend:

    m ~ Normal(B tau, sigma_horizon^2 I + Sigma)

Given the scatter and the shape's bending parameters this is a linear regression with normal priors
of tau: all else is integrated exactly, those few over quasi-random points. Leaving an agent out, or
all later ones, is then exact as well: no draw is reweighted.

Half of the points are even over the prior, so that no place that it allows is missed; the other
half follow a wide t distribution around where the first half found the evidence to be. Every point
carries the prior's density over that of the mixture as its weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from tidegauge.arrays import BoolArray, FloatArray, IntArray
from tidegauge.engine.priors import Prior
from tidegauge.errors import InputError
from tidegauge.horizon.model.options import DEFAULT_PRIORS, HorizonPriors
from tidegauge.horizon.model.trend_shapes import TREND_SHAPES, trend_columns
from tidegauge.horizon.trend.measured import Measured

# The bending coefficients of a shape are integrated over so many points; the rest is linear.
_LOG2_POINTS = {"linear": 8, "quadratic": 8, "kink": 11, "logistic": 14}
_HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)
_POINTS_AT_ONCE = 2048
_DEGREES = 5  # of the t distribution: its tails are heavier than those of any of these posteriors
_WIDER = 2.0  # its covariance is that many times the one found
_LEAST_VARIANCE = 3e-3  # in prior variances, should one point have had all the weight

Support = Prior | tuple[float, float]  # a prior, or the two ends of an even one


@dataclass(frozen=True)
class _Regression:
    """The linear coefficients' posterior at every point: `mean` (point, k), `cov` (point, k, k).

    With C the covariance of the measured values, coefficients integrated out, and r their distance
    from the prior mean, `weighted_rest` is C^-1 r and `precision` the diagonal of C^-1, each of
    shape (point, agent): an agent given all others has the variance 1 / precision and is off its
    mean by weighted_rest / precision. `weighted_basis` (point, agent, k) is V^-1 B.
    """

    log_evidence: FloatArray
    mean: FloatArray
    cov: FloatArray
    weighted_basis: FloatArray
    weighted_rest: FloatArray
    precision: FloatArray


class TrendModel:
    """One shape of trend for measured horizons.

    Parameters
    ----------
    measured : Measured
        All agents: the kink may lie anywhere between the first and the last of their dates.
    seed : int
        Of the scrambling of the points.
    """

    def __init__(
        self,
        shape: str,
        measured: Measured,
        *,
        priors: HorizonPriors = DEFAULT_PRIORS,
        seed: int = 1,
    ) -> None:
        self.shape, self.measured = shape, measured
        bends = TREND_SHAPES[shape].bending
        names = [name for name in TREND_SHAPES[shape].coefficients if name not in bends]
        chosen = [getattr(priors, name) for name in names]
        for name, prior in zip(names, chosen, strict=True):
            if prior.kind != "normal":
                raise InputError(f"{name}: a {prior.kind} prior; shapes are compared with normal")
        self.linear = tuple(names)
        self._mu = np.array([prior.mu for prior in chosen], dtype=float)
        self._sd = np.array([prior.sd for prior in chosen], dtype=float)
        bounds = {"trend_kink": (float(measured.years.min()), float(measured.years.max()))}
        bending: dict[str, Support] = {
            name: bounds.get(name) or getattr(priors, name) for name in bends
        }
        self._points = integration_points(
            {"sigma_horizon": priors.sigma_horizon, **bending},
            lambda points: self._regress(points, measured).log_evidence,
            log2_size=_LOG2_POINTS[shape],
            rng=np.random.default_rng(seed),
        )

    def log_evidence(self, chosen: BoolArray) -> float:
        """Return log p(m) of some of the agents."""
        seen = self.measured.part(chosen)
        parts = [
            self._regress(points, seen).log_evidence + points.log_weight
            for points in self._points.chunks()
        ]
        return float(logsumexp(np.concatenate(parts)) - logsumexp(self._points.log_weight))

    def leave_one_out(self) -> FloatArray:
        """Return log p(m_a | all others), shape (agent,)."""
        whole, without = [], []
        for points in self._points.chunks():
            found = self._regress(points, self.measured)
            alone = _log_normal(found.weighted_rest / found.precision, 1 / found.precision)
            weight = found.log_evidence + points.log_weight
            whole.append(weight)
            without.append(weight[:, None] - alone)
        total: FloatArray = logsumexp(np.concatenate(whole)) - logsumexp(
            np.concatenate(without), axis=0
        )
        return total

    def leave_future_out(self, first: int) -> tuple[IntArray, FloatArray]:
        """Predict each agent from those released before it, once these are `first` or more.

        Returns
        -------
        agents, log_density : ndarray
            Which agents could be predicted, and log p(m_a | all earlier ones).
        """
        years = self.measured.years
        earlier = np.array([(years < year).sum() for year in years])
        chosen = np.flatnonzero(earlier >= first)
        parts = [self._one_pass(points, earlier) for points in self._points.chunks()]
        known, density = (np.concatenate(part)[:, chosen] for part in zip(*parts, strict=True))
        return chosen, logsumexp(known + density, axis=0) - logsumexp(known, axis=0)

    def _one_pass(self, points: Points, earlier: IntArray) -> tuple[FloatArray, FloatArray]:
        """Go through the agents by date, each given the `earlier` ones.

        With L L' the covariance of the measured values in the order of their dates, and z = L^-1 r,
        an agent given the first p has the mean sum_{j <= p} L_j z_j and the variance
        sum_{j > p} L_j^2, over its own row of L.

        Returns
        -------
        known, density : ndarray, shape (point, agent)
            Log weight of each point, and the agent's log density, given the earlier agents.
        """
        seen, order = self.measured, np.argsort(self.measured.years, kind="stable")
        basis, offset = self._basis(points, seen.years[order])
        rest = seen.value[order] - offset - basis @ self._mu
        cov = (basis * self._sd**2) @ basis.transpose(0, 2, 1) + seen.cov[np.ix_(order, order)]
        places = np.arange(order.size)
        cov[:, places, places] += points.values["sigma_horizon"][:, None] ** 2
        root = np.linalg.cholesky(cov)
        white, known, density = np.zeros((3, *rest.shape))
        added = np.zeros((len(rest), order.size + 1))  # log density of the first agents
        for place, agent in enumerate(order):
            row, before = root[:, place], earlier[agent]
            mean = (row[:, :before] * white[:, :before]).sum(axis=1)
            variance = (row[:, before : place + 1] ** 2).sum(axis=1)
            known[:, agent] = points.log_weight + added[:, before]
            density[:, agent] = _log_normal(rest[:, place] - mean, variance)
            off = rest[:, place] - (row[:, :place] * white[:, :place]).sum(axis=1)
            white[:, place] = off / row[:, place]
            added[:, place + 1] = added[:, place] + _log_normal(off, row[:, place] ** 2)
        return known, density

    def draw(
        self, n_draws: int, rng: np.random.Generator, *, errors: FloatArray | None = None
    ) -> dict[str, FloatArray]:
        """Draw coefficients and sigma_horizon from the posterior, each of shape (draw,).

        Where tau has the mean t and the covariance P^-1 = (S_0^-1 + B' V^-1 B)^-1, a draw of it is
        t + P^-1 (S_0^-1 e_0 + B' V^-1 e) with e_0 ~ Normal(0, S_0) and e ~ Normal(0, V): e are an
        agent's scatter and its error. If the errors are those of the joint draws that m was
        measured by, each tau belongs to one of these draws.

        Parameters
        ----------
        errors : ndarray, shape (draw, agent), optional
            Draws of the errors of measurement; new ones where there are none.
        """
        parts = [self._regress(points, self.measured) for points in self._points.chunks()]
        weight = self._weights([part.log_evidence for part in parts])
        chosen = rng.choice(weight.size, n_draws, p=weight)
        values = {name: column[chosen] for name, column in self._points.values.items()}
        mean, cov, weighted = (
            np.concatenate([getattr(part, name) for part in parts])[chosen]
            for name in ("mean", "cov", "weighted_basis")
        )
        if errors is None:
            errors = rng.multivariate_normal(0 * self.measured.years, self.measured.cov, n_draws)
        own = errors + values["sigma_horizon"][:, None] * rng.normal(size=errors.shape)
        pull = rng.normal(size=mean.shape) / self._sd + np.einsum("dak,da->dk", weighted, own)
        linear = mean + np.einsum("dkl,dl->dk", cov, pull)
        return {**dict(zip(self.linear, linear.T, strict=True)), **values}

    def effective_points(self) -> float:
        """Return how many equally weighted points the posterior rests on."""
        parts = [self._regress(points, self.measured) for points in self._points.chunks()]
        return float(1 / (self._weights([part.log_evidence for part in parts]) ** 2).sum())

    def _weights(self, log_evidence: list[FloatArray]) -> FloatArray:
        log_weight = np.concatenate(log_evidence) + self._points.log_weight
        weight: FloatArray = np.exp(log_weight - log_weight.max())
        return weight / float(weight.sum())

    def _basis(self, points: Points, years: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what multiplies the linear coefficients (point, agent, k), and what is added."""
        size = (points.log_weight.size, years.size)
        bending = {name: values[:, None] for name, values in points.values.items()}
        columns, added = trend_columns(self.shape, bending, years)
        basis = [np.broadcast_to(column, size) for column in (1.0, *columns.values())]
        return np.stack(basis, axis=-1), np.broadcast_to(added, size)

    def _regress(self, points: Points, seen: Measured) -> _Regression:
        """Regress on what was seen, turned so that its errors are independent.

        sigma^2 I + Sigma = U (sigma^2 + lambda) U' for every sigma, so one turn by U serves all.
        """
        own, turn = np.linalg.eigh(seen.cov)
        variance = points.values["sigma_horizon"][:, None] ** 2 + np.maximum(own, 0.0)
        basis, offset = self._basis(points, seen.years)
        basis, rest = turn.T @ basis, (seen.value - offset) @ turn
        weighted = basis / variance[..., None]
        precision = np.diag(self._sd**-2) + np.einsum("pak,pal->pkl", weighted, basis)
        cov = np.linalg.inv(precision)
        pull = self._mu / self._sd**2 + np.einsum("pak,pa->pk", weighted, rest)
        mean = np.einsum("pkl,pl->pk", cov, pull)
        squares = (rest**2 / variance).sum(axis=1) + (self._mu**2 / self._sd**2).sum()
        logs = np.log(variance).sum(axis=1) + 2 * np.log(self._sd).sum()
        logs = logs + np.linalg.slogdet(precision).logabsdet
        squares = squares - np.einsum("pk,pk->p", pull, mean)
        # Rows of the inverse of m's covariance C = sigma^2 I + Sigma + B S_0 B'.
        left = rest - np.einsum("pak,pk->pa", basis, mean)
        back = turn @ weighted
        return _Regression(
            log_evidence=-0.5 * (squares + logs) - seen.years.size * _HALF_LOG_2PI,
            mean=mean,
            cov=cov,
            weighted_basis=back,
            weighted_rest=(left / variance) @ turn.T,
            precision=(1 / variance) @ (turn**2).T - np.einsum("pak,pkl,pal->pa", back, cov, back),
        )


def _log_normal(distance: FloatArray, variance: FloatArray) -> FloatArray:
    density: FloatArray = -0.5 * (distance**2 / variance + np.log(variance)) - _HALF_LOG_2PI
    return density


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


def integration_points(
    priors: Mapping[str, Support],
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


def _points_at(scores: FloatArray, priors: Mapping[str, Support], log_weight: FloatArray) -> Points:
    # A score of nine standard deviations would be the end of the prior, which may be infinite.
    places = np.clip(stats.norm.cdf(scores), 1e-15, 1 - 1e-15).T
    values = {
        name: prior_quantile(prior, place)
        for (name, prior), place in zip(priors.items(), places, strict=True)
    }
    return Points(values, log_weight)


def prior_quantile(prior: Support, place: FloatArray) -> FloatArray:
    """Return the values of a prior at places between 0 and 1."""
    if isinstance(prior, tuple):
        return prior[0] + (prior[1] - prior[0]) * place
    return prior.quantile(place)
