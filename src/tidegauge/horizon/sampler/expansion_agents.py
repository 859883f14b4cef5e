"""The agents' part of the coordinates' constants: priors expanded to second order, and links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tidegauge.arrays import BoolArray, FloatArray, IntArray
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.density.agents import trend_terms
from tidegauge.horizon.density.buffer import NOT_IN_TREND, Link
from tidegauge.horizon.model.observations import (
    group_index,
    groups_of,
    in_joint_prior,
    prior_length,
    trend_years,
)
from tidegauge.horizon.model.options import HorizonOptions, HorizonPriors
from tidegauge.horizon.model.parameters import Layout, Point, layout_of, prior_of
from tidegauge.horizon.model.trend_shapes import TREND_SHAPES

_VARIANCES = (1e-8, 1e4)  # of values as runs tell them: beyond, nothing changes but rounding
_FARTHEST = 6.0  # log2 minutes or logs: how far runs alone may lie from runs and prior together
_LEAST_KNOWN = 0.04  # precision of a logit by its runs: none at all would be no shape


class _Shared(NamedTuple):
    """A shared prior at the expansion point: its means, their derivatives, and its own prior."""

    mean: FloatArray
    basis: FloatArray
    prior_mean: FloatArray
    prior_sd: FloatArray
    is_bending: BoolArray  # by coefficient
    is_group: BoolArray
    sd: float


@dataclass(frozen=True)
class Pairs:
    """The agents' pairs (logit at pivot, s of the slope) at the expansion point.

    Attributes
    ----------
    pivot, steepness, logit : ndarray, shape (agent,)
    steepening : ndarray, shape (agent,)
        Derivative of -beta by s, where beta = -log(1 + exp(s)).
    """

    pivot: FloatArray
    steepness: FloatArray
    steepening: FloatArray
    logit: FloatArray

    @property
    def center(self) -> FloatArray:
        """All logits, then all s."""
        return np.concatenate([self.logit, self.steepness + np.log(self.steepening)])

    @property
    def horizon(self) -> FloatArray:
        """Log2 horizons."""
        return self.pivot + self.logit / self.steepness


def pairs_at(point: Point, pivot: FloatArray) -> Pairs:
    """Return the agents' pairs of a point."""
    steepening = np.maximum(-np.expm1(point.beta), 1e-12)
    return Pairs(pivot, -point.beta, steepening, point.alpha + point.beta * pivot)


def expand_agents(
    design: Design,
    priors: HorizonPriors,
    options: HorizonOptions,
    point: Point,
    pairs: Pairs,
    runs: FloatArray,
) -> dict[str, FloatArray | Link]:
    """Return the agents' constants by their names in `Expansion`.

    Parameters
    ----------
    runs : ndarray, shape (2 agents, 2 agents)
        Precision of the pairs from their runs, tasks integrated out.
    """
    n = pairs.pivot.size
    layout = layout_of(design, options)
    joint = np.flatnonzero(in_joint_prior(design, options))
    order = np.concatenate([joint, np.setdiff1d(np.arange(n), joint)]).astype(np.int64)
    slopes = _shared_slopes(design, priors, options, point)
    horizons = _shared_horizons(design, priors, options, point, layout, joint)
    levels = _own_levels(design, priors, options, pairs, joint)
    if horizons is not None:
        levels += _integrated(_by_horizon(pairs)[joint], horizons)
    by_log_slope = np.zeros((n, 2 * n))
    by_log_slope[np.arange(n), n + np.arange(n)] = pairs.steepening / pairs.steepness
    if slopes is not None:
        of_slopes = _integrated(by_log_slope, slopes)
    else:
        own = np.concatenate([np.zeros(n), (pairs.steepening / priors.beta.sd) ** 2])
        of_slopes = np.diag(own)
    places = np.concatenate([order, np.arange(n, 2 * n)])
    root = sequential(runs + levels + of_slopes, places)
    center, location = pairs.center, np.empty(0)
    slope_link, horizon_link = _NO_LINK, _NO_LINK
    if horizons is not None:
        told = runs.copy()
        told[joint, joint] += _LEAST_KNOWN
        rest = places[joint.size :]
        given = np.linalg.inv(told[np.ix_(joint, joint)])
        root[: joint.size] = 0
        root[: joint.size, joint.size :] = -given @ told[np.ix_(joint, rest)]
        steep = pairs.steepness[joint]
        horizon_link, y = _link(given / np.outer(steep, steep), pairs.horizon[joint], horizons)
        center[joint] = steep * (y - pairs.pivot[joint])
    if slopes is not None:
        told = by_log_slope @ np.linalg.pinv(runs + levels, hermitian=True) @ by_log_slope.T
        slope_link, location = _link(told, np.log(pairs.steepness), slopes)
    return {
        "pivot": pairs.pivot,
        "order": order.astype(float),
        "center": center,
        "root": root,
        "slope_location": location,
        "slopes": slope_link,
        "horizons": horizon_link,
    }


_NO_LINK = Link(np.empty((0, 0)), np.empty(0), np.empty(0), np.empty(0))


def _own_levels(
    design: Design,
    priors: HorizonPriors,
    options: HorizonOptions,
    pairs: Pairs,
    joint: IntArray,
) -> FloatArray:
    """Return the precision of the pairs from priors of the agents' own logits."""
    n = pairs.pivot.size
    agents = np.arange(n)
    # The logit at the prior's length m is logit - steepness (m - pivot).
    at_length = np.zeros((n, 2 * n))
    at_length[agents, agents] = 1
    at_length[agents, n + agents] = pairs.steepening * (pairs.pivot - prior_length(design, options))
    own = ~np.isin(agents, joint)
    precision: FloatArray = (at_length.T * np.where(own, priors.alpha.sd**-2, 0)) @ at_length
    return precision


def _by_horizon(pairs: Pairs) -> FloatArray:
    """Return the derivatives (agent, pair) of the log2 horizons."""
    n = pairs.pivot.size
    agents = np.arange(n)
    by = np.zeros((n, 2 * n))
    by[agents, agents] = 1 / pairs.steepness
    by[agents, n + agents] = -pairs.logit * pairs.steepening / pairs.steepness**2
    return by


def _integrated(by_pairs: FloatArray, shared: _Shared) -> FloatArray:
    """Return the precision of the pairs from a shared prior, its coefficients integrated out."""
    covariance = (shared.basis * shared.prior_sd**2) @ shared.basis.T
    covariance[np.diag_indices_from(covariance)] += shared.sd**2
    precision: FloatArray = by_pairs.T @ np.linalg.solve(covariance, by_pairs)
    return precision


def _link(covariance: FloatArray, values: FloatArray, shared: _Shared) -> tuple[Link, FloatArray]:
    """Return the link of values, and where their runs alone would have them.

    Runs and prior together have put the values where they are: by so much as the prior pulls,
    runs alone lie on the other side.
    """
    variance, rotation = np.linalg.eigh((covariance + covariance.T) / 2)
    variance = np.clip(variance, *_VARIANCES)
    pull = rotation.T @ (values - shared.mean) * variance / shared.sd**2
    location = values + rotation @ np.clip(pull, -_FARTHEST, _FARTHEST)
    precision = np.where(shared.is_group, 0.0, shared.prior_sd**-2.0)[~shared.is_bending]
    return Link(rotation, variance, shared.prior_mean[~shared.is_bending], precision), location


def _shared_slopes(
    design: Design,
    priors: HorizonPriors,
    options: HorizonOptions,
    point: Point,
) -> _Shared | None:
    if point.sigma_slope is None:
        return None
    n = len(design.agents)
    mean, sd = np.full(n, float(np.asarray(point.mu_slope))), float(point.sigma_slope)
    return _with_groups(
        _of_terms(("mu_slope",), (), mean, np.ones((n, 1)), priors, sd),
        design,
        options,
        np.arange(n),
        point.group_slope,
        point.sigma_group_slope,
    )


def _shared_horizons(
    design: Design,
    priors: HorizonPriors,
    options: HorizonOptions,
    point: Point,
    layout: Layout,
    joint: IntArray,
) -> _Shared | None:
    if point.sigma_horizon is None:
        return None
    shape = TREND_SHAPES[options.trend]
    years = trend_years(design, options)[joint]
    basis, mean = np.zeros((joint.size, 4)), np.zeros(joint.size)
    terms = np.array([_unconstrained(name, point, layout) for name in shape.coefficients])
    ends = layout.first_year, layout.last_year
    for i, year in enumerate(np.where(np.isnan(years), NOT_IN_TREND, years)):
        mean[i] = trend_terms(shape.code, terms, year, *ends, basis[i])
    basis, sd = basis[:, : terms.size], float(point.sigma_horizon)
    return _with_groups(
        _of_terms(shape.coefficients, shape.bending, mean, basis, priors, sd),
        design,
        options,
        joint,
        point.group_horizon,
        point.sigma_group_horizon,
    )


def _of_terms(
    terms: tuple[str, ...],
    bending: tuple[str, ...],
    mean: FloatArray,
    basis: FloatArray,
    priors: HorizonPriors,
    sd: float,
) -> _Shared:
    return _Shared(
        mean=mean,
        basis=basis,
        prior_mean=np.array([prior_of(name, priors).mu for name in terms]),
        prior_sd=np.array([prior_of(name, priors).sd for name in terms]),
        is_bending=np.array([name in bending for name in terms]),
        is_group=np.zeros(len(terms), dtype=bool),
        sd=sd,
    )


def _with_groups(
    shared: _Shared,
    design: Design,
    options: HorizonOptions,
    agents: IntArray,
    levels: FloatArray | None,
    sd: FloatArray | None,
) -> _Shared:
    """Add the groups' levels to the coefficients."""
    if levels is None or sd is None:
        return shared
    n_groups = len(groups_of(design, options))
    member = group_index(design, options)[agents, None] == np.arange(n_groups)
    return shared._replace(
        mean=shared.mean + member @ levels,
        basis=np.concatenate([shared.basis, member.astype(float)], axis=1),
        prior_mean=np.concatenate([shared.prior_mean, np.zeros(n_groups)]),
        prior_sd=np.concatenate([shared.prior_sd, np.full(n_groups, float(sd))]),
        is_bending=np.concatenate([shared.is_bending, np.zeros(n_groups, dtype=bool)]),
        is_group=np.concatenate([shared.is_group, np.ones(n_groups, dtype=bool)]),
    )


def _unconstrained(name: str, point: Point, layout: Layout) -> float:
    value = float(getattr(point, name))
    if name != "trend_kink":
        return value
    first, last = layout.first_year, layout.last_year
    share = np.clip((value - first) / max(last - first, 1e-9), 1e-6, 1 - 1e-6)
    return float(np.log(share / (1 - share)))


def sequential(precision: FloatArray, places: IntArray) -> FloatArray:
    """Return how each follows those after it in `places`, and on the diagonal its sd given them.

    With T upper triangular and T'T the precision, x_i given those after it has the mean
    -sum_{j > i} T_ij x_j / T_ii and the sd 1 / T_ii. Rounding cannot make it fail.
    """
    ordered = precision[np.ix_(places, places)]
    scale = 1 / np.sqrt(np.diag(ordered))
    scaled = ordered * scale * scale[:, None]
    values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
    positive = vectors * np.maximum(values, 1e-10) @ vectors.T
    root = np.linalg.cholesky((positive + positive.T) / 2 + 1e-12 * np.eye(scale.size))
    upper = root.T / scale
    sd = 1 / np.diag(upper)
    follows: FloatArray = -upper * sd[:, None]
    follows[np.diag_indices_from(follows)] = sd
    return follows
