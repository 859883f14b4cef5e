"""The horizon page says what the fit's files say, and nothing is written of what it cannot read."""

from __future__ import annotations

import datetime
import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import tidegauge.horizon as th
from builders import agent_row, describe_anew, human_row, write_rows
from tidegauge.cli.main import cli
from tidegauge.errors import InputError
from tidegauge.horizon import HorizonFit, load, write_report
from tidegauge.horizon.horizons.estimate import Curves
from tidegauge.horizon.result import CurveFit
from tidegauge.horizon.store.studies import read_studies
from tidegauge.horizon.trend.frontier import FRONTIER_NOTE
from tidegauge.report.durations import TICKS, duration_axis, duration_text
from tidegauge.report.horizon.content import CHARTS, STUDY_CHARTS, content_of
from tidegauge.report.horizon.headline import Bar, minutes_range
from tidegauge.report.horizon.words import findings, summary
from tidegauge.report.page import Findings, Page, Section, Table, render_page

HOSTILE = "</svg><script>alert('x')</script> & \"quoted\""


@pytest.fixture(scope="module")
def html(page_folder: Path) -> str:
    return (page_folder / "page.html").read_text()


def table_rows(html: str) -> list[list[str]]:
    """Cells of the sortable table, as text."""
    body = html[html.index('<table class="sortable"') :]
    rows = re.findall(r"<tr>(.*?)</tr>", body[: body.index("</table>")], re.S)[1:]
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]


def odd(folder: Path, **parts: Any) -> CurveFit:
    """Return a regression with other agents or curves."""
    found = load(folder)
    assert isinstance(found, CurveFit)
    names = parts.get("agents", found.design.agents)
    runs = replace(found.runs, design=replace(found.design, agents=names), release_dates={})
    return replace(found, runs=runs, found=replace(found.found, **parts))


def test_table_has_the_numbers_of_the_file_longest_first(html: str, fit_folder: Path) -> None:
    table = pd.read_csv(fit_folder / "horizons.csv").sort_values("p50", ascending=False)
    rows = table_rows(html)
    assert [row[0] for row in rows] == list(table["agent"])
    assert [row[1] for row in rows] == list(table["release_date"])
    assert [row[2] for row in rows] == [duration_text(p50) for p50 in table["p50"]]
    ends = zip(table["p80q0.025"], table["p80q0.975"], strict=True)
    assert [row[5] for row in rows] == [
        f"{duration_text(low)} to {duration_text(high)}" for low, high in ends
    ]
    assert [int(row[8]) for row in rows] == list(table["n_runs"])


def test_page_has_every_part_and_stands_alone(html: str, fit_folder: Path) -> None:
    for anchor in ("horizons", "agents", "checks", "curves", "difficulty", "predictive", "methods"):
        assert f'<section id="{anchor}">' in html
    for address in re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([^"')\s>]+)""", html):
        assert address.startswith("#"), address
    manifest = json.loads((fit_folder / "manifest.json").read_text())
    for digest in manifest["inputs"].values():
        assert digest in html
    for version in manifest["libraries"].values():
        assert version in html
    assert "Normal(-0.5, 1.5) up to 0" in html
    assert "Here the two are equal" in html
    for check in json.loads((fit_folder / "diagnostics.json").read_text())["checks"]:
        assert check["detail"] in html


def test_doubling_time_is_that_of_least_squares_through_the_medians(
    html: str, fit_folder: Path
) -> None:
    table = pd.read_csv(fit_folder / "horizons.csv")
    days = [datetime.date.fromisoformat(day).toordinal() for day in table["release_date"]]
    slope = np.polyfit(np.array(days) / 365.25 - 2020, np.log2(table["p50"]), 1)[0]
    assert f"{12 / slope:.1f} months (" in html
    assert "not the joint trend model" in html


def test_fan_of_the_trend_holds_its_line_and_the_axis_holds_the_fan(fit_folder: Path) -> None:
    content = content_of(load(fit_folder))
    for headline in content.headlines:
        trend = headline.trend
        assert trend is not None
        assert trend.fan is not None
        assert (trend.fan[0] < trend.log2).all()
        assert (trend.log2 < trend.fan[3]).all()
        low, high = (math.log2(limit) for limit in content.limits)
        assert low < trend.ends_log2[0] < trend.ends_log2[1] < high


@pytest.fixture(scope="module")
def whole_html(whole_page_folder: Path) -> str:
    return (whole_page_folder / "page.html").read_text()


def test_whole_page_has_every_section_and_chart_and_stands_alone(
    whole_html: str, whole_page_folder: Path
) -> None:
    for anchor in ("horizons", "predictive", "trends", "compared", "multiverse", "priors"):
        assert f'<section id="{anchor}">' in whole_html
    ids = re.findall(r' id="([^"]+)"', whole_html)
    assert len(ids) == len(set(ids))
    for address in re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([^"')\s>]+)""", whole_html):
        assert address.startswith("#"), address
    names = {path.name for path in (whole_page_folder / "charts").iterdir()}
    assert names == {f"{name}.{ending}" for name in CHARTS for ending in ("png", "svg")}
    assert len(whole_html) < 2_000_000


def test_page_has_every_score_of_the_methods_compared(whole_html: str) -> None:
    (section,) = re.findall(r'<section id="compared">.*?</section>', whole_html, re.S)
    for score in ("-0.5000 ± 0.0200", "-0.4321 ± 0.0300", "0.1400 ± 0.0100", "-0.1000 ± 0.0040"):
        assert score in section


def test_every_check_of_a_fit_is_explained_in_words(trend_fit_folder: Path) -> None:
    fit = load(trend_fit_folder)
    assert "other_modes" in [check.name for check in fit.findings]
    (found,) = findings(fit)
    assert isinstance(found, Findings)
    for finding, check in zip(found.items, fit.findings, strict=True):
        assert not finding.text.startswith("Found:"), check.name


def test_page_says_the_joint_doubling_time_and_dates_of_the_file(
    whole_html: str, trend_fit_folder: Path
) -> None:
    table = pd.read_csv(trend_fit_folder / "trend.csv").set_index(["quantity", "success"])
    months = [table.loc[("doubling_months", 0.5), end] for end in ("median", "low", "high")]
    assert f"{months[0]:.1f} months ({months[1]:.1f} to {months[2]:.1f})" in whole_html
    for rate in (0.5, 0.8):
        agent = table.loc[("next_agent_minutes", rate), "median"]
        assert duration_text(agent) in whole_html
    dates = pd.read_csv(trend_fit_folder / "trend_dates.csv")
    for day in dates["median"]:
        assert day in whole_html
    assert "not the joint trend model" not in whole_html


def test_headline_draws_the_fans_of_the_files(trend_fit_folder: Path, trend_folder: Path) -> None:
    fit = load(trend_fit_folder)
    content = content_of(fit, read_studies(fit, trend=trend_folder))
    assert content.trend_names == ["joint linear", "pseudo-BMA"]  # eight agents are few
    fan = pd.read_csv(trend_fit_folder / "trend_fan.csv")
    for one in content.headlines[::2]:
        rate = {"p50": 0.5, "p80": 0.8}[one.rate]
        own = fan[(fan["kind"] == one.kind) & (fan["success"] == rate)].set_index("of")
        assert one.trend is not None
        assert one.trend.agent is not None
        assert one.trend.fan is not None
        np.testing.assert_allclose(2**one.trend.log2, own.loc["trend", "q0.5"], rtol=1e-6)
        np.testing.assert_allclose(2 ** one.trend.agent[1], own.loc["next agent", "q0.975"])
        assert (one.trend.agent[1] > one.trend.fan[3]).all()
        assert one.trend.last_day < one.trend.days.max()
    # With residual difficulty the marginal 80 % horizon is shorter, and so is its trend.
    lines = {(one.rate, one.kind): one.trend for one in content.headlines[::2]}
    assert (lines["p80", "marginal"].log2 < lines["p80", "typical"].log2).all()
    assert content.kinds_differ
    assert content.rates


def test_page_shows_both_mixtures_and_the_trend_at_every_success_rate(
    whole_html: str, trend_folder: Path
) -> None:
    shapes = pd.read_csv(trend_folder / "shapes.csv")
    for row in shapes.to_dict("records"):
        cells = f"<td>{row['pseudo_bma']:.2f}</td><td>{row['weight']:.2f}</td>"
        assert cells in re.sub(r"<td[^>]*>", "<td>", whole_html), row["shape"]
    assert "The headline is pseudo-BMA: with fewer than 20 agents" in whole_html
    for name in ("pseudo-BMA", "stacked"):
        assert f"When the {name} trend reaches a length of human work" in whole_html
    for rate in ("50 %", "80 %", "90 %", "95 %", "99 %"):
        assert f"{rate} success" in whole_html  # doubling time by success rate


def test_page_says_that_a_frontier_is_chosen_by_noisy_outcomes(
    trend_fit_folder: Path, trend_folder: Path, tmp_path: Path
) -> None:
    copies = [
        Path(shutil.copytree(folder, tmp_path / name))
        for name, folder in (("fit", trend_fit_folder), ("trend", trend_folder))
    ]
    for copy, page in zip(copies, ("own.html", "beside.html"), strict=True):
        path = copy / "manifest.json"
        described = json.loads(path.read_text())
        described["settings"]["agents"] = {"since": None, "frontier": True}
        described["notes"] = [FRONTIER_NOTE]
        path.write_text(json.dumps(described))
        beside = {} if page == "own.html" else {"trend": copy}
        fit = copy if page == "own.html" else trend_fit_folder
        write_report(tmp_path / page, fit, **beside)
        assert "winner" in (tmp_path / page).read_text()
    write_report(tmp_path / "plain.html", trend_fit_folder, trend=trend_folder)
    assert "winner" not in (tmp_path / "plain.html").read_text()


def test_human_runs_of_the_page_are_those_of_the_file(trend_fit_folder: Path) -> None:
    fit = load(trend_fit_folder)
    assert isinstance(fit, HorizonFit)
    checks = fit.predictive.human
    assert sum(check.observed.size for check in checks) == fit.tasks()["n_human_runs"].sum()
    assert {check.source for check in checks} >= {"HCAST", "SWAA"}
    for check in checks:
        # Simulated by the same model: means within four predictive standard deviations.
        means = check.replicated.mean(axis=1)
        assert abs(check.observed.mean() - means.mean()) < 4 * means.std()


def test_methods_name_what_was_added_to_core(whole_html: str, html: str) -> None:
    for said in ("follow a linear trend", "difficulty beyond their length", "sigma_residual_task"):
        assert said in whole_html
        assert said not in html
    assert "All priors are the default" in whole_html
    assert "trend_middle" not in whole_html


def test_the_headline_sentence_fits_the_estimand(
    fit_folder: Path, full_folder: Path, tmp_path: Path
) -> None:
    assert "it finishes half of the tasks that take people" in summary(load(fit_folder))
    full = load(full_folder)
    assert full.estimand == "expected score"
    assert "its expected score is one half" in summary(full)
    write_report(tmp_path / "page.html", full)
    html = (tmp_path / "page.html").read_text()
    assert "finishes half of the tasks" not in html
    assert "expected score" in html


def test_folders_of_another_kind_are_refused(
    fit_folder: Path, compare_folder: Path, trend_folder: Path, tmp_path: Path
) -> None:
    for option, folder in (("trend", compare_folder), ("compare", trend_folder)):
        with pytest.raises(InputError, match=f"make it with: tidegauge horizon {option}"):
            write_report(tmp_path / "page.html", fit_folder, **{option: folder})
    with pytest.raises(InputError, match="not a folder; make it with: tidegauge horizon multi"):
        write_report(tmp_path / "page.html", fit_folder, multiverse=tmp_path / "no")
    copy = Path(shutil.copytree(trend_folder, tmp_path / "trend"))
    (copy / "trend_fan.csv").write_text("date\n")
    describe_anew(copy)
    with pytest.raises(InputError, match=r"trend_fan.csv: no column"):
        write_report(tmp_path / "page.html", fit_folder, trend=copy)
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("method", ["regression", "exact"])
def test_methods_without_posterior_get_the_page_of_what_there_is(
    method: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    write_report(tmp_path / "page.html", request.getfixturevalue(f"{method}_folder"))
    html = (tmp_path / "page.html").read_text()
    assert len(table_rows(html)) == 8
    assert 'id="curves"' in html
    assert 'id="difficulty"' not in html
    assert "Nothing was sampled" in html
    # The regression has dates here, the exact posterior has none.
    assert ("No trend" in html) == (method == "exact")


def test_names_are_escaped_in_texts_and_in_charts(regression_folder: Path, tmp_path: Path) -> None:
    agents = (HOSTILE, *(f"agent-0{i}" for i in range(2, 9)))
    write_report(tmp_path / "page.html", odd(regression_folder, agents=agents))
    html = (tmp_path / "page.html").read_text()
    assert "alert('x')</script>" not in html
    assert html.count("<script>") == 1
    assert html.count("<svg ") == html.count("</svg>")


def test_horizons_of_nothing_and_of_everything_are_drawn(
    regression_folder: Path, tmp_path: Path
) -> None:
    alpha = np.array([-np.inf, np.inf, np.nan, 5.0, 4.0, 3.0, 2.0, 1.0])
    beta = np.full(8, -1.0)
    curves = {"alpha": np.tile(alpha, (9, 1)), "beta": np.tile(beta, (9, 1))}
    found = odd(regression_folder, point=Curves(alpha, beta), **curves)
    write_report(tmp_path / "page.html", found)
    html = (tmp_path / "page.html").read_text()
    assert "unbounded" in html
    assert 'data-key="Infinity"' in html
    assert "–" in html


@pytest.mark.parametrize("method", ["core", "regression", "exact"])
def test_one_agent_and_one_task_are_enough_and_few_draws_are_warned_of_at_the_top(
    method: str, tmp_path: Path
) -> None:
    runs = write_rows(tmp_path / "runs.jsonl", [agent_row(), human_row()])
    read = th.read_runs(runs)
    fits = {
        "core": lambda: th.fit(read, draws=50, tune=50, chains=1),
        "regression": lambda: th.fit_regression(read, replicates=5),
        "exact": lambda: th.fit_exact(read),
    }
    fits[method]().save(tmp_path / "fit")
    write_report(tmp_path / "page.html", tmp_path / "fit", charts=tmp_path / "charts")
    html = (tmp_path / "page.html").read_text()
    assert len(table_rows(html)) == 1
    warned = "did not converge: do not rely" in html[: html.index('id="agents"')]
    assert warned == (method == "core")


def test_charts_are_saved_and_those_of_an_earlier_page_removed(
    page_folder: Path, exact_folder: Path, tmp_path: Path
) -> None:
    charts = Path(shutil.copytree(page_folder / "charts", tmp_path / "charts"))
    alone = [name for name in CHARTS if name not in STUDY_CHARTS and "mixture" not in name]
    assert {path.name for path in charts.iterdir()} == {
        f"{name}.{ending}" for name in alone for ending in ("png", "svg")
    }
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in charts.glob("*.png"))
    assert all(path.read_text().startswith("<svg") for path in charts.glob("*.svg"))
    (charts / "mine.txt").touch()
    write_report(tmp_path / "page.html", exact_folder, charts=charts)
    names = {path.name for path in charts.iterdir()}
    assert "difficulty.png" not in names
    assert {"mine.txt", "success_curves.svg"} <= names


def test_command_writes_beside_the_fit_and_prints_where(exact_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(exact_folder, tmp_path / "fit"))
    done = CliRunner().invoke(cli, ["horizon", "report", str(folder), "-q"])
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{folder / 'report.html'}\n"
    assert (folder / "report.html").is_file()


def test_bad_input_exits_2_and_writes_nothing(
    exact_folder: Path, tmp_path: Path, tidegauge: object
) -> None:
    folder = Path(shutil.copytree(exact_folder, tmp_path / "fit"))
    (folder / "diagnostics.json").write_text("{}")
    describe_anew(folder)
    before = sorted(tmp_path.rglob("*"))
    done = tidegauge("horizon", "report", folder, "--charts", tmp_path / "charts")  # type: ignore[operator]
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {folder / 'diagnostics.json'}: not what a fit writes")
    assert done.stdout == ""
    assert sorted(tmp_path.rglob("*")) == before


def test_places_that_cannot_be_written_are_refused(exact_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder; name a file"):
        write_report(tmp_path, exact_folder)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is not a folder"):
        write_report(tmp_path / "file" / "page.html", exact_folder)
    with pytest.raises(InputError, match="is not a folder"):
        write_report(tmp_path / "page.html", exact_folder, charts=tmp_path / "file")
    assert {path.name for path in tmp_path.iterdir()} == {"file"}


@pytest.mark.parametrize(
    ("minutes", "text"),
    [
        (0.0, "under 1 ms"),
        (0.5 / 60, "500 ms"),
        (1 / 60, "1 s"),
        (0.75, "45 s"),
        (1.0, "1 min"),
        (59.9, "59.9 min"),
        (60.0, "1 h"),
        (2400.0, "40 h"),
        (60.0 * 12345, "12,345 h"),
        (1e12, "over a million h"),
        (math.inf, "unbounded"),
        (math.nan, "–"),
    ],
)
def test_durations_are_said_as_people_say_them(minutes: float, text: str) -> None:
    assert duration_text(minutes) == text


def test_every_axis_of_human_time_has_ticks_inside_it() -> None:
    for low in (1e-4, 0.01, 0.3, 7.0, 90.0, 1000.0, 20000.0):
        axis = duration_axis(low, 16 * low).to_dict()
        assert len(axis["values"]) >= 2
        assert all(low * 60 <= tick <= 16 * low * 60 for tick in axis["values"])
    assert TICKS[60] == "1 min"


def test_axis_holds_medians_and_cuts_intervals_that_run_off() -> None:
    bars = [Bar("a", 1.0, 1e-17, 2.0), Bar("b", 100.0, 50.0, math.inf), Bar("c", 0.0, 0.0, 1.0)]
    low, high = minutes_range(bars)
    assert 0.01 < low < 1.0
    assert 100.0 < high < 1e4


def test_sortable_table_is_escaped_and_other_pages_have_no_script() -> None:
    table = Table((HOSTILE, "n"), [[HOSTILE, "1"]], keys=[[HOSTILE, math.nan]], sorted_by=1)
    html = render_page(Page("p", "s", [Section("t", [table])]))
    assert html.count("<script>") == html.count("</script>") == 1
    assert 'data-key="-Infinity"' in html
    assert '<th scope="col" aria-sort="descending"><button type="button">n</button>' in html
    plain = Table(("a", "n"), [["x", "1"]])
    assert "<script" not in render_page(Page("p", "s", [Section("t", [plain])]))
