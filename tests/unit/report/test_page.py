"""The page stands alone: everything inside, every text escaped."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import altair as alt

from tidegauge.report.charts import chart_data, chart_svg
from tidegauge.report.page import (
    Card,
    Facts,
    Figure,
    Grid,
    Image,
    Page,
    Remark,
    Section,
    Table,
    Text,
    render_page,
    write_page,
)

HOSTILE = "<script>alert('x')</script> & \"quoted\""
VOID = {"meta", "img", "br", "link", "input"}


class _Balance(HTMLParser):
    """Collects unclosed elements, ids and links."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        values = dict(attrs)
        self.ids += [values["id"]] if values.get("id") else []
        self.links += [values["href"]] if tag == "a" and values.get("href") else []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def chart_svg_of_two_points() -> str:
    rows = [{"x": 1, "y": 2}, {"x": 2, "y": 3}]
    return chart_svg(alt.Chart(chart_data(rows)).mark_point().encode(x="x:Q", y="y:Q"))


def full_page() -> Page:
    table = Table((HOSTILE, "b"), [[HOSTILE, "1"]], HOSTILE, ["one"])
    card = Card(HOSTILE, [Facts([(HOSTILE, HOSTILE)]), Image(b"\x89PNG", HOSTILE)], "one")
    blocks = [Text(HOSTILE), Remark(HOSTILE), table, Figure(chart_svg_of_two_points(), HOSTILE)]
    return Page(HOSTILE, HOSTILE, [Section(HOSTILE, [*blocks, Grid([card])], "first")])


def test_every_text_is_escaped() -> None:
    html = render_page(full_page())
    assert "<script" not in html
    assert html.count("&lt;script&gt;") >= 12


def test_nothing_is_loaded_from_elsewhere() -> None:
    html = render_page(full_page())
    addresses = re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([^"')\s>]+)""", html)
    assert addresses
    for address in addresses:
        assert address.startswith(("#", "data:")), address
    assert "@import" not in html


def test_elements_are_closed_and_links_lead_somewhere() -> None:
    parser = _Balance()
    parser.feed(render_page(full_page()))
    assert parser.open == []
    assert parser.links
    assert {link.removeprefix("#") for link in parser.links} <= set(parser.ids)


def test_page_is_written_whole(tmp_path: Path) -> None:
    write_page(full_page(), tmp_path / "a" / "page.html")
    assert (tmp_path / "a" / "page.html").read_text().rstrip().endswith("</html>")


def test_values_that_are_not_finite_are_left_out_of_a_chart() -> None:
    rows = [{"x": 1.0, "y": float("nan")}, {"x": float("inf"), "y": 2.0}, {"x": 2.0, "y": 3.0}]
    svg = chart_svg(alt.Chart(chart_data(rows)).mark_circle().encode(x="x:Q", y="y:Q"))
    assert svg.count('aria-roledescription="circle"') == 1
