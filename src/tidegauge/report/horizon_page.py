"""The horizon page: one self-contained file from what ``horizon fit`` wrote."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tidegauge.errors import InputError
from tidegauge.horizon.curves import Curve
from tidegauge.horizon.stored import StoredFit, read_fit
from tidegauge.horizon.trendline import Trendline
from tidegauge.io import atomic_folder, check_writable
from tidegauge.progress import SILENT, Progress
from tidegauge.report import horizon_words as words
from tidegauge.report.charts import chart_svg, save_chart
from tidegauge.report.durations import WORK_UNITS, duration_text
from tidegauge.report.horizon_content import (
    CHARTS,
    KINDS,
    NARROW,
    RATES,
    WIDE,
    Content,
    all_charts,
    content_of,
    headline_chart,
)
from tidegauge.report.horizon_headline import Size
from tidegauge.report.horizon_page_charts import curve_chart, difficulty_chart, rates_chart
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
        content = content_of(fit)
        page = _page(content)
    if charts is not None:
        owned = [f"{name}.{ending}" for name in CHARTS for ending in ("png", "svg")]
        with atomic_folder(charts, owned=owned) as staging, progress.step("saving the charts"):
            for name, chart in all_charts(content).items():
                save_chart(chart, staging / name)
    write_page(page, out)


def _page(content: Content) -> Page:
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


def _horizons_section(content: Content) -> Section:
    fit = content.fit
    caption = _headline_caption(content)
    figures = [
        Figure(
            chart_svg(headline_chart(content, one, WIDE)),
            caption,
            chart_svg(headline_chart(content, one, NARROW)),
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


def _headline_caption(content: Content) -> str:
    said = "Dots are medians, bars 95 % intervals; an arrow marks a bar that goes on."
    trend = content.headlines[0].trend
    if content.is_dated and trend is not None:
        fan = "" if trend.fan is None else ", its bands hold 50 and 95 % of such lines, one a draw"
        said += f" The line is least squares through the medians{fan}."
    undated = [bar.agent for bar in content.headlines[0].bars if bar.date is None]
    if content.is_dated and undated:
        said += f" Without a release date, and so not drawn: {', '.join(undated)}."
    return f"{said} {WORK_UNITS}"


def _trend_blocks(content: Content) -> list[Block]:
    typical = [one for one in content.headlines if one.kind == "typical"]
    trends = {one.rate: one.trend for one in typical if one.trend}
    if not trends:
        return [
            Text("No trend: it needs release dates (--release-dates) of at least three agents.")
        ]
    n_agents = next(iter(trends.values())).n_agents
    said = (
        f"The trend is descriptive: a straight line through the {n_agents} agents that happen to "
        "have a date here, all counted alike. It is not the joint trend model, and not a forecast."
    )
    if content.fit.posterior is None:
        said += " This method keeps no draws, so the line has no interval."
    else:
        said += (
            " Its interval is the doubt about these agents' horizons alone, from a line through "
            "each posterior draw; how agents scatter around a trend is not in it. Horizons more "
            "than 64 times shorter or longer than any task count as that."
        )
    pairs = [(f"doubling time at {r[1:]} %", _doubling_text(one)) for r, one in trends.items()]
    return [Facts(pairs), Text(said)]


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
    table = Table((*header, "beyond", "success", "runs"), rows, caption, keys=keys, sorted_by=2)
    return Section("Agents", [table], "agents")


def _curves_section(content: Content) -> Section:
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


def _predictive_sections(content: Content) -> list[Section]:
    if not content.rates:
        return []
    inside = sum(rate.low <= rate.observed <= rate.high for rate in content.rates)
    wide, narrow = Size(155, 100, columns=6), Size(105, 90, columns=2, narrow=True)
    figure = Figure(
        chart_svg(rates_chart(content.rates, wide)),
        f"Success rates by the file's task length: dots were seen, bars hold 95 % of what the "
        f"fitted model would have produced. {inside} of {len(content.rates)} dots are inside; "
        "those outside are orange.",
        chart_svg(rates_chart(content.rates, narrow)),
    )
    return [Section("Predictive checks", [figure], "predictive")]
