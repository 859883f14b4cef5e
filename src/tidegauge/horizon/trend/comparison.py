"""Shapes of the trend side by side: each fitted jointly, scored on unseen agents, and stacked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tidegauge.arrays import FloatArray
from tidegauge.engine.config import SamplerConfig
from tidegauge.errors import InputError
from tidegauge.horizon.analysis import AnalysisOptions, read_design
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.data.filters import RowFilter
from tidegauge.horizon.model.options import (
    CORE,
    DEFAULT_PRIORS,
    DEFAULT_SAMPLER,
    HorizonOptions,
    HorizonPriors,
)
from tidegauge.horizon.model.trend_shapes import SHAPES
from tidegauge.horizon.trend.draws import Trend, trend_of_fit
from tidegauge.horizon.trend.frontier import NO_FACTS, AgentFacts
from tidegauge.horizon.trend.prediction import Measured, TrendModel, measured_horizons
from tidegauge.progress import SILENT, Progress

if TYPE_CHECKING:
    from tidegauge.horizon.sampler.fit import HorizonFit


FEWEST_EARLIER = 4  # agents, before the next ones are predicted from them
_STACKING_ROUNDS = 5000
_NO_WEIGHT = 1e-6  # what the rounds have not yet brought to zero
_BOOTSTRAPS = 4000


@dataclass(frozen=True)
class ShapeScores:
    """How well each shape predicts measured horizons.

    Attributes
    ----------
    leave_one_out : ndarray, shape (shape, agent)
        Log density of each agent's measured log2 T50, given all other agents.
    future : ndarray of int, shape (predicted,)
        Agents with at least FEWEST_EARLIER released before them.
    leave_future_out : ndarray, shape (shape, predicted)
        Log density of theirs, given only the agents released before them.
    weights : ndarray, shape (shape,)
        Stacking weights of the shapes, by `leave_one_out`.
    """

    shapes: tuple[str, ...]
    measured: Measured
    leave_one_out: FloatArray
    future: NDArray[np.int64]
    leave_future_out: FloatArray
    weights: FloatArray


def score_shapes(
    measured: Measured,
    *,
    shapes: Sequence[str] = SHAPES,
    priors: HorizonPriors = DEFAULT_PRIORS,
    seed: int = 1,
) -> ShapeScores:
    """Predict every agent's measured horizon from the others', by every shape; and stack them."""
    models = [TrendModel(shape, measured, priors=priors, seed=seed) for shape in shapes]
    leave_one_out = np.array([model.leave_one_out() for model in models])
    futures = [model.leave_future_out(FEWEST_EARLIER) for model in models]
    return ShapeScores(
        shapes=tuple(shapes),
        measured=measured,
        leave_one_out=leave_one_out,
        future=futures[0][0],
        leave_future_out=np.array([scores for _, scores in futures]),
        weights=stacking_weights(leave_one_out),
    )


def stacking_weights(log_density: FloatArray) -> FloatArray:
    """Return the weights (shape,) whose mixture has the highest summed log density (shape, agent).

    The objective is concave; each round of expectation-maximisation raises it.
    """
    density = np.exp(log_density - log_density.max(axis=0))
    weights = np.full(len(density), 1 / len(density))
    for _ in range(_STACKING_ROUNDS):
        weights = weights * (density / (weights @ density)).mean(axis=1)
    weights = np.where(weights > _NO_WEIGHT, weights, 0.0)
    total: FloatArray = weights / float(weights.sum())
    return total


def averaging_weights(log_density: FloatArray, *, seed: int = 1) -> FloatArray:
    """Return pseudo-BMA+ weights (shape,): how often each shape would win among other agents.

    Agents are reweighted by the Bayesian bootstrap. With a handful of agents stacking may put all
    on one shape that is hardly better; these weights show how little that rests on.
    """
    n_agents = log_density.shape[1]
    shares = np.random.default_rng(seed).dirichlet(np.ones(n_agents), _BOOTSTRAPS)
    score = n_agents * shares @ log_density.T
    score = np.exp(score - score.max(axis=1, keepdims=True))
    weights: FloatArray = (score / score.sum(axis=1, keepdims=True)).mean(axis=0)
    return weights


@dataclass(frozen=True, kw_only=True)
class TrendOptions:
    """What to fit.

    Attributes
    ----------
    model : HorizonOptions
        The model around the trend; its own `trend` is replaced by each shape in turn.
    release_dates : Path
        YAML of agents and dates.
    facts : AgentFacts
        Which agents are in the trend; the others stay in the fit.
    filters : tuple of RowFilter
        Rows to leave out while reading.
    """

    release_dates: Path
    model: HorizonOptions = CORE
    priors: HorizonPriors = DEFAULT_PRIORS
    sampler: SamplerConfig = DEFAULT_SAMPLER
    patient: bool = True
    facts: AgentFacts = NO_FACTS
    filters: tuple[RowFilter, ...] = ()
    shapes: Sequence[str] = SHAPES

    def __post_init__(self) -> None:
        if self.model.trend != "none":
            raise InputError(f"trend={self.model.trend}: every shape is fitted; leave it out")

    def analysis(self, shape: str) -> AnalysisOptions:
        """Return the options of one shape's fit."""
        return AnalysisOptions(
            model=replace(self.model, trend=shape),
            priors=self.priors,
            sampler=self.sampler,
            patient=self.patient,
            release_dates=self.release_dates,
            facts=self.facts,
            filters=self.filters,
        )


@dataclass(frozen=True)
class TrendComparison:
    """All shapes' trends with their scores; `unconverged` names the fits not to rely on."""

    options: TrendOptions
    trends: Mapping[str, Trend]
    scores: ShapeScores
    origin_day: float
    unconverged: tuple[str, ...]
    inputs: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def stack(self) -> tuple[list[Trend], list[float]]:
        """The trends and their weights, for a summary of the mixture."""
        return [self.trends[shape] for shape in self.scores.shapes], self.scores.weights.tolist()


def compare_trends(
    runs: Sequence[Path | str], options: TrendOptions, *, progress: Progress = SILENT
) -> TrendComparison:
    """Measure horizons without a trend, fit every shape jointly, score and stack them.

    Raises
    ------
    InputError
        Too few agents are in the trend, or all of one day.
    """
    read = read_design(runs, options.analysis(options.shapes[0]), progress=progress)
    # Agents are measured each by themselves: neither a trend nor the others say where they lie.
    fits = {"none": _fit(read.design, replace(options.model, pooling="none"), options, progress)}
    for shape in options.shapes:
        fits[shape] = _fit(read.design, replace(options.model, trend=shape), options, progress)
    with progress.step("predicting each agent from the others"):
        measured = measured_horizons(fits["none"])
        scores = score_shapes(measured, shapes=options.shapes, priors=options.priors)
    return TrendComparison(
        options=options,
        trends={shape: trend_of_fit(fits[shape]) for shape in options.shapes},
        scores=scores,
        origin_day=read.design.origin_day,
        unconverged=tuple(name for name, fit in fits.items() if not fit.diagnosis.converged),
        inputs=read.inputs,
        notes=tuple(read.notes),
    )


def _fit(
    design: Design, model: HorizonOptions, options: TrendOptions, progress: Progress
) -> HorizonFit:
    from tidegauge.horizon.sampler.fit import (
        fit_horizon,
    )  # the sampler is slow to import: faults first

    progress.note(f"trend: {model.trend}")
    return fit_horizon(
        design,
        priors=options.priors,
        options=model,
        sampler=options.sampler,
        patient=options.patient,
        progress=progress,
    )
