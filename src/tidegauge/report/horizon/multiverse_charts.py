"""Charts of a multiverse: spread per choice, specification curves, priors and families."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from tidegauge.horizon.studies.effects import choices_table
from tidegauge.horizon.studies.multiverse import doubling_table, horizons_table
from tidegauge.horizon.studies.multiverse_study import Study
from tidegauge.horizon.studies.sensitivity import LIKELIHOOD
from tidegauge.report.charts import ACCENT, INK, MUTED

_WHOLE_NAMES = alt.Axis(labelLimit=320)
_LEAST_MINUTES, _MOST_MINUTES = 1e-3, 1e7  # a bar that runs off any axis is cut; the table is not
_MOST_MONTHS = 60.0
_SHOWN_FAMILIES = 25
_WIDTH = 560
_BOX: dict[str, Any] = {
    **{"extent": "min-max", "color": ACCENT, "size": 11},
    **{"box": {"opacity": 0.6}, "median": {"color": INK, "strokeWidth": 2}},
}
_HEAT = ["#e0a15c", "#f9fafb", "#4fb3a5"]  # light enough for the numbers on them


def multiverse_charts(found: Study) -> dict[str, Any]:
    """Return every chart that the study has data for, by the name of its file."""
    charts: dict[str, Any] = {}
    horizons = horizons_table(found.multiverse).dropna(subset=["p50"])
    doubling = doubling_table(found.multiverse)
    order = list(choices_table(found.multiverse)["choice"])
    if not horizons.empty:
        charts["horizons"] = agents_chart(horizons)
        agent = str(horizons.groupby("agent")["p50"].median().idxmax())
        charts["curve_p50"] = horizon_curve(horizons, order, agent)
        if order:
            relative = _relative(horizons, found.multiverse.tasks_log2)
            charts["choices_p50"] = choices_chart(relative, order, **_FACTOR)
    rising = doubling[(doubling["doubling_months"] > 0)]
    if not rising.empty:
        charts["curve_doubling"] = doubling_curve(rising, order)
        if order:
            charts["choices_doubling"] = choices_chart(_months(rising), order, **_MONTHS)
    if found.sensitivity is not None:
        charts["sensitivity"] = sensitivity_chart(found.sensitivity)
    if found.influence is not None:
        charts["influence"] = influence_chart(found.influence)
    return charts


_FACTOR: dict[str, Any] = {
    "title": "50 % horizon under each choice",
    "axis": "times the agent's median over all universes",
    "log": True,
}
_MONTHS: dict[str, Any] = {
    "title": "Doubling time under each choice",
    "axis": f"months (longer than {_MOST_MONTHS:.0f} drawn there)",
    "log": False,
}


def _relative(table: pd.DataFrame, tasks_log2: tuple[float, float]) -> pd.DataFrame:
    """Divide every horizon by its agent's median, so that agents can share a box.

    Horizons outside the range of the tasks count as its ends, as they do in the effects.
    """
    minutes = table["p50"].clip(2.0 ** tasks_log2[0], 2.0 ** tasks_log2[1])
    middle = minutes.groupby(table["agent"]).transform("median")
    return table.assign(value=minutes / middle)


def _months(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(value=table["doubling_months"].clip(upper=_MOST_MONTHS))


def agents_chart(table: pd.DataFrame) -> alt.Chart:
    """Draw every agent's 50 % horizon over all universes as a box."""
    data = table[["agent"]].assign(p50=table["p50"].clip(_LEAST_MINUTES, _MOST_MINUTES))
    order = list(data.groupby("agent")["p50"].median().sort_values(ascending=False).index)
    return (
        alt.Chart(data)
        .mark_boxplot(**_BOX)
        .encode(
            y=alt.Y("agent:N", sort=order, title=None, axis=_WHOLE_NAMES),
            x=alt.X("p50:Q", scale=alt.Scale(type="log"), axis=_ticks(), title=_MINUTES),
        )
        .properties(width=_WIDTH, height=alt.Step(20), title="50 % horizon over all universes")
    )


_MINUTES = "minutes of human work"


def _ticks() -> alt.Axis:
    return alt.Axis(values=[10.0**k for k in range(-3, 8)], format="~g")


def choices_chart(
    table: pd.DataFrame, choices: Sequence[str], *, title: str, axis: str, log: bool
) -> alt.VConcatChart:
    """Draw one box per level of every choice, the choice that moves p50 most first."""
    scale = alt.Scale(type="log") if log else alt.Scale(zero=False)
    ends = [float(table["value"].min()), float(table["value"].max())]
    scale.domain = ends if ends[0] < ends[1] else alt.Undefined
    panels = []
    for choice in choices:
        own = table[table[choice] != ""]
        data = pd.DataFrame({"level": own[choice].map(_level), "value": own["value"]})
        levels = list(dict.fromkeys(data["level"]))
        last = choice == choices[-1]
        panels.append(
            alt.Chart(data)
            .mark_boxplot(**_BOX)
            .encode(
                y=alt.Y("level:N", sort=levels, title=None, axis=_WHOLE_NAMES),
                x=alt.X("value:Q", scale=scale, title=axis if last else None),
            )
            .properties(width=_WIDTH, height=alt.Step(18), title=_heading(choice))
        )
    return alt.vconcat(*panels, spacing=8).properties(title=title)


def _heading(choice: str) -> alt.TitleParams:
    return alt.TitleParams(choice, fontSize=12, fontWeight="normal", frame="group")


def _level(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def horizon_curve(table: pd.DataFrame, choices: Sequence[str], agent: str) -> alt.VConcatChart:
    """Draw one agent's horizon in every universe, in rising order, above the choices made."""
    own = table[table["agent"] == agent].sort_values("p50")
    ends = {
        name: own[name].clip(_LEAST_MINUTES, _MOST_MINUTES).to_numpy()
        for name in ("p50", "low", "high")
    }
    axis = alt.Y("low:Q", scale=alt.Scale(type="log"), axis=_ticks(), title=_MINUTES)
    return _curve(own, ends, choices, axis, f"50 % horizon of {agent}, 95 % intervals")


def doubling_curve(table: pd.DataFrame, choices: Sequence[str]) -> alt.VConcatChart:
    """Draw the doubling time of every universe, in rising order, above the choices made."""
    own = table.sort_values("doubling_months")
    columns = {"p50": "doubling_months", "low": "fastest_months", "high": "slowest_months"}
    ends = {
        name: own[column].astype(float).clip(0.5, _MOST_MONTHS).to_numpy()
        for name, column in columns.items()
    }
    ticks = alt.Axis(values=[0.5, 1, 2, 3, 6, 12, 24, 60], format="~g")
    title = f"months (up to {_MOST_MONTHS:.0f})"
    axis = alt.Y("low:Q", scale=alt.Scale(type="log", nice=False), axis=ticks, title=title)
    return _curve(own, ends, choices, axis, "Doubling time, 95 % intervals")


def _curve(
    own: pd.DataFrame,
    ends: dict[str, Any],
    choices: Sequence[str],
    axis: alt.Y,
    title: str,
) -> alt.VConcatChart:
    place = np.arange(1, len(own) + 1)
    data = pd.DataFrame({"place": place, **ends})
    x = alt.X("place:Q", axis=None, scale=alt.Scale(domain=[0, len(own) + 1]))
    base = alt.Chart(data).encode(x=x)
    bars = base.mark_rule(color=MUTED, strokeWidth=2).encode(y=axis, y2="high:Q")
    dots = base.mark_circle(color=ACCENT, size=26, opacity=1).encode(y="p50:Q")
    panels: list[Any] = [(bars + dots).properties(width=_WIDTH, height=200, title=title)]
    for choice in choices:
        levels = own[choice].map(_level)
        made = pd.DataFrame({"place": place, "level": levels.to_numpy()})
        made = made[made["level"] != ""]
        panels.append(
            alt.Chart(made)
            .mark_tick(color=INK, thickness=3, size=10, orient="vertical")
            .encode(
                x=alt.X("place:Q", axis=None, scale=alt.Scale(domain=[0, len(own) + 1])),
                y=alt.Y("level:N", title=None, axis=_WHOLE_NAMES),
            )
            .properties(width=_WIDTH, height=alt.Step(13), title=_heading(choice))
        )
    return alt.vconcat(*panels, spacing=4)


def sensitivity_chart(table: pd.DataFrame) -> alt.LayerChart:
    """Draw how far p50 of every agent moves under every other prior."""
    known = table[table["parameter"] != LIKELIHOOD].dropna(subset=["log2_change"])
    data = pd.DataFrame(
        {
            "row": known["parameter"] + ": " + known["change"],
            "agent": known["agent"],
            "change": known["log2_change"],
        }
    )
    order = data["change"].abs().groupby(data["row"]).mean().sort_values(ascending=False)
    return _heat(data, list(order.index), "Other priors: log2 change of the 50 % horizon")


def influence_chart(table: pd.DataFrame) -> alt.LayerChart:
    """Draw how far p50 of every agent moves without each of the most influential families."""
    known = table.dropna(subset=["log2_change"])
    order = list(dict.fromkeys(known["family"]))[:_SHOWN_FAMILIES]
    kept = known[known["family"].isin(order)]
    data = pd.DataFrame(
        {"row": kept["family"], "agent": kept["agent"], "change": kept["log2_change"]}
    )
    return _heat(data, order, "Without a family: log2 change of the 50 % horizon")


def _heat(data: pd.DataFrame, order: list[str], title: str) -> alt.LayerChart:
    most = max(float(data["change"].abs().max()), 1e-3) if len(data) else 1.0
    colours = alt.Scale(domain=[-most, 0, most], range=_HEAT, interpolate="rgb")
    base = alt.Chart(data).encode(
        y=alt.Y("row:N", sort=order, title=None, axis=_WHOLE_NAMES),
        x=alt.X("agent:N", title=None, axis=alt.Axis(labelAngle=-40, labelLimit=200)),
    )
    cells = base.mark_rect().encode(color=alt.Color("change:Q", scale=colours, title="log2 change"))
    texts = base.mark_text(fontSize=9, color=INK).encode(text=alt.Text("change:Q", format="+.2f"))
    return (cells + texts).properties(width=alt.Step(44), height=alt.Step(18), title=title)
