"""The horizon page: one self-contained file from what ``horizon fit`` wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tidegauge.errors import InputError
from tidegauge.horizon.curves import Curve, success_curves
from tidegauge.horizon.predictive import RateCheck, rate_checks
from tidegauge.horizon.quantities import log2_horizon
from tidegauge.horizon.stored import StoredFit, read_fit
from tidegauge.horizon.trendline import Trendline, fit_trendline
from tidegauge.io import atomic_folder, check_writable
from tidegauge.progress import SILENT, Progress
from tidegauge.report import horizon_words as words
from tidegauge.report.charts import chart_svg, save_chart
from tidegauge.report.durations import WORK_UNITS, duration_text
from tidegauge.report.horizon_headline import (
    Bar,
    Range,
    Size,
    agent_chart,
    date_chart,
    minutes_range,
)
from tidegauge.report.horizon_page_charts import (
    curve_chart,
    curves_chart,
    difficulty_chart,
    rates_chart,
)
from tidegauge.report.page import (
    Block,
    Card,
    Choice,
    Facts,
    Figure,
    Grid,
    Page,
    Section,
    Switch,
    Table,
    Text,
    write_page,
)

KINDS = ("typical", "marginal")
RATES = {"p50": 0.5, "p80": 0.8}
CHARTS = (
    *(f"horizons_{rate}_{kind}" for rate in RATES for kind in KINDS),
    *("success_curves", "difficulty", "predictive_success"),
)
_FACTOR_LOG2 = 6.0  # the trend takes horizons beyond 64 times any task as that
_WIDE, _NARROW = Size(1040, 440), Size(270, 360, narrow=True)


@dataclass(frozen=True)
class _Headline:
    """One combination of success rate and kind of horizon."""

    rate: str
    kind: str
    bars: list[Bar]
    trend: Trendline | None

    @property
    def title(self) -> str:
        return f"{self.rate[1:]} % horizon, {self.kind}, 95 % interval"


@dataclass(frozen=True)
class _Content:
    """A fit and what is drawn of it."""

    fit: StoredFit
    headlines: list[_Headline]
    limits: Range
    curves: list[Curve]
    rates: Sequence[RateCheck]

    @property
    def is_dated(self) -> bool:
        return any(bar.date is not None for bar in self.headlines[0].bars)

    @property
    def kinds_differ(self) -> bool:
        table = self.fit.horizons
        return not all(table[rate].equals(table[f"{rate}_marginal"]) for rate in RATES)


def write_horizon_report(
    folder: Path, out: Path, *, charts: Path | None = None, progress: Progress = SILENT
) -> None:
    """Make the page of a fit's folder, and its charts as PNG and SVG if they are asked for.

    Raises
    ------
    InputError
        The folder is not a fit's, one of its files is missing or damaged, or a place cannot be
        written to; nothing is written then.
    """
    fit = read_fit(folder)
    if out.is_dir():
        raise InputError(f"{out}: is a folder; name a file to write to")
    for place in (out.absolute().parent, *([charts] if charts else [])):
        check_writable(place)
    with progress.step("drawing"):
        content = _content_of(fit)
        page = _page(content)
    if charts is not None:
        owned = [f"{name}.{ending}" for name in CHARTS for ending in ("png", "svg")]
        with atomic_folder(charts, owned=owned) as staging, progress.step("saving the charts"):
            for name, chart in _charts(content).items():
                save_chart(chart, staging / name)
    write_page(page, out)


def _content_of(fit: StoredFit) -> _Content:
    headlines = [_headline(fit, rate, kind) for rate in RATES for kind in KINDS]
    limits = minutes_range([bar for headline in headlines for bar in headline.bars])
    return _Content(fit, headlines, limits, success_curves(fit), _replicated_rates(fit))


def _headline(fit: StoredFit, rate: str, kind: str) -> _Headline:
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
    return _Headline(rate, kind, bars, trend)


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
    return rate_checks(posterior.counts, posterior.mu_task, alpha, beta, rng)


def _charts(content: _Content) -> dict[str, Any]:
    """Return every chart of the page by the name of its file."""
    found = {
        f"horizons_{one.rate}_{one.kind}": _headline_chart(content, one, _WIDE)
        for one in content.headlines
    }
    found["success_curves"] = curves_chart(content.curves, Size(260, 150, columns=4))
    if content.fit.tasks is not None:
        found["difficulty"] = difficulty_chart(content.fit.tasks, Size(760, 460))
    if content.rates:
        found["predictive_success"] = rates_chart(content.rates, Size(140, 100, columns=6))
    return found


def _headline_chart(content: _Content, one: _Headline, size: Size) -> Any:
    if content.is_dated:
        return date_chart(one.bars, one.trend, content.limits, size, title=one.title)
    return agent_chart(one.bars, content.limits, size, title=one.title)


def _page(content: _Content) -> Page:
    fit = content.fit
    table = fit.horizons
    tasks = "" if fit.tasks is None else f", {len(fit.tasks):,} tasks"
    return Page(
        "Time horizons",
        f"How long a task each agent can finish, in the time it takes people. {len(table):,} "
        f"agents{tasks}, {int(table['n_runs'].sum()):,} runs.",
        [
            _horizons_section(content),
            _agents_section(fit),
            Section("Can it be relied on?", [words.verdict(fit), *words.findings(fit)], "checks"),
            _curves_section(content),
            *_difficulty_sections(fit),
            *_predictive_sections(content),
            Section("Methods", words.methods(fit), "methods"),
        ],
    )


def _horizons_section(content: _Content) -> Section:
    fit = content.fit
    caption = _headline_caption(content)
    figures = [
        Figure(
            chart_svg(_headline_chart(content, one, _WIDE)),
            caption,
            chart_svg(_headline_chart(content, one, _NARROW)),
        )
        for one in content.headlines
    ]
    choices = [Choice("Success rate", ("50 %", "80 %")), Choice("Horizon", KINDS)]
    same = (
        "Typical is for a task that is as hard as its length says, marginal for a random task of "
        "that length."
    )
    if not content.kinds_differ:
        same += " Here the two are equal: this model has no difficulty besides length."
    blocks: list[Block] = [] if fit.diagnostics.converged else [words.verdict(fit)]
    blocks += [Text(_summary(fit)), Switch("headline", choices, figures), Text(same)]
    return Section("Horizons", [*blocks, *_trend_blocks(content)], "horizons")


def _summary(fit: StoredFit) -> str:
    rows = fit.horizons.to_dict("records")
    best = max(rows, key=lambda row: (row["p50"] == row["p50"], row["p50"]))
    ends = f"{duration_text(best['p50q0.025'])} to {duration_text(best['p50q0.975'])}"
    return (
        f"The longest 50 % horizon is that of {best['agent']}: it finishes half of the tasks that "
        f"take people {duration_text(best['p50'])} (95 % interval {ends})."
    )


def _headline_caption(content: _Content) -> str:
    said = "Dots are medians, bars 95 % intervals; an arrow marks a bar that goes on."
    trend = content.headlines[0].trend
    if content.is_dated and trend is not None:
        fan = "" if trend.fan is None else ", its bands hold 50 and 95 % of such lines, one a draw"
        said += f" The line is least squares through the medians{fan}."
    undated = [bar.agent for bar in content.headlines[0].bars if bar.date is None]
    if content.is_dated and undated:
        said += f" Without a release date, and so not drawn: {', '.join(undated)}."
    return f"{said} {WORK_UNITS}"


def _trend_blocks(content: _Content) -> list[Block]:
    typical = [one for one in content.headlines if one.kind == "typical" and one.trend]
    if not typical:
        return [
            Text("No trend: it needs release dates (--release-dates) of at least three agents.")
        ]
    pairs = [
        (f"doubling time at {one.rate[1:]} %", _doubling_text(one.trend))
        for one in typical
        if one.trend
    ]
    return [
        Facts(pairs),
        Text(
            "The trend is descriptive: a straight line through the agents that happen to be here, "
            "all counted alike, with no scatter of agents around it and no say in the horizons. "
            "It is not the joint trend model, and not a forecast. Horizons more than 64 times "
            "shorter or longer than any task count as that."
            if content.fit.tasks is not None
            else "The trend is descriptive: a straight line through the medians of the agents that "
            "happen to be here. This method keeps no draws, so it has no interval."
        ),
    ]


def _doubling_text(trend: Trendline) -> str:
    if not 0 < trend.doubling_months < np.inf:
        return "none: the line does not rise"
    said = f"{trend.doubling_months:.1f} months"
    if trend.fastest_months is None or trend.slowest_months is None:
        return said
    slowest = f"{trend.slowest_months:.1f}" if np.isfinite(trend.slowest_months) else "no doubling"
    return f"{said} ({trend.fastest_months:.1f} to {slowest})"


def _agents_section(fit: StoredFit) -> Section:
    rows, keys = [], []
    by_horizon = fit.horizons.sort_values("p50", ascending=False, kind="stable")
    for row in by_horizon.to_dict("records"):
        day = row["release_date"]
        ends = [(row[f"{p}q0.025"], row[f"{p}q0.975"]) for p in RATES]
        spans = [f"{duration_text(low)} to {duration_text(high)}" for low, high in ends]
        rows.append(
            [
                row["agent"],
                day or "–",
                *(duration_text(row["p50"]), spans[0], duration_text(row["p80"]), spans[1]),
                f"{row['p50_beyond']:.1%}",
                f"{row['average']:.0%}",
                f"{row['n_runs']:,.0f}",
            ]
        )
        order = float(day.replace("-", "")) if day else np.nan
        numbers = (row["p50"], ends[0][0], row["p80"], ends[1][0])
        keys.append(
            [row["agent"], order, *numbers, row["p50_beyond"], row["average"], row["n_runs"]]
        )
    header = ("agent", "released", "50 %", "95 % interval", "80 %", "95 % interval")
    caption = (
        "Press a heading to sort. Beyond is the probability that the 50 % horizon is longer than "
        "the longest task; success is METR's weighted average over tasks."
    )
    table = Table((*header, "beyond", "success", "runs"), rows, caption, keys=keys)
    return Section("Agents", [table], "agents")


def _curves_section(content: _Content) -> Section:
    if content.fit.posterior is None:
        text = (
            "Lines are the fitted success rate by human time, dots the weighted rates seen in "
            "each length bucket; the dashed line is the 50 % horizon."
        )
    else:
        text = (
            "Lines are the fitted success rate of a task by its inferred length, with the 95 % "
            "band; dots are the rates seen among tasks within a factor of four, larger for more "
            "runs; the dashed line is the 50 % horizon."
        )
    size = Size(270, 150)
    cards = [
        Card(curve.agent, [Figure(chart_svg(curve_chart(curve, size)), _curve_caption(curve))])
        for curve in content.curves
    ]
    return Section("Success curves", [Text(text), Grid(cards)], "curves")


def _curve_caption(curve: Curve) -> str:
    return f"50 % horizon: {duration_text(curve.p50_minutes)}."


def _difficulty_sections(fit: StoredFit) -> list[Section]:
    if fit.tasks is None:
        return []
    wide, narrow = Size(760, 460), Size(260, 300, narrow=True)
    figure = Figure(
        chart_svg(difficulty_chart(fit.tasks, wide)),
        "Each task's inferred length, with its 95 % interval, against the human time in the file. "
        "Off the dashed line, the runs of people or agents moved it.",
        chart_svg(difficulty_chart(fit.tasks, narrow)),
    )
    return [Section("Task difficulty", [figure], "difficulty")]


def _predictive_sections(content: _Content) -> list[Section]:
    if not content.rates:
        return []
    inside = sum(rate.low <= rate.observed <= rate.high for rate in content.rates)
    wide, narrow = Size(140, 100, columns=6), Size(105, 90, columns=2, narrow=True)
    figure = Figure(
        chart_svg(rates_chart(content.rates, wide)),
        f"Success rates by the file's task length: dots were seen, bars hold 95 % of what the "
        f"fitted model would have produced. {inside} of {len(content.rates)} dots are inside; "
        "those outside are orange.",
        chart_svg(rates_chart(content.rates, narrow)),
    )
    return [Section("Predictive checks", [figure], "predictive")]
