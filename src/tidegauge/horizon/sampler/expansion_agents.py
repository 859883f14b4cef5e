"""What the priors say of the agents at a reference point, to second order.

An agent's prior is its own, or shared: then its log2 horizon lies about a trend and its log slope
about a mean, whose terms are unknown too. Given the agents those terms are nearly Gaussian, so
they are told from the agents and summed out of the agents' own precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from tidegauge.arrays import FloatArray
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.density.agents import trend_terms
from tidegauge.horizon.density.buffer import (
    NOT_IN_TREND,
)
from tidegauge.horizon.model.observations import group_index, in_joint_prior, trend_years
from tidegauge.horizon.model.options import HorizonOptions, HorizonPriors
from tidegauge.horizon.model.parameters import (
    BLOCKS,
    MU_FAMILY,
    TREND_LEVEL,
    Layout,
    Point,
    layout_of,
    prior_of,
)
from tidegauge.horizon.model.trend_shapes import TREND_SHAPES


@dataclass(frozen=True)
class AgentPriors:
    """Priors of the agents' pairs (logit at pivot, s of the slope), and what they share.

    Attributes
    ----------
    precision : ndarray, shape (2 agents, 2 agents)
        Of the pairs, with what they share summed out.
    steepening : ndarray, shape (agent,)
        Derivative of -beta by s, where beta = -log(1 + exp(s)).
    pivot, center, shared_pull, shared_spread
        As in `Reference`.
    joint, trend : ndarray, shape (agent,)
        Whose horizon has the shared prior, and where that lies.
    horizon : ndarray, shape (agent, 2 agents)
        Derivative of the log2 horizons by the pairs.
    """

    precision: FloatArray
    pivot: FloatArray
    center: FloatArray
    steepening: FloatArray
    shared_pull: FloatArray
    shared_spread: FloatArray
    joint: NDArray[np.bool_]
    trend: FloatArray
    horizon: FloatArray


def agent_priors_at(
    design: Design, priors: HorizonPriors, options: HorizonOptions, point: Point, pivot: FloatArray
) -> AgentPriors:
    """Expand the priors of the agents about a point."""
    n, steep = pivot.size, -point.beta
    steepening = -np.expm1(point.beta)
    logit = point.alpha + point.beta * pivot
    joint = in_joint_prior(design, options)
    precision = np.zeros((2 * n, 2 * n))
    # Its own prior: of alpha = logit - beta * pivot, and of beta.
    alone = np.zeros((n, 2 * n))
    alone[np.arange(n), np.arange(n)] = 1
    alone[np.arange(n), n + np.arange(n)] = steepening * pivot
    precision += (alone.T * np.where(joint, 0, priors.alpha.sd**-2)) @ alone
    pooled = point.sigma_slope is not None
    if not pooled:
        slopes = np.arange(n, 2 * n)
        precision[slopes, slopes] += (steepening / priors.beta.sd) ** 2
    by_shared = _shared_design(design, priors, options, point)
    shared = np.diag(by_shared.prior_precision)
    cross = np.zeros((shared.shape[0], 2 * n))
    # The log2 horizon is pivot + logit / steepness.
    horizon = np.zeros((n, 2 * n))
    horizon[np.arange(n), np.arange(n)] = 1 / steep
    horizon[np.arange(n), n + np.arange(n)] = -logit * steepening / steep**2
    if point.sigma_horizon is not None:
        told = _among(design, options, joint, point.sigma_horizon, point.sigma_group_horizon)
        precision += horizon.T @ told @ horizon
        shared += by_shared.horizon.T @ told @ by_shared.horizon
        cross -= by_shared.horizon.T @ told @ horizon
    if point.sigma_slope is not None:
        log_slope = np.zeros((n, 2 * n))
        log_slope[np.arange(n), n + np.arange(n)] = steepening / steep
        told = _among(design, options, joint, point.sigma_slope, point.sigma_group_slope)
        precision += log_slope.T @ told @ log_slope
        shared += by_shared.slope.T @ told @ by_shared.slope
        cross -= by_shared.slope.T @ told @ log_slope
    pull = np.asarray(-np.linalg.solve(shared, cross) if shared.size else cross, dtype=np.float64)
    return AgentPriors(
        precision=precision + cross.T @ pull,
        pivot=pivot,
        center=np.concatenate([logit, steep + np.log(steepening)]),
        steepening=steepening,
        shared_pull=pull,
        shared_spread=inverse_root(shared) if shared.size else shared,
        joint=joint,
        trend=by_shared.trend,
        horizon=horizon,
    )


def horizons_told(
    design: Design, options: HorizonOptions, point: Point, agents: AgentPriors, told: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return `Reference.horizons`, and how the agents' pairs move with those before they followed.

    Parameters
    ----------
    told : ndarray, shape (2 agents, 2 agents)
        Precision of the agents' pairs from their runs, tasks summed out.

    Returns
    -------
    horizons : ndarray, shape (6, agent)
    moved : ndarray, shape (2 agents, 2 agents)
        Derivative of the pairs by the pairs before each followed the earlier ones of its group.
    """
    n = agents.pivot.size
    found, moved = np.zeros((6, n)), np.eye(2 * n)
    if point.sigma_horizon is None:
        return found, moved
    steep, logit = -point.beta, agents.center[:n]
    variance = np.clip(1 / np.maximum(np.diag(told)[:n], 1e-9), 1e-6, 25.0)
    order = np.argsort(variance / steep**2, kind="stable")
    group = group_index(design, options)
    distance = agents.pivot + logit / steep - agents.trend
    own, among = float(point.sigma_horizon) ** 2, float(point.sigma_group_horizon or 0.0) ** 2
    found[5] = order
    for k, a in enumerate(order):
        if not agents.joint[a]:
            continue
        earlier = order[:k][agents.joint[order[:k]] & (group[order[:k]] == group[a])]
        level_share = among / (earlier.size * among + own)
        spread = steep[a] ** 2 * own * (1 + level_share)
        share = max(spread / (spread + variance[a]), 1e-3)
        # The posterior lies between what the runs say and what the prior expects.
        expected = agents.trend[a] + level_share * distance[earlier].sum()
        prior = steep[a] * (expected - agents.pivot[a])
        location = np.clip(prior + (logit[a] - prior) / share, logit[a] - 5, logit[a] + 5)
        mean = share * location + (1 - share) * prior
        sd = np.sqrt(share * variance[a])
        found[:5, a] = location, variance[a], agents.trend[a], mean, sd
        follows = (1 - share) * steep[a] * level_share
        moved[a] += follows * (agents.horizon[earlier] @ moved).sum(axis=0)
    return found, moved


@dataclass(frozen=True)
class _SharedDesign:
    """How each agent's expected log2 horizon and log slope move with what agents share."""

    horizon: FloatArray
    slope: FloatArray
    prior_precision: FloatArray
    trend: FloatArray


def _shared_design(
    design: Design, priors: HorizonPriors, options: HorizonOptions, point: Point
) -> _SharedDesign:
    layout, n = layout_of(design, options), len(design.agents)
    names = [
        name
        for block, name in enumerate(BLOCKS[:MU_FAMILY])
        if layout.has(block) and (name == "mu_slope" or block >= TREND_LEVEL)
    ]
    horizon, slope = np.zeros((n, len(names))), np.zeros((n, len(names)))
    if "mu_slope" in names:
        slope[:, 0] = 1
    first = len(names) - sum(name.startswith("trend_") for name in names)
    terms = np.array([_unconstrained(name, point, layout) for name in names[first:]])
    trend = np.zeros(n)
    if terms.size:
        years = trend_years(design, options)
        for a, year in enumerate(np.where(np.isnan(years), NOT_IN_TREND, years)):
            slopes = np.zeros(4)
            kind = TREND_SHAPES[options.trend].code
            ends = layout.first_year, layout.last_year
            trend[a] = trend_terms(kind, terms, year, *ends, slopes)
            horizon[a, first:] = slopes[: terms.size]
    sds = [prior_of(name, priors).sd for name in names]
    return _SharedDesign(horizon, slope, np.array(sds) ** -2.0, trend)


def _unconstrained(name: str, point: Point, layout: Layout) -> float:
    value = float(getattr(point, name))
    if name != "trend_kink":
        return value
    first, last = layout.first_year, layout.last_year
    share = np.clip((value - first) / max(last - first, 1e-9), 1e-6, 1 - 1e-6)
    return float(np.log(share / (1 - share)))


def _among(
    design: Design,
    options: HorizonOptions,
    joint: NDArray[np.bool_],
    scale: FloatArray,
    group_scale: FloatArray | None,
) -> FloatArray:
    """Return the precision of agents about what they share, levels of groups summed out."""
    n = joint.size
    covariance = float(scale) ** 2 * np.eye(n)
    if group_scale is not None:
        group = group_index(design, options)
        covariance += float(group_scale) ** 2 * (group[:, None] == group)
    precision = np.zeros((n, n))
    precision[np.ix_(joint, joint)] = np.linalg.inv(covariance[np.ix_(joint, joint)])
    return precision


def inverse_root(precision: FloatArray) -> FloatArray:
    """Return an upper triangular R with R R' = inverse; rounding cannot make it fail."""
    scale = 1 / np.sqrt(np.diag(precision))
    scaled = precision * scale * scale[:, None]
    values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
    positive = vectors * np.maximum(values, 1e-10) @ vectors.T
    root = np.linalg.cholesky((positive + positive.T) / 2 + 1e-12 * np.eye(scale.size))
    inverse: FloatArray = solve_triangular(root, np.eye(scale.size), lower=True).T * scale[:, None]
    return inverse
