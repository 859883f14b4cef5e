"""The horizon page: one self-contained file of a result, fresh or read from its folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tidegauge.errors import InputError
from tidegauge.horizon.horizons.curves import Curve
from tidegauge.horizon.result import HorizonFit, HorizonResult
from tidegauge.horizon.store.fit_folder import load
from tidegauge.horizon.store.studies import read_studies
from tidegauge.io import check_writable
from tidegauge.progress import SILENT, Progress
from tidegauge.report.charts import chart_svg, save_charts
from tidegauge.report.durations import duration_text
from tidegauge.report.horizon import words
from tidegauge.report.horizon.content import (
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
from tidegauge.report.horizon.fit_charts import (
    curve_chart,
    difficulty_chart,
    human_chart,
    rates_chart,
)
from tidegauge.report.horizon.headline import Size
from tidegauge.report.horizon.provenance import methods
from tidegauge.report.horizon.sections import study_sections
from tidegauge.report.page import (
    Block,
    Card,
    Choice,
    Figure,
    Grid,
    Page,
    Section,
    Switch,
    Table,
    Text,
    write_page,
)


def write_report(
    page: Path | str,
    fit: HorizonResult | Path | str,
    *,
    charts: Path | str | None = None,
    trend: Path | str | None = None,
    compare: Path | str | None = None,
    multiverse: Path | str | None = None,
    progress: Progress = SILENT,
) -> None:
    """Write one self-contained HTML page of a result.

    Parameters
    ----------
    page : path
        The file to write.
    fit : HorizonResult or path
        A result, or the folder it was saved to.
    charts : path, optional
        Folder for the page's charts as PNG and SVG.
    trend, compare, multiverse : path, optional
        Folders that the commands of these names wrote, to stand beside the fit.

    Raises
    ------
    InputError
        The folder is not a fit's, one of its files is missing or damaged, or a place cannot be
        written to; nothing is written then.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import tidegauge.horizon as th
    >>> runs, truth = th.simulate(agents=3, tasks=20, seed=1)
    >>> page = pathlib.Path(tempfile.mkdtemp()) / "page.html"
    >>> th.write_report(page, th.fit_exact(runs))
    >>> page.exists()
    True
    """
    page = Path(page)
    result = load(fit) if isinstance(fit, Path | str) else fit
    beside = {"trend": trend, "compare": compare, "multiverse": multiverse}
    studies = read_studies(
        result, **{name: Path(place) for name, place in beside.items() if place is not None}
    )
    if page.is_dir():
        raise InputError(f"{page}: is a folder; name a file to write to")
    for place in (page.absolute().parent, *([Path(charts)] if charts else [])):
        check_writable(place)
    with progress.step("drawing"):
        content = content_of(result, studies)
        drawn = _page(content)
    if charts is not None:
        owned = [f"{name}.{ending}" for name in CHARTS for ending in ("png", "svg")]
        with progress.step("saving the charts"):
            save_charts(all_charts(content), Path(charts), owned=owned)
    write_page(drawn, page)


def _page(content: Content) -> Page:
    fit, design = content.fit, content.fit.design
    return Page(
        "Time horizons",
        f"How long a task each agent can finish, in the time it takes people. "
        f"{len(design.agents):,} agents, {len(design.tasks):,} tasks, "
        f"{int(design.attempts.sum()):,} runs.",
        [
            _horizons_section(content),
            _agents_section(fit),
            Section("Can it be relied on?", [words.verdict(fit), *words.findings(fit)], "checks"),
            _curves_section(content),
            *_difficulty_sections(fit),
            *_predictive_sections(content),
            *study_sections(content.studies),
            Section("Methods", methods(fit), "methods"),
        ],
    )


def _horizons_section(content: Content) -> Section:
    fit = content.fit
    caption = words.headline_caption(content)
    figures = [
        Figure(
            chart_svg(headline_chart(content, one, WIDE)),
            caption,
            chart_svg(headline_chart(content, one, NARROW)),
        )
        for one in content.headlines
    ]
    choices = [Choice("Success rate", ("50 %", "80 %")), Choice("Horizon", KINDS)]
    if len(content.trend_names) > 1:
        choices.append(Choice("Trend", content.trend_names))
    same = (
        "Typical is for a task without residual difficulty, marginal for a random task of "
        "that length."
    )
    if not content.kinds_differ:
        same += " Here the two are equal: this model has no difficulty besides length."
    blocks: list[Block] = [] if fit.converged else [words.verdict(fit)]
    blocks += [Text(words.summary(fit)), Switch("headline", choices, figures), Text(same)]
    return Section("Horizons", [*blocks, *words.trend_blocks(content)], "horizons")


def _agents_section(fit: HorizonResult) -> Section:
    rows, keys = [], []
    by_horizon = fit.metr_table().sort_values("p50", ascending=False, kind="stable")
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
    length = "inferred" if isinstance(content.fit, HorizonFit) else "human"
    text = (
        f"Lines are the fitted success rate of a task by its {length} length, with the 95 % "
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


def _difficulty_sections(fit: HorizonResult) -> list[Section]:
    if not isinstance(fit, HorizonFit):
        return []
    tasks = fit.tasks()
    wide, narrow = Size(760, 460), Size(260, 300, narrow=True)
    figure = Figure(
        chart_svg(difficulty_chart(tasks, wide)),
        "Each task's inferred length, with its 95 % interval, against the human time in the file. "
        "Off the dashed line, the runs of people or agents moved it.",
        chart_svg(difficulty_chart(tasks, narrow)),
    )
    return [Section("Task difficulty", [figure], "difficulty")]


def _predictive_sections(content: Content) -> list[Section]:
    blocks: list[Block] = []
    if content.rates:
        inside = sum(rate.low <= rate.observed <= rate.high for rate in content.rates)
        wide, narrow = Size(155, 100, columns=6), Size(105, 90, columns=2, narrow=True)
        caption = (
            f"Success rates by the file's task length: dots were seen, bars hold 95 % of what the "
            f"fitted model would have produced. {inside} of {len(content.rates)} dots are inside; "
            "those outside are orange."
        )
        charts = [chart_svg(rates_chart(content.rates, size)) for size in (wide, narrow)]
        blocks.append(Figure(charts[0], caption, charts[1]))
    if content.human:
        wide, narrow = Size(300, 180, columns=3), Size(230, 150, columns=1, narrow=True)
        caption = (
            "Successful human runs by how long they took: dots are how many there were, bars hold "
            "95 % of what the fitted model would have produced; dots outside are orange."
        )
        charts = [chart_svg(human_chart(content.human, size)) for size in (wide, narrow)]
        blocks.append(Figure(charts[0], caption, charts[1]))
    return [Section("Predictive checks", blocks, "predictive")] if blocks else []
