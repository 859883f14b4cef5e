"""One self-contained page of sweeps and grading reports."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidegauge.bench.mlebench.notices import notices_of
from tidegauge.bench.sweep.results import Results
from tidegauge.bench.sweep.table import (
    CompetitionRow,
    Row,
    make_competition_table,
    make_table,
)
from tidegauge.report.bench.charts import leaderboard_chart, odds_chart
from tidegauge.report.charts import chart_svg
from tidegauge.report.page import (
    Block,
    Facts,
    Figure,
    Page,
    Remark,
    Section,
    Table,
    Text,
    write_page,
)


def write_sweep_page(results: Results, path: Path, *, pad: bool = False) -> None:
    """Write the page of graded runs: leaderboard, competitions, time and cost, notices."""
    rows, cells = make_table(results, pad=pad), make_competition_table(results)
    page = Page(
        title="Agents on competitions",
        subtitle=", ".join(
            f"{number:,} {noun}{'s' if number != 1 else ''}"
            for number, noun in (
                (len(results.agents), "agent"),
                (len(results.competitions), "competition"),
                (_count(results), "graded run"),
            )
        ),
        sections=[
            Section("Leaderboard", _leaderboard(rows, pad=pad)),
            Section("Competitions", _competitions(cells)),
            Section("Time and cost", _time_and_cost(results)),
            Section("Notices", _notices(results)),
            Section("What the agents could know", _knowledge(results)),
        ],
    )
    write_page(page, path)


def _count(results: Results) -> int:
    return sum(len(queue) for queue in (_all(results, agent) for agent in results.agents))


def _all(results: Results, agent: str) -> list[dict[str, Any]]:
    """Return every report of an agent."""
    of_agent = results.reports[agent]
    found = (report for name in results.competitions for report in of_agent.get(name, ()))
    return [report for report in found if report is not None]


def _leaderboard(rows: Sequence[Row], *, pad: bool) -> list[Block]:
    whole = [row for row in rows if row.split == "all"]
    blocks: list[Block] = []
    if any(row.any_medal is not None for row in whole):
        caption = (
            "Share of competitions with a medal, mean over seeds. Thick: the 95 % interval had the "
            "agent been run again. Thin: had other competitions been drawn."
        )
        blocks.append(Figure(chart_svg(leaderboard_chart(whole)), caption))
    header = ["agent", "split", "tasks", "seeds", "medals, %", "sem", "se runs", "se tasks",
              "se test", "expected medals", "missing"]  # fmt: skip
    shown = [
        [row.agent, row.split, str(row.competitions), _number(row.seeds), _number(row.any_medal),
         _number(row.sem), _number(row.se_runs), _number(row.se_tasks), _number(row.se_test),
         _number(row.expected_medals), str(row.missing)]
        for row in rows
    ]  # fmt: skip
    caption = (
        "sem is MLE-bench's standard error over seeds: 0 for one seed, and often 0 for three. The "
        "others: runs repeated, other competitions, other test rows."
    )
    blocks.append(Table(header, shown, caption))
    if missing := sum(row.missing for row in whole):
        how = "they count as failures" if pad else "they are left out"
        blocks.append(Remark(f"{missing} runs are missing; {how}."))
    return blocks


def _competitions(cells: Sequence[CompetitionRow]) -> list[Block]:
    blocks: list[Block] = []
    if any(cell.p_medal is not None and cell.score_se is not None for cell in cells):
        caption = "The odds of a medal, had other test rows of the same kind been drawn."
        blocks.append(Figure(chart_svg(odds_chart(cells)), caption))
    header = ["competition", "agent", "runs", "medals", "median score", "± se", "p(medal)"]
    rows = [
        [c.competition, c.agent, str(c.runs), str(c.medals), _number(c.median_score),
         _number(c.score_se), _number(c.p_medal)]
        for c in cells
    ]  # fmt: skip
    keys: list[list[float | str]] = [
        [c.competition, c.agent, c.runs, c.medals, _key(c.median_score), _key(c.score_se),
         _key(c.p_medal)]
        for c in cells
    ]  # fmt: skip
    blocks.append(Table(header, rows, keys=keys))
    return blocks


def _time_and_cost(results: Results) -> list[Block]:
    rows = []
    for agent in results.agents:
        reports = _all(results, agent)
        minutes = [float(r["seconds"]) / 60 for r in reports if r.get("seconds") is not None]
        tokens = [int(r["tokens_count"]) for r in reports if r.get("tokens_count") is not None]
        medals = sum(bool(r.get("any_medal")) for r in reports)
        rows.append(
            [
                agent,
                str(len(reports)),
                _number(statistics.fmean(minutes) if minutes else None),
                _number(sum(minutes) / 60 if minutes else None),
                f"{sum(tokens):,}" if tokens else "-",
                _number(sum(minutes) / 60 / medals if minutes and medals else None),
            ]
        )
    header = ["agent", "runs", "minutes a run", "hours in all", "tokens", "hours a medal"]
    return [Table(header, rows, "Wall clock of the agents; tokens as they report them.")]


def _notices(results: Results) -> list[Block]:
    pairs = [
        (name, f"{notice.kind}: {notice.text}")
        for name in results.competitions
        for notice in notices_of(name)
    ]
    return [Facts(pairs) if pairs else Text("Nothing is known against these competitions.")]


def _knowledge(results: Results) -> list[Block]:
    rows = []
    for agent in results.agents:
        reports = _all(results, agent)

        def kinds(field: str, reports: list[dict[str, Any]] = reports) -> str:
            found = dict.fromkeys(str(r[field]) for r in reports if r.get(field) is not None)
            return ", ".join(found) or "not recorded"

        validations = [int(r["validations"]) for r in reports if r.get("validations") is not None]
        rows.append(
            [
                agent,
                kinds("isolation"),
                kinds("network"),
                f"{sum(validations):,}" if validations else "not recorded",
                kinds("leaks_removed"),
            ]
        )
    header = ["agent", "isolation", "network", "validations", "leaks removed"]
    caption = "Validation tells whether a file is well formed; no score was computed during a run."
    return [Table(header, rows, caption)]


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def _key(value: float | None) -> float:
    return float("-inf") if value is None else value
