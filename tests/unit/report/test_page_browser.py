"""The page in a real browser: it fits a telephone, and asks the network for nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tidegauge.report.page import Card, Facts, Figure, Grid, Page, Section, Table, Text, write_page

pytestmark = pytest.mark.browser
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    size = 'width="900" height="300" viewBox="0 0 900 300"'
    wide = f'<svg xmlns="http://www.w3.org/2000/svg" {size}></svg>'
    table = Table(("patient", *"abcdefgh"), [["ID" * 12, *["1,234 (1,000 to 2,000)"] * 8]], "All")
    cards = [Card("ID" * 12, [Figure(wide, "c" * 60), Facts([("label", "value")] * 4)])] * 5
    page = Page("Title", "word " * 40, [Section("S", [Text("x " * 300), table, Grid(cards)], "s")])
    path = tmp_path_factory.mktemp("page") / "page.html"
    write_page(page, path)
    return path.as_uri()


@pytest.mark.parametrize("width", [390, 1440])
def test_page_never_scrolls_sideways_and_loads_nothing(
    browser: Any, address: str, width: int
) -> None:
    tab = browser.new_page(viewport={"width": width, "height": 900})
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(address)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert asked == [address]
    tab.close()
