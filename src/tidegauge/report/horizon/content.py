"""What the horizon page draws: a result's horizons, curves and replicated rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegauge.horizon.horizons.curves import Curve, success_curves
from tidegauge.horizon.horizons.predictive import HumanCheck, RateCheck
from tidegauge.horizon.result import HorizonFit, HorizonResult
from tidegauge.horizon.store.studies import NO_STUDIES, StoredTrend, Studies
from tidegauge.horizon.trend.least_squares import Trendline, fit_trendline
from tidegauge.report.horizon.fit_charts import result_charts
from tidegauge.report.horizon.headline import (
    Band,
    Bar,
    Range,
    Size,
    date_chart,
    interval_chart,
    minutes_range,
    result_bars,
)
from tidegauge.report.horizon.sections import study_charts
from tidegauge.report.horizon.trend_charts import band_of

KINDS = ("typical", "marginal")
RATES = {"p50": 0.5, "p80": 0.8}
MORE = ("", "_mixture")  # in names of files, where a fit has its own trend and a mixture beside it
LEAST_SQUARES = "least squares"
FIT_CHARTS = ("success_curves", "difficulty", "predictive_success", "predictive_human")
STUDY_CHARTS = (
    *("trends", "doubling", "surface", "reliability"),
    *("methods", "multiverse_p50", "multiverse_doubling"),
)
CHARTS = (
    *(f"horizons_{rate}_{kind}{more}" for rate in RATES for kind in KINDS for more in MORE),
    *FIT_CHARTS,
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

    fit: HorizonResult
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
        kinds = ([one.bars for one in self.headlines if one.kind == kind] for kind in KINDS)
        typical, marginal = kinds
        return typical != marginal


def content_of(fit: HorizonResult, studies: Studies = NO_STUDIES) -> Content:
    """Work out everything the page draws of a result."""
    trends: list[StoredTrend | None] = [*model_trends(studies)] or [None]
    headlines = [
        _headline(fit, rate, kind, trend) for rate in RATES for kind in KINDS for trend in trends
    ]
    bands = [headline.trend for headline in headlines if headline.trend]
    limits = minutes_range([bar for headline in headlines for bar in headline.bars], bands)
    predictive = fit.predictive if isinstance(fit, HorizonFit) else None
    return Content(
        fit=fit,
        studies=studies,
        headlines=headlines,
        limits=limits,
        curves=success_curves(fit),
        rates=predictive.rates if predictive else (),
        human=predictive.human if predictive else (),
    )


def model_trends(studies: Studies) -> list[StoredTrend]:
    """Return the trends that a model has: the fit's own, then the mixture of shapes to rely on."""
    mixture = studies.trends.mixtures[0] if studies.trends else None
    return [trend for trend in (studies.joint, mixture) if trend is not None]


def _headline(fit: HorizonResult, rate: str, kind: str, trend: StoredTrend | None) -> Headline:
    bars = result_bars(fit, RATES[rate], kind)
    if trend is not None:
        fan = trend.fan
        own = fan[np.isclose(fan["success"], RATES[rate]) & (fan["kind"] == kind)]
        band = band_of(own) if len(own) else None
        return Headline(rate, kind, bars, band, trend.name)
    line = _least_squares(fit, RATES[rate], kind)
    if line is None:
        return Headline(rate, kind, bars, None, LEAST_SQUARES)
    band = Band(line.days, line.log2, line.fan, float(line.days.max()))
    return Headline(rate, kind, bars, band, LEAST_SQUARES, line)


def _least_squares(fit: HorizonResult, success: float, kind: str) -> Trendline | None:
    tasks, dates = fit.design.log2_minutes, fit.runs.release_dates
    limits = float(tasks.min()) - _FACTOR_LOG2, float(tasks.max()) + _FACTOR_LOG2
    return fit_trendline(
        [dates.get(agent) for agent in fit.design.agents],
        fit.estimate.centre_log2(success, kind=kind),
        fit.estimate.log2_horizons(success, kind=kind),
        limits_log2=limits,
    )


def all_charts(content: Content) -> dict[str, Any]:
    """Return every chart of the page by the name of its file."""
    names = content.trend_names
    found = {
        f"horizons_{one.rate}_{one.kind}{MORE[names.index(one.trend_name)]}": headline_chart(
            content, one, WIDE
        )
        for one in content.headlines
    }
    drawn = result_charts(content.fit)
    found |= {name: drawn[name]() for name in FIT_CHARTS if name in drawn}
    return found | study_charts(content.studies)


def headline_chart(content: Content, one: Headline, size: Size) -> Any:
    """Draw horizons over release date, or by agent where there are no dates."""
    if content.is_dated:
        return date_chart(one.bars, one.trend, content.limits, size, title=one.title)
    return interval_chart({"": one.bars}, content.limits, size, title=one.title)
