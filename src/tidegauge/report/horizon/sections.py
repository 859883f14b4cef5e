"""Sections of the horizon page on what stands beside a fit: trends, methods, multiverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tidegauge.horizon.store.studies import (
    StoredComparison,
    StoredMultiverse,
    StoredTrend,
    StoredTrends,
    Studies,
)
from tidegauge.horizon.trend.comparison import AVERAGED, FEWEST_STACKED, STACKED
from tidegauge.horizon.trend.draws import LAST_YEAR
from tidegauge.report.charts import chart_svg
from tidegauge.report.durations import duration_text
from tidegauge.report.horizon.headline import Size
from tidegauge.report.horizon.study_charts import (
    MOST_MONTHS,
    boxes_chart,
    change_text,
    doubling_boxes,
    horizon_boxes,
    methods_chart,
)
from tidegauge.report.horizon.terminal import gap_text
from tidegauge.report.horizon.trend_charts import (
    NARROW,
    WIDE,
    doubling_chart,
    fans_chart,
    months_text,
    reliability_chart,
    success_text,
    surface_chart,
)
from tidegauge.report.page import Block, Choice, Figure, Section, Switch, Table, Text

_BOXES, _BOXES_NARROW = Size(700, 0), Size(190, 0, narrow=True)
_SURFACE, _SURFACE_NARROW = Size(700, 360), Size(250, 260, narrow=True)
_SHOWN = 12
_FACTOR_AXIS = "times the agent's median over all universes"


def study_sections(studies: Studies) -> list[Section]:
    """Return a section for everything that was read."""
    sections = []
    if studies.trends is not None:
        sections.append(_trends_section(studies.trends))
    if studies.comparison is not None:
        sections.append(_comparison_section(studies.comparison))
    if studies.multiverse is not None:
        sections.append(_multiverse_section(studies.multiverse))
        sections += _sensitivity_sections(studies.multiverse)
    return sections


def study_charts(studies: Studies) -> dict[str, Any]:
    """Return the charts of those sections by the names of their files."""
    found: dict[str, Any] = {}
    if (trends := studies.trends) is not None:
        found["trends"] = fans_chart(trends.fan, trends.agents, WIDE)
        found["doubling"] = doubling_chart(trends.table, trends.shapes, Size(560, 0))
        found["surface"] = surface_chart(trends.mixtures[0].fan, _SURFACE)
        found["reliability"] = reliability_chart(trends.mixtures[0].quantities, Size(560, 0))
    if studies.comparison is not None:
        title = "50 % horizon, 95 % interval"
        found["methods"] = methods_chart(studies.comparison.horizons, "p50", _BOXES, title=title)
    if studies.multiverse is not None:
        found |= {
            f"multiverse_{name}": chart
            for name, chart in _multiverse_charts(studies.multiverse, _BOXES).items()
        }
    return found


def date_table(trend: StoredTrend) -> Table:
    """Return when a trend reaches a day, a week, a month and a year of human work."""
    rows = []
    for work, own in trend.dates.groupby("work", sort=False):
        cells = [f"{work} ({own['minutes'].iloc[0] / 60:,.0f} h)"]
        for rate in (0.5, 0.8):
            row = own[np.isclose(own["success"], rate)].iloc[0]
            ends = f"{row['low']} to {row['high']}"
            cells += [row["median"], ends, f"{row['never_share']:.1%}"]
        rows.append(cells)
    header = (
        *("human work", "50 %", "95 % interval", f"not by {LAST_YEAR}"),
        *("80 %", "95 % interval", f"not by {LAST_YEAR}"),
    )
    caption = (
        f"When the {trend.name} trend reaches a length of human work, if it goes on as it is: an "
        "extrapolation, not a forecast. At 80 %, agents' success curves go on becoming steeper or "
        "flatter with date as they did."
    )
    return Table(header, rows, caption)


def next_agent_table(trend: StoredTrend) -> Table:
    """Return the trend by success rate, at the last release, beside an agent released then."""
    rows = []
    for rate in trend.rates:
        found = [trend.value(name, rate) for name in ("trend_minutes", "next_agent_minutes")]
        texts = [_minutes_text(one) if one else "–" for one in found]
        rows.append([success_text(rate), months_text(trend.months(rate)), *texts])
    return Table(
        ("success", "doubling time", "horizon of the trend", "horizon of an agent released then"),
        rows,
        f"The {trend.name} trend at the last release by success rate, on random tasks of that "
        "length, with 95 % intervals. The trend is the middle of the agents; the next agent lies "
        "off it by their scatter, so its interval is the wider one.",
    )


def _minutes_text(interval: Sequence[float]) -> str:
    middle, low, high = map(duration_text, interval)
    return f"{middle} ({low} to {high})"


def _trends_section(found: StoredTrends) -> Section:
    first, second = found.mixtures
    text = (
        "Four shapes of the trend, each fitted jointly with all the rest, and two mixtures of "
        "them. Dots are horizons measured without any trend, with twice their standard deviation; "
        "the line is dashed where it is extrapolated."
    )
    few = (
        f"The headline is {first.name}: with fewer than {FEWEST_STACKED} agents stacking tends to "
        "put all the weight on one shape that is hardly better."
        if first.name == AVERAGED
        else f"The headline is {first.name}: {len(found.agents)} agents are enough to stack."
    )
    curse = [Text(f"Note: {note}.") for note in found.notes if note.startswith("--frontier")]
    figures = [
        Figure(
            chart_svg(fans_chart(found.fan, found.agents, WIDE)),
            "Bands hold 50 and 95 % of the draws of the trend; dotted lines hold 95 % for an agent "
            "released then, which lies off the trend by the scatter.",
            chart_svg(fans_chart(found.fan, found.agents, NARROW)),
        ),
        Figure(
            chart_svg(doubling_chart(found.table, found.shapes, Size(700, 0))),
            "Doubling time of the 50 % horizon at the last release, 95 % interval; an arrow marks "
            "one that goes on.",
            chart_svg(doubling_chart(found.table, found.shapes, Size(190, 0, narrow=True))),
        ),
    ]
    surface = [
        Figure(
            chart_svg(surface_chart(first.fan, _SURFACE)),
            f"The {first.name} trend of the horizon at several success rates, on random tasks of "
            "that length, with bands that hold 50 % of the draws; dashed is extrapolated.",
            chart_svg(surface_chart(first.fan, _SURFACE_NARROW)),
        ),
        Figure(
            chart_svg(reliability_chart(first.quantities, Size(700, 0))),
            "Doubling time by success rate. It differs from that at 50 % as far as agents' success "
            "curves become steeper or flatter with date.",
            chart_svg(reliability_chart(first.quantities, Size(190, 0, narrow=True))),
        ),
    ]
    tables = [_shapes_table(found), date_table(first), date_table(second)]
    return Section(
        "Trends",
        [Text(text), *figures, Text(few), *curse, *tables, *surface, next_agent_table(first)],
        "trends",
    )


def _shapes_table(found: StoredTrends) -> Table:
    """Return every shape's weights and scores, and its doubling time."""
    rows = [
        [
            row["shape"],
            f"{row['pseudo_bma']:.2f}",
            f"{row['weight']:.2f}",
            gap_text(row["elpd_difference"], row["elpd_difference_se"]),
            gap_text(row["future_elpd_difference"], row["future_elpd_difference_se"]),
            months_text(found.trends[row["shape"]].months()),
        ]
        for row in found.shapes.to_dict("records")
    ]
    for mixture in found.mixtures:
        rows.append([mixture.name, "", "", "", "", months_text(mixture.months())])
    return Table(
        ("shape", AVERAGED, STACKED, "unseen agents", "future agents", "doubling time"),
        rows,
        "Log score of an agent's measured horizon predicted from all others (unseen) and from "
        "those released before it (future), less the best shape's, with the standard error of "
        "the difference. Pseudo-BMA weighs shapes by their scores, with the uncertainty of these "
        "(Bayesian bootstrap over agents); stacking looks for the mixture that predicts unseen "
        "agents best. Where the two disagree, the agents are too few to distinguish the shapes.",
    )


def _comparison_section(found: StoredComparison) -> Section:
    figures = []
    for rate in ("p50", "p80"):
        title = f"{rate[1:]} % horizon, 95 % interval"
        wide = methods_chart(found.horizons, rate, _BOXES, title=title)
        narrow = methods_chart(found.horizons, rate, _BOXES_NARROW, title=title)
        caption = "Dots are medians or point estimates, bars 95 % intervals."
        figures.append(Figure(chart_svg(wide), caption, chart_svg(narrow)))
    switch = Switch("compared-rates", [Choice("Success rate", ("50 %", "80 %"))], figures)
    rows, keys = [], []
    for row in found.scores.to_dict("records"):
        best = row["method"] == row["best"]
        gap = "best" if best else f"{row['difference']:+.4f} ± {row['difference_se']:.4f}"
        rows.append(
            [
                f"{row['method']}, by {row['by']}",
                f"{row['log_score']:.4f} ± {row['log_score_se']:.4f}",
                f"{row['fractional_log_score']:.4f} ± {row['fractional_log_score_se']:.4f}",
                f"{row['brier']:.4f} ± {row['brier_se']:.4f}",
                gap,
            ]
        )
        gap_key = 0.0 if best else row["difference"]
        scores = [row[name] for name in ("log_score", "fractional_log_score", "brier")]
        keys.append([rows[-1][0], *scores, gap_key])
    table = Table(
        ("method, what is held out", "log score", "fractional", "Brier loss", "less the best"),
        rows,
        "Prediction of runs that were held out, per run (± standard error): a higher log score "
        "and a lower Brier loss are better; fractional is the log score of the score itself, not "
        "of success. Differences are of the log score, paired, within each kind of folds.",
        keys=keys,
    )
    text = "The same runs by other methods, and how well each predicts runs it has not seen."
    return Section("Methods compared", [Text(text), switch, table], "compared")


def _multiverse_charts(found: StoredMultiverse, size: Size) -> dict[str, Any]:
    charts = {}
    if boxes := horizon_boxes(found):
        charts["p50"] = boxes_chart(
            boxes, size, title="50 % horizon by choice", axis=_FACTOR_AXIS, log=True
        )
    if boxes := doubling_boxes(found):
        axis = f"months (longer than {MOST_MONTHS:.0f}, or none, drawn there)"
        charts["doubling"] = boxes_chart(
            boxes, size, title="Doubling time by choice", axis=axis, log=False
        )
    return charts


def _multiverse_section(found: StoredMultiverse) -> Section:
    universes = found.horizons["universe"].nunique()
    text = (
        f"The analysis under {universes:,} sets of choices. A box holds every universe "
        "that made the choice: its dot is the median, its bar the middle half, its line all."
    )
    blocks: list[Block] = [Text(text)]
    wide, narrow = (_multiverse_charts(found, size) for size in (_BOXES, _BOXES_NARROW))
    if set(wide) == {"p50", "doubling"}:
        pairs = [(wide[name], narrow[name]) for name in ("p50", "doubling")]
        figures = [Figure(chart_svg(one), "", chart_svg(other)) for one, other in pairs]
        choice = Choice("Answer", ("horizon", "doubling time"))
        blocks.append(Switch("multiverse-boxes", [choice], figures))
    else:
        blocks += [Figure(chart_svg(wide[k]), "", chart_svg(narrow[k])) for k in wide]
    if found.effects is not None:
        blocks.append(_effects_table(found.effects))
    return Section("Multiverse", blocks, "multiverse")


def _effects_table(effects: pd.DataFrame) -> Table:
    rows, keys = [], []
    for row in effects.to_dict("records"):
        numbers = (row["typical_factor"], row["eta_squared"], row["mean_abs_rate_change"])
        shown = [f"{number:.2f}" if np.isfinite(number) else "–" for number in numbers]
        factor = "–" if shown[0] == "–" else f"× {shown[0]}"
        rows.append([row["choice"], f"{row['levels']:.0f}", factor, *shown[1:]])
        keys.append([row["choice"], row["levels"], *numbers])
    return Table(
        ("choice", "levels", "p50 moves by", "share of variance", "doublings a year"),
        rows,
        "Which choice moves the answer most, all else equal: the typical factor of the 50 % "
        "horizon, the share of its variance, and the change of the trend.",
        keys=keys,
        sorted_by=2,
    )


def _sensitivity_sections(found: StoredMultiverse) -> list[Section]:
    blocks: list[Block] = []
    if found.sensitivity is not None:
        named = found.sensitivity.assign(
            what=found.sensitivity["parameter"] + ": " + found.sensitivity["change"]
        )
        blocks.append(_changes_table(named, "what", "other prior"))
    if found.influence is not None:
        blocks.append(_changes_table(found.influence, "family", "without the family"))
    return [Section("Priors and families", blocks, "priors")] if blocks else []


def _changes_table(table: pd.DataFrame, column: str, header: str) -> Table:
    """Return what moves the 50 % horizons most, with the agent that it moves furthest."""
    known = table.dropna(subset=["log2_change"])
    size = known["log2_change"].abs()
    order = size.groupby(known[column]).mean().sort_values(ascending=False)
    rows = []
    for name in order.index[:_SHOWN]:
        own = known[known[column] == name]
        furthest = own.loc[own["log2_change"].abs().idxmax()]
        largest = float(furthest["log2_change"])
        rows.append([str(name), change_text(order[name]), change_text(largest), furthest["agent"]])
    caption = (
        f"How far 50 % horizons move: typically, and for the agent that moves furthest. "
        f"{len(rows)} of {len(order):,} shown, the most moving first."
    )
    return Table((header, "typically", "at most", "agent"), rows, caption)
