"""What the horizon page draws: a stored fit's horizons, curves and replicated rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.horizon.horizons.curves import Curve, success_curves
from tidegauge.horizon.horizons.predictive import HumanCheck, RateCheck, rate_checks
from tidegauge.horizon.horizons.quantities import log2_horizon
from tidegauge.horizon.store.stored_fit import StoredFit
from tidegauge.horizon.store.stored_human import replicated_human
from tidegauge.horizon.store.studies import NO_STUDIES, STACKED, StoredTrend, Studies
from tidegauge.horizon.trend.least_squares import Trendline, fit_trendline
from tidegauge.report.horizon.headline import (
    Band,
    Bar,
    Range,
    Size,
    agent_chart,
    date_chart,
    minutes_range,
)
from tidegauge.report.horizon.page_charts import (
    curves_chart,
    difficulty_chart,
    human_chart,
    rates_chart,
)
from tidegauge.report.horizon.sections import study_charts
from tidegauge.report.horizon.trend_charts import band_of

KINDS = ("typical", "marginal")
RATES = {"p50": 0.5, "p80": 0.8}
MORE = ("", "_stacked")  # in names of files, where a fit has its own trend and a stacked one
LEAST_SQUARES = "least squares"
STUDY_CHARTS = ("trends", "doubling", "methods", "multiverse_p50", "multiverse_doubling")
CHARTS = (
    *(f"horizons_{rate}_{kind}{more}" for rate in RATES for kind in KINDS for more in MORE),
    *("success_curves", "difficulty", "predictive_success", "predictive_human"),
    *STUDY_CHARTS,
)
_FACTOR_LOG2 = 6.0  # the trend takes horizons beyond 64 times any task as that
WIDE, NARROW = Size(1040, 440), Size(270, 360, narrow=True)


@dataclass(frozen=True)
class Headline:
    """One combination of success rate, kind of horizon and trend.

    `line` is the least-squares description that `trend` draws where no model has a trend.
    """

    rate: str
    kind: str
    bars: list[Bar]
    trend: Band | None
    trend_name: str
    line: Trendline | None = None

    @property
    def title(self) -> str:
        """What stands above the chart."""
        return f"{self.rate[1:]} % horizon, {self.kind}, 95 % interval"


@dataclass(frozen=True)
class Content:
    """A fit, what stands beside it, and what is drawn of it."""

    fit: StoredFit
    studies: Studies
    headlines: list[Headline]
    limits: Range
    curves: list[Curve]
    rates: Sequence[RateCheck]
    human: Sequence[HumanCheck]

    @property
    def is_dated(self) -> bool:
        """Whether there is anything to draw over release dates."""
        return any(bar.date and bar.is_drawable for bar in self.headlines[0].bars)

    @property
    def trend_names(self) -> list[str]:
        """The trends that the reader can choose from."""
        return list(dict.fromkeys(one.trend_name for one in self.headlines))

    @property
    def kinds_differ(self) -> bool:
        """Whether typical and marginal horizons are not the same."""
        table = self.fit.horizons
        return not all(table[rate].equals(table[f"{rate}_marginal"]) for rate in RATES)


def content_of(fit: StoredFit, studies: Studies = NO_STUDIES) -> Content:
    """Work out everything the page draws of a fit."""
    trends: list[StoredTrend | None] = [*model_trends(studies)] or [None]
    headlines = [
        _headline(fit, rate, kind, trend) for rate in RATES for kind in KINDS for trend in trends
    ]
    bands = [headline.trend for headline in headlines if headline.trend]
    limits = minutes_range([bar for headline in headlines for bar in headline.bars], bands)
    return Content(
        fit=fit,
        studies=studies,
        headlines=headlines,
        limits=limits,
        curves=success_curves(fit),
        rates=_replicated_rates(fit),
        human=replicated_human(fit),
    )


def model_trends(studies: Studies) -> list[StoredTrend]:
    """Return the trends that a model has: the fit's own, then the stacked one."""
    stacked = studies.trends.trends[STACKED] if studies.trends else None
    return [trend for trend in (studies.joint, stacked) if trend is not None]


def _headline(fit: StoredFit, rate: str, kind: str, trend: StoredTrend | None) -> Headline:
    name = rate if kind == "typical" else f"{rate}_marginal"
    table = fit.horizons
    columns = [table[f"{name}{end}"].to_numpy() for end in ("", "q0.025", "q0.975")]
    numbers = zip(table["agent"], *columns, fit.release_dates, strict=True)
    bars = [
        Bar(agent, float(m), float(low), float(high), day) for agent, m, low, high, day in numbers
    ]
    if trend is not None:
        own = trend.fan[np.isclose(trend.fan["success"], RATES[rate])]
        band = band_of(own, shift_log2=_marginal_shift(fit, rate, name)) if len(own) else None
        return Headline(rate, kind, bars, band, trend.name)
    line = _least_squares(fit, rate, name, columns[0])
    if line is None:
        return Headline(rate, kind, bars, None, LEAST_SQUARES)
    band = Band(line.days, line.log2, line.fan, float(line.days.max()))
    return Headline(rate, kind, bars, band, LEAST_SQUARES, line)


def _marginal_shift(fit: StoredFit, rate: str, name: str) -> float:
    """Return how far a kind of horizon is from the typical one, log2, for the middle agent."""
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.log2(fit.horizons[name].to_numpy() / fit.horizons[rate].to_numpy())
    known = gap[np.isfinite(gap)]
    return float(np.median(known)) if known.size else 0.0


def _least_squares(fit: StoredFit, rate: str, name: str, medians: FloatArray) -> Trendline | None:
    draws = None
    # Draws of alpha and beta give the typical horizon; the marginal one only where they agree.
    if fit.posterior is not None and fit.horizons[name].equals(fit.horizons[rate]):
        draws = log2_horizon(fit.posterior.alpha, fit.posterior.beta, success=RATES[rate])
    with np.errstate(divide="ignore"):
        log2 = np.log2(medians)
    limits = _trend_limits(fit, log2)
    return fit_trendline(fit.release_dates, log2, draws, limits_log2=limits) if limits else None


def _trend_limits(fit: StoredFit, log2: Any) -> tuple[float, float] | None:
    if fit.tasks is not None:
        tasks = np.log2(fit.tasks["human_minutes"].to_numpy())
        return float(tasks.min()) - _FACTOR_LOG2, float(tasks.max()) + _FACTOR_LOG2
    finite = log2[np.isfinite(log2)]
    return (float(finite.min()), float(finite.max())) if finite.size else None


def _replicated_rates(fit: StoredFit) -> Sequence[RateCheck]:
    """Replicate success rates, where runs were fitted as successes and failures."""
    if fit.posterior is None or fit.manifest.options.get("scores", "binary") != "binary":
        return []
    rng = np.random.default_rng(fit.manifest.seed or 0)
    return rate_checks(fit.posterior.counts, fit.posterior.logits, rng)


def all_charts(content: Content) -> dict[str, Any]:
    """Return every chart of the page by the name of its file."""
    names = content.trend_names
    found = {
        f"horizons_{one.rate}_{one.kind}{MORE[names.index(one.trend_name)]}": headline_chart(
            content, one, WIDE
        )
        for one in content.headlines
    }
    found["success_curves"] = curves_chart(content.curves, Size(260, 150, columns=4))
    if content.fit.tasks is not None:
        found["difficulty"] = difficulty_chart(content.fit.tasks, Size(760, 460))
    if content.rates:
        found["predictive_success"] = rates_chart(content.rates, Size(155, 100, columns=6))
    if content.human:
        found["predictive_human"] = human_chart(content.human, Size(300, 180, columns=3))
    return found | study_charts(content.studies)


def headline_chart(content: Content, one: Headline, size: Size) -> Any:
    """Draw horizons over release date, or by agent where there are no dates."""
    if content.is_dated:
        return date_chart(one.bars, one.trend, content.limits, size, title=one.title)
    return agent_chart(one.bars, content.limits, size, title=one.title)
