"""Charts from arrays: one Vega-Lite specification gives PNG, SVG and HTML without a browser."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from tidegauge.io import atomic_folder

INK, ACCENT, SECOND, MUTED = "#1f2937", "#0f766e", "#b45309", "#9ca3af"
PALETTE = (SECOND, "#2563eb", ACCENT, "#7c3aed", "#be123c", "#4d7c0f")
PNG_SCALE = 2.0


def themed(chart: alt.TopLevelMixin) -> alt.TopLevelMixin:
    """Give a chart the house look: light grid, dark ink, no frame."""
    axis = {"gridColor": "#e5e7eb", "domainColor": MUTED, "tickColor": MUTED, "labelColor": INK}
    # One call for all: each copies the whole chart.
    return chart.configure(
        view={"stroke": None},
        axis={**axis, "titleColor": INK, "labelFontSize": 11, "titleFontSize": 12},
        title={"anchor": "start", "color": INK, "fontSize": 14, "subtitleColor": "#4b5563"},
        legend={"titleColor": INK, "labelColor": INK},
        header={"labelColor": INK, "titleColor": INK},
    )


def specification(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """Return the Vega-Lite specification, themed and with its data inside."""
    with alt.data_transformers.enable("default", max_rows=None):
        spec: dict[str, Any] = themed(chart).to_dict()
    return spec


def save_chart(chart: alt.TopLevelMixin, stem: Path) -> list[Path]:
    """Write ``stem.png`` and ``stem.svg``; return their paths."""
    drawn = vl_convert.vegalite_to_svg(specification(chart))
    png, svg = stem.with_name(stem.name + ".png"), stem.with_name(stem.name + ".svg")
    png.write_bytes(vl_convert.svg_to_png(drawn, scale=PNG_SCALE))
    svg.write_text(drawn, encoding="utf-8")
    return [png, svg]


def save_charts(
    charts: Mapping[str, alt.TopLevelMixin], folder: Path, *, owned: Sequence[str] = ()
) -> None:
    """Write every chart as PNG and SVG under its name, all together or none.

    Files named in `owned` that are not written now are removed.
    """
    with atomic_folder(folder, owned=owned) as staging:
        for name, chart in charts.items():
            save_chart(chart, staging / name)


def chart_svg(chart: alt.TopLevelMixin) -> str:
    """Return the chart as an SVG element for a page to hold: no script, no network."""
    svg: str = vl_convert.vegalite_to_svg(specification(chart))
    return svg[svg.index("<svg") :]


def chart_data(rows: Sequence[Mapping[Any, Any]]) -> alt.Data:
    """Return rows as inline chart data; what is not finite becomes null, which is not drawn.

    One text, because Altair copies and checks every value of a list whenever a chart is used.
    """
    text = json.dumps([{key: _finite(value) for key, value in row.items()} for row in rows])
    return alt.Data(values=text, format=alt.DataFormat(type="json"))


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
