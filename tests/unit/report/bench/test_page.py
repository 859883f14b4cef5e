"""The page of a sweep holds what the table says, and opens without network or faults."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from calls import Call
from tidegauge.bench.sweep.results import read_results
from tidegauge.report.bench.page import write_sweep_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture
def reports(tmp_path: Path) -> list[Path]:
    """Two agents, three seeds, on three competitions; one agent's name is hostile."""
    paths = []
    for seed in (1, 2, 3):
        found = []
        for agent, share in (("careful", 2), ("<script>alert(1)</script>", 1)):
            for number, name in enumerate(("AI4Code", "harbour-depths", "spaceship-titanic")):
                medal = number < share
                found.append(
                    {
                        "competition_id": name, "alias": agent, "score": 0.5 + number / 10,
                        "score_se": 0.02, "any_medal": medal, "valid_submission": True,
                        "submission_exists": True, "p_bronze_or_better": 0.9 if medal else 0.2,
                        "seconds": 60.0 * seed, "tokens_count": 1000, "isolation": "bwrap",
                        "network": "none but the validator", "validations": 2,
                        "leaks_removed": False,
                    }
                )  # fmt: skip
        (path := tmp_path / f"{seed}.json").write_text(json.dumps({"competition_reports": found}))
        paths.append(path)
    return paths


def test_the_page_has_the_tables_figures_and_notices(
    reports: list[Path], tmp_path: Path, call: Call
) -> None:
    out = tmp_path / "page.html"
    assert call("bench", "report", *reports, "--out", out).code == 0
    text = out.read_text()
    assert "2 agents, 3 competitions, 18 graded runs" in text
    assert text.count("<svg") == 2
    assert "66.67" in text  # two of three competitions
    assert "names cells in their true order" in text
    assert "none but the validator" in text
    assert "<script>alert" not in text
    assert not re.search(r'(src|href)="https?:', text)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_the_page_opens_in_a_browser_without_a_fault(reports: list[Path], tmp_path: Path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api")
    write_sweep_page(read_results(reports), tmp_path / "page.html")
    faults: list[str] = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": 900})
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
        page.on("request", lambda r: None if r.url.startswith("file:") else faults.append(r.url))
        page.goto((tmp_path / "page.html").as_uri())
        headings = page.locator("h2").all_inner_texts()
        box = page.locator("svg").first.bounding_box()
        overflow = page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
        browser.close()
    assert faults == []
    assert headings[:3] == ["Leaderboard", "Competitions", "Time and cost"]
    assert box is not None
    assert box["width"] > 300
    assert not overflow
