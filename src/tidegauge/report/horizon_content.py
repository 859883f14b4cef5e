"""What the horizon page draws: a stored fit's horizons, curves and replicated rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegauge.horizon.curves import Curve, success_curves
from tidegauge.horizon.predictive import RateCheck, rate_checks
from tidegauge.horizon.quantities import log2_horizon
from tidegauge.horizon.stored import StoredFit
from tidegauge.horizon.trendline import Trendline, fit_trendline
from tidegauge.report.horizon_headline import (
    Bar,
    Range,
    Size,
    agent_chart,
    date_chart,
    minutes_range,
)
from tidegauge.report.horizon_page_charts import curves_chart, difficulty_chart, rates_chart

KINDS = ("typical", "marginal")
RATES = {"p50": 0.5, "p80": 0.8}
CHARTS = (
    *(f"horizons_{rate}_{kind}" for rate in RATES for kind in KINDS),
    *("success_curves", "difficulty", "predictive_success"),
)
_FACTOR_LOG2 = 6.0  # the trend takes horizons beyond 64 times any task as that
WIDE, NARROW = Size(1040, 440), Size(270, 360, narrow=True)


@dataclass(frozen=True)
class Headline:
    """One combination of success rate and kind of horizon."""

    rate: str
    kind: str
    bars: list[Bar]
    trend: Trendline | None

    @property
    def title(self) -> str:
        """What stands above the chart."""
        return f"{self.rate[1:]} % horizon, {self.kind}, 95 % interval"


@dataclass(frozen=True)
class Content:
    """A fit and what is drawn of it."""

    fit: StoredFit
    headlines: list[Headline]
    limits: Range
    curves: list[Curve]
    rates: Sequence[RateCheck]

    @property
    def is_dated(self) -> bool:
        """Whether there is anything to draw over release dates."""
        return any(bar.date and bar.is_drawable for bar in self.headlines[0].bars)

    @property
    def kinds_differ(self) -> bool:
        """Whether typical and marginal horizons are not the same."""
        table = self.fit.horizons
        return not all(table[rate].equals(table[f"{rate}_marginal"]) for rate in RATES)


def content_of(fit: StoredFit) -> Content:
    """Work out everything the page draws of a fit."""
    headlines = [_headline(fit, rate, kind) for rate in RATES for kind in KINDS]
    trends = [headline.trend for headline in headlines if headline.trend]
    limits = minutes_range([bar for headline in headlines for bar in headline.bars], trends)
    return Content(fit, headlines, limits, success_curves(fit), _replicated_rates(fit))


def _headline(fit: StoredFit, rate: str, kind: str) -> Headline:
    name = rate if kind == "typical" else f"{rate}_marginal"
    table = fit.horizons
    columns = [table[f"{name}{end}"].to_numpy() for end in ("", "q0.025", "q0.975")]
    numbers = zip(table["agent"], *columns, fit.release_dates, strict=True)
    bars = [
        Bar(agent, float(m), float(low), float(high), day) for agent, m, low, high, day in numbers
    ]
    draws = None
    # Draws of alpha and beta give the typical horizon; the marginal one only where they agree.
    if fit.posterior is not None and table[name].equals(table[rate]):
        draws = log2_horizon(fit.posterior.alpha, fit.posterior.beta, success=RATES[rate])
    with np.errstate(divide="ignore"):
        log2 = np.log2(columns[0])
    limits = _trend_limits(fit, log2)
    trend = fit_trendline(fit.release_dates, log2, draws, limits_log2=limits) if limits else None
    return Headline(rate, kind, bars, trend)


def _trend_limits(fit: StoredFit, log2: Any) -> tuple[float, float] | None:
    if fit.tasks is not None:
        tasks = np.log2(fit.tasks["human_minutes"].to_numpy())
        return float(tasks.min()) - _FACTOR_LOG2, float(tasks.max()) + _FACTOR_LOG2
    finite = log2[np.isfinite(log2)]
    return (float(finite.min()), float(finite.max())) if finite.size else None


def _replicated_rates(fit: StoredFit) -> Sequence[RateCheck]:
    """Replicate success rates; only the core model's success is these parameters alone."""
    posterior = fit.posterior
    if posterior is None or not fit.manifest.is_core:
        return []
    rng = np.random.default_rng(fit.manifest.seed or 0)
    alpha, beta = posterior.alpha[posterior.chosen], posterior.beta[posterior.chosen]
    mu_task = posterior.mu_task
    return rate_checks(
        posterior.counts, lambda a: alpha[:, a, None] + beta[:, a, None] * mu_task, rng
    )


def all_charts(content: Content) -> dict[str, Any]:
    """Return every chart of the page by the name of its file."""
    found = {
        f"horizons_{one.rate}_{one.kind}": headline_chart(content, one, WIDE)
        for one in content.headlines
    }
    found["success_curves"] = curves_chart(content.curves, Size(260, 150, columns=4))
    if content.fit.tasks is not None:
        found["difficulty"] = difficulty_chart(content.fit.tasks, Size(760, 460))
    if content.rates:
        found["predictive_success"] = rates_chart(content.rates, Size(155, 100, columns=6))
    return found


def headline_chart(content: Content, one: Headline, size: Size) -> Any:
    """Draw horizons over release date, or by agent where there are no dates."""
    if content.is_dated:
        return date_chart(one.bars, one.trend, content.limits, size, title=one.title)
    return agent_chart(one.bars, content.limits, size, title=one.title)
