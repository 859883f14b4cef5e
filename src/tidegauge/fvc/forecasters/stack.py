"""Blends of calibrated forecasters: sorted draws averaged, weights learnt on unseen patients.

Averaging sorted draws averages quantiles: the blend of sharp forecasts stays sharp, where pooling
their draws would widen it. A single forecaster is a blend with one weight of 1.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from tidegauge.arrays import FloatArray, IntArray
from tidegauge.fvc.data.cohort import Baselines, Questions
from tidegauge.fvc.forecasters import Fitted
from tidegauge.fvc.recalibration import Calibration
from tidegauge.scores import ERROR_CAP_ML, laplace_log_likelihood

POSSIBLE_FVC_ML = (100.0, 9_900.0)
_STEPS = 4  # weights in quarters: finer ones could not be told apart
_PULL_TO_EQUAL = 0.01  # score lost per squared distance from equal weights


@dataclass(frozen=True, slots=True)
class Member:
    """One fitted forecaster with its recalibration.

    Attributes
    ----------
    name : str
    fitted : Fitted
    calibration : Calibration
        Of forecasts from the first visit.
    by_visits : tuple of Calibration
        Of forecasts from the first two visits, three, ...; empty where only one can be used.
    """

    name: str
    fitted: Fitted
    calibration: Calibration
    by_visits: tuple[Calibration, ...] = ()

    def forecast(self, baselines: Baselines, questions: Questions) -> FloatArray:
        """Return recalibrated draws."""
        draws = self.fitted.forecast(baselines, questions)
        return self.calibration.apply(draws, baselines, questions)


@dataclass(frozen=True, slots=True)
class Blend:
    """Members and their weights, which sum to 1."""

    members: tuple[Member, ...]
    weights: tuple[float, ...]

    def forecast(self, baselines: Baselines, questions: Questions) -> FloatArray:
        """Return the weighted mean of the members' sorted draws, within what a lung can hold."""
        draws = [member.forecast(baselines, questions) for member in self.members]
        least, most = POSSIBLE_FVC_ML
        return np.clip(blend_draws(draws, self.weights), least, most)


def blend_draws(draws: list[FloatArray], weights: tuple[float, ...]) -> FloatArray:
    """Return the weighted mean of sorted draws."""
    pairs = zip(draws, weights, strict=True)
    total: FloatArray = np.sum([weight * values for values, weight in pairs if weight > 0], axis=0)
    return total


@dataclass(frozen=True, slots=True)
class StackFit:
    """Weights, and what each scored visit gets when its own patient did not vote on them."""

    weights: tuple[float, ...]
    unseen_draws: FloatArray


def fit_stack(draws: list[FloatArray], true_ml: FloatArray, fold: IntArray) -> StackFit:
    """Learn weights on out-of-fold draws.

    Parameters
    ----------
    draws : list of ndarray of shape (visits, DRAWS)
        Calibrated out-of-fold draws, one array a member.
    fold : ndarray of int
        Each visit's fold; visits of one patient share it. The weights behind `unseen_draws` of a
        fold are learnt on the others.
    """
    choices = _simplex(len(draws))
    scores = np.stack([_plug_in_score(blend_draws(draws, w), true_ml) for w in choices])
    pull = np.array([_PULL_TO_EQUAL * sum((x - 1 / len(w)) ** 2 for x in w) for w in choices])
    unseen = np.empty_like(draws[0])
    for k in np.unique(fold):
        others = fold != k
        means = scores[:, others].mean(axis=1) if others.any() else np.zeros(len(choices))
        held = np.flatnonzero(fold == k)
        best = choices[int(np.argmax(means - pull))]
        unseen[held] = blend_draws([values[held] for values in draws], best)
    return StackFit(choices[int(np.argmax(scores.mean(axis=1) - pull))], unseen)


def _simplex(n: int) -> list[tuple[float, ...]]:
    cuts = itertools.combinations(range(_STEPS + n - 1), n - 1)
    edges = ([-1, *cut, _STEPS + n - 1] for cut in cuts)
    return [tuple((b - a - 1) / _STEPS for a, b in itertools.pairwise(e)) for e in edges]


def _plug_in_score(draws: FloatArray, true_ml: FloatArray) -> FloatArray:
    """Score medians and mean deviations: close to the exact decision, and quick to compare by."""
    median = np.median(draws, axis=1)
    spread = np.minimum(np.abs(draws - median[:, None]), ERROR_CAP_ML).mean(axis=1)
    return laplace_log_likelihood(true_ml, median, np.sqrt(2.0) * spread)
