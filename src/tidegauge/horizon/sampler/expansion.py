"""The reference that shapes the whitened coordinates: a second-order look at the data.

It is computed twice per fit, from a ridge regression and from a pilot run; a poor one costs
speed, never correctness.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.linalg import splu
from scipy.special import expit

from tidegauge.arrays import FloatArray
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.model.observations import scored_successes, source_index
from tidegauge.horizon.model.options import HorizonOptions, HorizonPriors
from tidegauge.horizon.model.parameters import MU_FAMILY, MU_SLOPE, Point, layout_of, unpack
from tidegauge.horizon.sampler.expansion_agents import (
    AgentPriors,
    agent_priors_at,
    horizons_told,
    inverse_root,
)
from tidegauge.horizon.sampler.expansion_human import human_moments

_LONGEST_STEP = 2.0  # of one Newton step, log2 minutes or logits: it is only a shape
_LEAST = 1e-9  # precision, in place of none
_SCALES = (1e-3, 1e3)  # log2 minutes or logits: beyond, a shape would gain nothing but rounding


@dataclass(frozen=True)
class Reference:
    """The point that shapes the coordinates; an agent's pair is (logit at pivot, s of its slope).

    Attributes
    ----------
    x : ndarray
        The point, unconstrained.
    rows : ndarray, shape (5, task)
        Number and mean of human logs as the noise weighs them; precision of the residual's prior;
        precision and location of the log discrimination.
    pivot : ndarray, shape (agent,)
        Difficulty at which an agent's runs are informative, log2 minutes.
    center : ndarray, shape (2 agents,)
        The pairs at the reference: all logits, then all s.
    told : ndarray, shape (2, task, agent)
        Weights of the agents' logits, and weights times logits, as for least squares.
    spread : ndarray, shape (2 agents, 2 agents)
        Square root of the pairs' marginal covariance, upper triangular.
    shared : ndarray, shape (shared,)
        What agents share (mean slope, terms of the trend) at the reference; `shared_pull`
        (shared, 2 agents) how it moves with the agents' pairs, `shared_spread` the square root of
        its covariance given them, upper triangular.
    horizons : ndarray, shape (6, agent)
        Location and variance of each logit as the runs tell it (0 for an agent whose prior is
        its own), the log2 horizon of the trend, the logit's mean and sd by both, and the order
        in which agents follow each other.
    """

    x: FloatArray
    rows: FloatArray
    pivot: FloatArray
    center: FloatArray
    told: FloatArray
    spread: FloatArray
    shared: FloatArray
    shared_pull: FloatArray
    shared_spread: FloatArray
    horizons: FloatArray

    def arrays(self) -> list[FloatArray]:
        """Return all that the compiled functions need, flat, in their order."""
        agents = (self.pivot, self.center, self.told, self.spread)
        shared = (self.shared, self.shared_pull, self.shared_spread)
        return [np.ravel(part) for part in (self.rows, *agents, *shared, self.horizons)]


@dataclass(frozen=True)
class _Curvature:
    """Second-order terms of the agents' runs at the reference.

    Per task: of length and length (`length`), residual and residual (`residual`), both (`both`);
    the residuals' and lengths' slopes; `told` (3, task, agent) the logits' weights, weights times
    logits and slopes; `cross` (2, task, pair) with the agents' pairs. Of those:
    `runs` what their runs say, given the tasks, and `own` with their priors.
    """

    length: FloatArray
    residual: FloatArray
    both: FloatArray
    length_slope: FloatArray
    residual_slope: FloatArray
    told: FloatArray
    cross: FloatArray
    runs: FloatArray
    own: FloatArray
    sharpness: FloatArray
    sharpness_slope: FloatArray


def reference_at(
    design: Design, priors: HorizonPriors, options: HorizonOptions, x: FloatArray
) -> Reference:
    """Expand the likelihood to second order about a point of the unconstrained vector."""
    layout = layout_of(design, options)
    point = _moderate(unpack(x, layout))
    n_tasks = len(design.tasks)
    residual = np.zeros(n_tasks) if point.residual is None else point.residual
    seen, agents = _look_at_runs(design, priors, options, point, residual)
    human_count, human_mean = human_moments(design, options, point)
    tau = 1 / _residual_variance(point) if options.has_residual else 1.0
    # One Newton step from the reference, for each task the same share of it, so that it is short.
    share = seen.both / (seen.residual + tau)
    steps = [
        _step(
            seen.length_slope - share * (seen.residual_slope - tau * residual),
            seen.length - share * seen.both,
        ),
        _step(seen.residual_slope, seen.residual),
    ]
    calm = np.minimum(
        1.0,
        _LONGEST_STEP / np.maximum(_LEAST, np.abs(steps[: 1 + options.has_residual]).max(axis=0)),
    )
    rows = np.stack(
        [
            human_count,
            human_mean,
            np.full(n_tasks, tau),
            seen.sharpness,
            (0 if point.log_discrimination is None else point.log_discrimination)
            + np.clip(_step(seen.sharpness_slope, seen.sharpness), -_LONGEST_STEP, _LONGEST_STEP),
        ]
    )
    told = np.stack([seen.told[0], seen.told[1] + calm[:, None] * seen.told[2]])
    shared = slice(layout.starts[MU_SLOPE], layout.starts[MU_FAMILY])
    explained = _explained(design, priors, options, point, seen, human_count)
    horizons, moved = horizons_told(design, options, point, agents, seen.runs - explained)
    marginal = moved.T @ (seen.own - explained) @ moved
    return Reference(
        x=x,
        rows=rows,
        pivot=agents.pivot,
        center=agents.center,
        told=told,
        spread=inverse_root(marginal),
        shared=x[shared],
        shared_pull=agents.shared_pull @ moved,
        shared_spread=agents.shared_spread,
        horizons=horizons,
    )


def _moderate(point: Point) -> Point:
    """Keep scales from vanishing, as one that the data do not bound from below may."""
    parts = point.present()
    scales = {name: np.clip(parts[name], *_SCALES) for name in parts if name.startswith("sigma_")}
    return replace(point, **scales)


def _residual_variance(point: Point) -> float:
    total = 0.0
    for scale in (point.sigma_residual_family, point.sigma_residual_task):
        total += 0.0 if scale is None else float(scale) ** 2
    return total


def _step(slope: FloatArray, precision: FloatArray) -> FloatArray:
    return slope / np.maximum(precision, _LEAST)


def _look_at_runs(
    design: Design,
    priors: HorizonPriors,
    options: HorizonOptions,
    point: Point,
    residual: FloatArray,
) -> tuple[_Curvature, AgentPriors]:
    """Return the second-order terms of the agents' runs and of their priors."""
    mu_task, slope = point.mu_task, point.beta[:, None]
    sharp = np.ones(mu_task.size)
    if point.log_discrimination is not None:
        sharp = np.exp(point.log_discrimination)
    eta = sharp * (point.alpha[:, None] + slope * mu_task + residual)
    win = expit(eta)
    weight = design.attempts * win * (1 - win)
    left = scored_successes(design, options) - design.attempts * win
    told = weight * sharp**2
    total = told.sum(axis=1)
    typical = np.full(total.size, mu_task.mean())
    pivot = np.divide(told @ mu_task, total, out=typical, where=total > _LEAST)
    agents = agent_priors_at(design, priors, options, point, pivot)
    # Derivative of a logit by s.
    by_s = -agents.steepening[:, None] * (mu_task - pivot[:, None])
    runs = _run_precision(told, by_s)
    pairs = np.concatenate([told, told * by_s]).T
    sloped = np.concatenate([told * slope, told * slope * by_s]).T
    seen = _Curvature(
        length=(told * slope**2).sum(axis=0),
        residual=told.sum(axis=0) * options.has_residual,
        both=(told * slope).sum(axis=0) * options.has_residual,
        length_slope=(slope * sharp * left).sum(axis=0),
        residual_slope=(sharp * left).sum(axis=0),
        told=np.stack([told.T, (told * eta / sharp).T, (sharp * left).T]),
        cross=np.stack([sloped, pairs * options.has_residual]),
        runs=runs,
        own=agents.precision + runs,
        sharpness=(weight * eta**2).sum(axis=0),
        sharpness_slope=(left * eta).sum(axis=0),
    )
    return seen, agents


def _run_precision(told: FloatArray, by_s: FloatArray) -> FloatArray:
    """Return what the runs say of the agents' pairs, given the tasks."""
    n = told.shape[0]
    precision = np.zeros((2 * n, 2 * n))
    at, s = np.arange(n), np.arange(n, 2 * n)
    precision[at, at] = told.sum(axis=1)
    precision[at, s] = precision[s, at] = (told * by_s).sum(axis=1)
    precision[s, s] = (told * by_s**2).sum(axis=1) + 0.1  # never flat, however flat the curve
    return precision


def _explained(
    design: Design,
    priors: HorizonPriors,
    options: HorizonOptions,
    point: Point,
    seen: _Curvature,
    human_count: FloatArray,
) -> FloatArray:
    """Return what the agents' pairs lose of their precision because the tasks are unknown.

    The tasks' own precision is a tree: families in a root, tasks in families, each task's length
    and residual tied by the runs. It is sparse, and so is its factor.
    """
    n_tasks, n_families = len(design.tasks), len(design.families)
    family, task = 1 + design.task_family, 1 + n_families + np.arange(n_tasks)
    of_global, of_family = float(point.sigma_global) ** -2, float(point.sigma_family) ** -2
    sigma = np.asarray(point.sigma_human)
    sigma = sigma[source_index(design, options)] if sigma.ndim else sigma
    estimates = np.bincount(design.estimate_task, minlength=n_tasks)
    data = human_count * sigma**-2 + estimates * float(point.sigma_estimate) ** -2
    ones_f, ones_t = np.ones(n_families), np.ones(n_tasks)
    families = 1 + np.arange(n_families)
    root = np.zeros(n_families, dtype=np.int64)
    entries: list[tuple[Any, ...]] = [
        ([0], [0], [priors.mu_global.sd**-2 + n_families * of_global]),
        (families, families, of_global * ones_f),
        (families, root, -of_global * ones_f),
        (root, families, -of_global * ones_f),
        (family, family, of_family * ones_t),
        (family, task, -of_family * ones_t),
        (task, family, -of_family * ones_t),
        (task, task, of_family + data + seen.length),
    ]
    size = 1 + n_families + n_tasks
    cross = np.zeros((size, seen.own.shape[0]))
    cross[task] = seen.cross[0]
    if options.has_residual:
        rest, entries_of_rest, size = _residual_entries(design, point, seen, task, size)
        entries += entries_of_rest
        cross = np.concatenate([cross, np.zeros((size - cross.shape[0], cross.shape[1]))])
        cross[rest] = seen.cross[1]
    i, j, value = (np.concatenate([np.asarray(entry[k]) for entry in entries]) for k in range(3))
    precision = coo_array((value, (i, j)), shape=(size, size)).tocsc()
    explained: FloatArray = cross.T @ splu(precision).solve(cross)
    return explained


def _residual_entries(
    design: Design, point: Point, seen: _Curvature, task: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int64], list[tuple[Any, ...]], int]:
    """Return the residuals' places, their entries of the tasks' precision, and its new size."""
    n_tasks = task.size
    rest = size + np.arange(n_tasks, dtype=np.int64)
    size += n_tasks
    assert point.sigma_residual_task is not None
    of_task = float(point.sigma_residual_task) ** -2
    entries: list[tuple[Any, ...]] = [
        (rest, rest, of_task + seen.residual),
        (rest, task, seen.both),
        (task, rest, seen.both),
    ]
    if point.sigma_residual_family is not None:
        of_family = float(point.sigma_residual_family) ** -2
        family = size + design.task_family
        families = size + np.arange(len(design.families))
        size += len(design.families)
        ones = np.ones(n_tasks)
        entries += [
            (families, families, of_family * np.ones(families.size)),
            (family, family, of_task * ones),
            (rest, family, -of_task * ones),
            (family, rest, -of_task * ones),
        ]
    return rest, entries, size
