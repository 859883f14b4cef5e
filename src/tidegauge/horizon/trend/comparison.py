"""Shapes of the trend side by side: each fitted jointly, scored on unseen agents, and mixed."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tidegauge.arrays import FloatArray
from tidegauge.engine.config import SamplerConfig
from tidegauge.errors import InputError
from tidegauge.horizon.data.agents import DAYS_PER_YEAR
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.data.runs import Runs
from tidegauge.horizon.model.options import (
    CORE,
    DEFAULT_PRIORS,
    DEFAULT_SAMPLER,
    HorizonOptions,
    HorizonPriors,
)
from tidegauge.horizon.model.trend_shapes import SHAPES
from tidegauge.horizon.trend.draws import Trend, trend_of_fit
from tidegauge.horizon.trend.frontier import NO_FACTS, AgentFacts, place_agents
from tidegauge.horizon.trend.measured import Measured, measured_horizons
from tidegauge.horizon.trend.prediction import TrendModel
from tidegauge.horizon.trend.summary import TrendSummary, summarise_trend, trend_files
from tidegauge.progress import SILENT, Progress

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.horizon.result import HorizonFit


STACKED, AVERAGED = "stacked", "pseudo-BMA"  # mixtures of the shapes
FEWEST_STACKED = 20  # agents: stacking of fewer tends to put all the weight on one shape
FEWEST_EARLIER = 4  # agents, before the next ones are predicted from them
SURFACE_RATES = (0.5, 0.8, 0.9, 0.95, 0.99)
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
    weights : mapping
        Of the shapes, shape (shape,), in each mixture: STACKED and AVERAGED, by `leave_one_out`.
    """

    shapes: tuple[str, ...]
    measured: Measured
    leave_one_out: FloatArray
    future: NDArray[np.int64]
    leave_future_out: FloatArray
    weights: Mapping[str, FloatArray]


def score_shapes(
    measured: Measured,
    *,
    shapes: Sequence[str] = SHAPES,
    priors: HorizonPriors = DEFAULT_PRIORS,
    seed: int = 1,
) -> ShapeScores:
    """Predict every agent's measured horizon from the others', by every shape; and weigh them."""
    models = [TrendModel(shape, measured, priors=priors, seed=seed) for shape in shapes]
    leave_one_out = np.array([model.leave_one_out() for model in models])
    futures = [model.leave_future_out(FEWEST_EARLIER) for model in models]
    return ShapeScores(
        shapes=tuple(shapes),
        measured=measured,
        leave_one_out=leave_one_out,
        future=futures[0][0],
        leave_future_out=np.array([scores for _, scores in futures]),
        weights={
            STACKED: stacking_weights(leave_one_out),
            AVERAGED: averaging_weights(leave_one_out),
        },
    )


def headline_mixture(n_agents: int) -> str:
    """Return the mixture to rely on: of a few agents stacking is left out."""
    return AVERAGED if n_agents < FEWEST_STACKED else STACKED


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

    Shapes are weighed by exp(elpd), and agents by the Bayesian bootstrap, so that the uncertainty
    of elpd counts. Of a handful of agents stacking may put all on one shape that is hardly better.
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
    facts : AgentFacts
        Which agents are in the trend; the others stay in the fit.
    rates : sequence of float
        Success rates q whose trends T(q) are written.
    """

    model: HorizonOptions = CORE
    priors: HorizonPriors = DEFAULT_PRIORS
    sampler: SamplerConfig = DEFAULT_SAMPLER
    patient: bool = True
    facts: AgentFacts = NO_FACTS
    shapes: Sequence[str] = SHAPES
    rates: Sequence[float] = SURFACE_RATES

    def __post_init__(self) -> None:
        for rate in self.rates:
            if not 0 < rate < 1:
                raise InputError(f"success={rate:g}: must be strictly between 0 and 1")
        if self.model.trend != "none":
            raise InputError(f"trend={self.model.trend}: every shape is fitted; leave it out")


DEFAULT_TRENDS = TrendOptions()


@dataclass(frozen=True)
class TrendComparison:
    """All shapes' trends with their scores; `unconverged` names the fits not to rely on."""

    options: TrendOptions
    trends: Mapping[str, Trend]
    scores: ShapeScores
    origin_day: float
    unconverged: tuple[str, ...]
    runs: Runs

    @cached_property
    def summaries(self) -> dict[str, TrendSummary]:
        """Every shape and mixture in numbers."""
        rates = self.options.rates
        return {
            name: summarise_trend(trends, weights, rates=rates, name=name)
            for name, trends, weights in mixtures(self)
        }

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Every table by the name of its file."""
        return trend_outputs(self)

    @property
    def headline(self) -> str:
        """The mixture to rely on: STACKED or AVERAGED."""
        return headline_mixture(len(self.scores.measured.agents))

    @property
    def notes(self) -> list[str]:
        """What to know about the runs and the choice of agents."""
        return [*self.runs.notes, *self.options.facts.notes]


def compare_trends(
    runs: Runs, options: TrendOptions = DEFAULT_TRENDS, *, progress: Progress = SILENT
) -> TrendComparison:
    """Measure horizons without a trend, fit every shape jointly, score and mix them.

    Raises
    ------
    InputError
        Too few agents are in the trend, or all of one day.
    """
    first = replace(options.model, trend=options.shapes[0])
    design = place_agents(runs, first, options.facts).design
    # Agents are measured each by themselves: neither a trend nor the others say where they lie.
    fits = {"none": _fit(design, replace(options.model, pooling="none"), options, progress)}
    for shape in options.shapes:
        fits[shape] = _fit(design, replace(options.model, trend=shape), options, progress)
    with progress.step("predicting each agent from the others"):
        measured = measured_horizons(fits["none"])
        scores = score_shapes(measured, shapes=options.shapes, priors=options.priors)
    return TrendComparison(
        options=options,
        trends={shape: trend_of_fit(fits[shape]) for shape in options.shapes},
        scores=scores,
        origin_day=design.origin_day,
        unconverged=tuple(name for name, fit in fits.items() if not fit.diagnosis.converged),
        runs=runs,
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


def trend_outputs(comparison: TrendComparison) -> dict[str, pd.DataFrame]:
    """Return every table by the name of its file."""
    import pandas as pd

    tables: dict[str, list[pd.DataFrame]] = {}
    for name, trends, weights in mixtures(comparison):
        found = trend_files(comparison.summaries[name], trends, weights)
        for file, table in found.items():
            table.insert(0, "shape", name)
            tables.setdefault(file, []).append(table)
    joined = {file: pd.concat(parts, ignore_index=True) for file, parts in tables.items()}
    return {
        "trends.csv": joined["trend.csv"],
        "trend_dates.csv": joined["trend_dates.csv"],
        "trend_fan.csv": joined["trend_fan.csv"],
        "shapes.csv": shapes_table(comparison),
        "agents.csv": agents_table(comparison),
    }


def mixtures(comparison: TrendComparison) -> Iterator[tuple[str, list[Trend], list[float]]]:
    """Yield every shape by itself and the mixtures of them, with weights."""
    for shape, trend in comparison.trends.items():
        yield shape, [trend], [1.0]
    for name, weights in comparison.scores.weights.items():
        pairs = zip(comparison.scores.shapes, weights.tolist(), strict=True)
        kept = [(comparison.trends[shape], weight) for shape, weight in pairs if weight > 0]
        yield name, [trend for trend, _ in kept], [weight for _, weight in kept]


def shapes_table(comparison: TrendComparison) -> pd.DataFrame:
    """Return one row a shape: scores of unseen agents, differences to the best, weight.

    ``elpd`` is the sum over agents of the log density of their measured log2 T50 given all
    others, ``future_elpd`` that of the later agents given only those released before them.
    """
    import pandas as pd

    scores = comparison.scores
    columns: dict[str, object] = {
        "shape": scores.shapes,
        "weight": scores.weights[STACKED],
        "pseudo_bma": scores.weights[AVERAGED],
    }
    for name, pointwise in (
        ("elpd", scores.leave_one_out),
        ("future_elpd", scores.leave_future_out),
    ):
        # Where no agent has enough earlier ones, nothing was predicted.
        total = pointwise.sum(axis=1) if pointwise.size else np.full(len(pointwise), np.nan)
        best = int(total.argmax())
        columns |= {
            name: total,
            f"{name}_se": _sum_error(pointwise),
            f"{name}_difference": total - total[best],
            f"{name}_difference_se": _sum_error(pointwise - pointwise[best]),
        }
    columns["agents"] = scores.leave_one_out.shape[1]
    columns["future_agents"] = scores.future.size
    columns["converged"] = [shape not in comparison.unconverged for shape in scores.shapes]
    return pd.DataFrame(columns)


def _sum_error(pointwise: FloatArray) -> FloatArray:
    """Return the standard error of each row's sum, NaN for fewer than two terms."""
    if pointwise.shape[1] < 2:
        return np.full(len(pointwise), np.nan)
    error: FloatArray = np.sqrt(pointwise.shape[1]) * pointwise.std(axis=1, ddof=1)
    return error


def agents_table(comparison: TrendComparison) -> pd.DataFrame:
    """Return one row an agent of the trend: its measured horizon, and its scores."""
    import pandas as pd

    scores: ShapeScores = comparison.scores
    measured = scores.measured
    days = comparison.origin_day + DAYS_PER_YEAR * measured.years
    columns: dict[str, object] = {
        "agent": measured.agents,
        "release_date": [datetime.date.fromordinal(round(day)).isoformat() for day in days],
        "log2_p50": measured.value,
        "log2_p50_sd": measured.sd,
    }
    for shape, row in zip(scores.shapes, scores.leave_one_out, strict=True):
        columns[f"log_density_{shape}"] = row
    for shape, row in zip(scores.shapes, scores.leave_future_out, strict=True):
        later = np.full(len(measured.agents), np.nan)
        later[scores.future] = row
        columns[f"future_log_density_{shape}"] = later
    return pd.DataFrame(columns).sort_values("release_date", kind="stable", ignore_index=True)
