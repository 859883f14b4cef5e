"""Charts: one look, and one specification for SVG, PNG and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt

INK, MUTED, GRID = "#1f2933", "#5c6b7a", "#e4e8ec"
BLUE, ORANGE, GREEN, RED = "#1f6fb2", "#d9731a", "#2e8b57", "#b8323a"
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
PNG_SCALE = 2.0


def styled(chart: Any, *, width: int = 420, height: int = 240) -> Any:
    """Return the chart in the common look, of this inner size in pixels."""
    return (
        chart.properties(width=width, height=height)
        .configure(font=FONT, background="white")
        .configure_view(stroke=None)
        .configure_axis(
            gridColor=GRID,
            domainColor=MUTED,
            tickColor=MUTED,
            labelColor=INK,
            titleColor=INK,
            titleFontWeight="normal",
            labelFontSize=11,
            titleFontSize=12,
        )
        .configure_legend(labelColor=INK, titleColor=INK, orient="bottom", labelFontSize=11)
        .configure_title(anchor="start", fontSize=13, color=INK)
    )


def chart_svg(chart: Any) -> str:
    """Return the chart as an SVG element that a page can hold: no script, no network."""
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(chart.to_json())
    return svg[svg.index("<svg") :]


def save_chart(chart: Any, stem: Path) -> None:
    """Write ``stem.svg`` and ``stem.png`` from one specification."""
    import vl_convert

    specification = chart.to_json()
    stem.with_suffix(".svg").write_text(vl_convert.vegalite_to_svg(specification), encoding="utf-8")
    stem.with_suffix(".png").write_bytes(vl_convert.vegalite_to_png(specification, scale=PNG_SCALE))


def table_of(rows: Sequence[Mapping[Any, Any]]) -> alt.Data:
    """Return rows as inline chart data."""
    return alt.Data(values=[dict(row) for row in rows])
