"""The horizon page in a real browser: offline, quiet, its toggles switch and its table sorts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

pytestmark = pytest.mark.browser
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def address(page_folder: Path) -> str:
    return (page_folder / "page.html").as_uri()


@pytest.fixture(params=[390, 1440])
def tab(request: pytest.FixtureRequest, browser: Any, address: str) -> Iterator[Any]:
    """The page at a telephone's and at a desk's width; it must have asked for itself alone."""
    yield from opened(browser, address, request.param)


@pytest.fixture(params=[390, 1440])
def whole(request: pytest.FixtureRequest, browser: Any, whole_page_folder: Path) -> Iterator[Any]:
    """The same of a page with trends, methods and a multiverse beside the fit."""
    yield from opened(browser, (whole_page_folder / "page.html").as_uri(), request.param)


def opened(browser: Any, address: str, width: int) -> Iterator[Any]:
    tab = browser.new_page(viewport={"width": width, "height": 900})
    asked: list[str] = []
    said: list[str] = []
    tab.on("request", lambda one: asked.append(one.url))
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.goto(address)
    yield tab
    tab.close()
    assert asked == [address]
    assert said == []


def shown_title(tab: Any) -> str:
    """Title of the one chart that the headline switch shows."""
    charts = tab.locator("#headline svg:visible")
    assert charts.count() == 1
    title: str = charts.locator(".role-title-text").text_content()
    return title


def test_page_never_scrolls_sideways(tab: Any) -> None:
    assert tab.evaluate("document.documentElement.scrollWidth") <= tab.viewport_size["width"]


def test_each_toggle_changes_the_chart(tab: Any) -> None:
    assert shown_title(tab).startswith("50 % horizon, typical")
    dots = "#headline svg:visible [aria-roledescription=circle]"
    before = tab.locator(dots).first.get_attribute("transform")
    tab.get_by_text("80 %", exact=True).first.click()
    assert shown_title(tab).startswith("80 % horizon, typical")
    assert tab.locator(dots).first.get_attribute("transform") != before
    tab.get_by_text("marginal", exact=True).click()
    assert shown_title(tab).startswith("80 % horizon, marginal")
    tab.get_by_text("50 %", exact=True).first.click()
    assert shown_title(tab).startswith("50 % horizon, marginal")


def test_toggles_work_from_the_keyboard(tab: Any) -> None:
    tab.get_by_label("50 %", exact=True).focus()
    tab.keyboard.press("ArrowRight")
    assert shown_title(tab).startswith("80 %")


def test_table_sorts_by_any_heading_both_ways(tab: Any, fit_folder: Path) -> None:
    table = pd.read_csv(fit_folder / "horizons.csv")

    def agents() -> list[str]:
        names: list[str] = tab.locator(".sortable tbody th").all_text_contents()
        return names

    def press(heading: str) -> str | None:
        tab.locator(".sortable thead button").get_by_text(heading, exact=True).first.click()
        sorts: list[str | None] = tab.locator(".sortable thead th").evaluate_all(
            "cells => cells.map(cell => cell.getAttribute('aria-sort')).filter(Boolean)"
        )
        assert len(sorts) == 1
        return sorts[0]

    longest_first = list(table.sort_values("p50", ascending=False)["agent"])
    assert agents() == longest_first
    assert press("50 %") == "ascending"
    assert agents() == longest_first[::-1]
    assert press("runs") == "descending"
    assert agents() == list(table.sort_values("n_runs", ascending=False)["agent"])
    assert press("agent") == "ascending"
    assert agents() == sorted(table["agent"])
    tab.locator(".sortable thead button").first.focus()
    tab.keyboard.press("Enter")
    assert agents() == sorted(table["agent"], reverse=True)


def test_hovering_a_dot_names_its_agent(tab: Any, fit_folder: Path) -> None:
    titles = tab.locator("#headline svg:visible [aria-roledescription=circle] title")
    said = " ".join(titles.all_text_contents())
    for agent in pd.read_csv(fit_folder / "horizons.csv")["agent"]:
        assert agent in said


def test_every_toggle_of_the_whole_page_changes_its_chart(whole: Any) -> None:
    switches = whole.locator(".switch")
    assert switches.count() == 3
    for s in range(switches.count()):
        switch = switches.nth(s)
        charts = switch.locator("svg:visible")
        for f in range(switch.locator("fieldset").count()):
            labels = switch.locator("fieldset").nth(f).locator("label")
            seen = set()
            for a in range(labels.count()):
                labels.nth(a).click()
                assert charts.count() == 1
                seen.add(charts.inner_html())
            assert len(seen) == labels.count(), labels.all_text_contents()


def test_whole_page_is_readable_and_never_scrolls_sideways(whole: Any) -> None:
    assert whole.evaluate("document.documentElement.scrollWidth") <= whole.viewport_size["width"]
    check_scales(whole, least=12)


def test_every_sortable_table_of_the_whole_page_sorts(whole: Any) -> None:
    tables = whole.locator("table.sortable")
    assert tables.count() == 3
    for t in range(tables.count()):
        heads, rows = tables.nth(t).locator("thead button"), tables.nth(t).locator("tbody th")
        heads.first.click()
        rising = rows.all_text_contents()
        assert rising == sorted(rising)
        heads.first.click()
        assert rows.all_text_contents() == rising[::-1]


def test_chart_texts_are_large_enough_to_read(tab: Any) -> None:
    check_scales(tab, least=9)


def check_scales(tab: Any, *, least: int) -> None:
    # The drawing must not be shrunk so far that its 11-pixel labels fall below 9 pixels.
    scales = tab.locator("figure svg:visible").evaluate_all(
        "all => all.map(svg => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width)"
    )
    assert len(scales) >= least
    assert min(scales) > 9 / 11
