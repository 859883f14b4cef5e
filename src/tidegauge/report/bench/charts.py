"""Charts of sweeps: the leaderboard, medal odds, time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from tidegauge.bench.sweep.table import CompetitionRow, Row
from tidegauge.report.charts import ACCENT, INK, MUTED, PALETTE, chart_data

_WIDTH = 560
_ROW_HEIGHT = 34


def leaderboard_chart(rows: Sequence[Row]) -> Any:
    """Draw the share of medals of each agent; thick: ± 1.96 se_runs, thin: ± 1.96 se_tasks."""
    data = [
        {
            "agent": row.agent,
            "medals": row.any_medal,
            **_interval("runs", row.any_medal, row.se_runs),
            **_interval("tasks", row.any_medal, row.se_tasks),
        }
        for row in rows
        if row.any_medal is not None
    ]
    x = alt.X("medals:Q", title="competitions with a medal, %", scale=alt.Scale(domain=[0, 100]))
    order = [row["agent"] for row in sorted(data, key=lambda row: -float(row["medals"] or 0))]
    y = alt.Y("agent:N", sort=order, title=None)
    base = alt.Chart(chart_data(data))
    tasks = base.mark_rule(color=MUTED, strokeWidth=2).encode(
        x="tasks_low:Q", x2="tasks_high:Q", y=y
    )
    runs = base.mark_rule(color=ACCENT, strokeWidth=6, opacity=0.6).encode(
        x="runs_low:Q", x2="runs_high:Q", y=y
    )
    points = base.mark_point(filled=True, size=80, color=INK, opacity=1).encode(x=x, y=y)
    return alt.layer(tasks, runs, points).properties(
        width=_WIDTH, height=max(60, _ROW_HEIGHT * len(data))
    )


def _interval(name: str, value: float | None, error: float | None) -> dict[str, float | None]:
    if value is None or error is None:
        return {f"{name}_low": value, f"{name}_high": value}
    low, high = value - 1.96 * error, value + 1.96 * error
    return {f"{name}_low": max(0.0, low), f"{name}_high": min(100.0, high)}


def odds_chart(rows: Sequence[CompetitionRow]) -> Any:
    """Draw each agent's odds of a medal in each competition, had other test rows been drawn."""
    data = [
        {"competition": row.competition, "agent": row.agent, "odds": row.p_medal}
        for row in rows
        if row.p_medal is not None
    ]
    agents = list(dict.fromkeys(row.agent for row in rows))
    competitions = list(dict.fromkeys(str(row["competition"]) for row in data))
    colours = [PALETTE[number % len(PALETTE)] for number in range(len(agents))]
    return (
        alt.Chart(chart_data(data))
        .mark_point(filled=True, size=70, opacity=0.85)
        .encode(
            x=alt.X("odds:Q", title="probability of a medal", scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("competition:N", title=None, axis=alt.Axis(labelLimit=260)),
            color=alt.Color(
                "agent:N", scale=alt.Scale(domain=agents, range=colours), title="agent"
            ),
            # Agents of equal odds stand below one another.
            yOffset=alt.YOffset("agent:N", sort=agents),
        )
        .properties(width=_WIDTH - 120, height=max(80, _ROW_HEIGHT * len(competitions)))
    )
