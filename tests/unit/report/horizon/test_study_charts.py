"""Charts and tables of a comparison stay readable however many methods there are."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from tidegauge.horizon.methods.registry import NAMES, VARIANTS
from tidegauge.report.charts import chart_svg
from tidegauge.report.horizon.headline import Size
from tidegauge.report.horizon.study_charts import calibration_chart, methods_chart, scores_chart
from tidegauge.report.horizon.terminal import horizon_lines, score_lines

FEW, MANY = ("climatology", "regression", "core"), ("climatology", *NAMES, *VARIANTS)
AGENTS = ("agent-a", "agent-b")


def horizons(methods: tuple[str, ...]) -> pd.DataFrame:
    rows = [(agent, method) for agent in AGENTS for method in methods if method != "climatology"]
    columns = {f"{rate}{end}": 10.0 for rate in ("p50", "p80") for end in ("", "q0.025", "q0.975")}
    return pd.DataFrame(rows, columns=["agent", "method"]).assign(**columns)


def scores(methods: tuple[str, ...]) -> pd.DataFrame:
    rows = [(by, method) for by in ("task", "family") for method in methods]
    table = pd.DataFrame(rows, columns=["by", "method"])
    for score in ("log_score", "brier", "fractional_log_score", "difference"):
        table[score], table[f"{score}_se"] = -np.linspace(0.4, 0.6, len(table)), 0.02
    return table.assign(best="regression", within_error=False)


def calibration(methods: tuple[str, ...]) -> pd.DataFrame:
    curve = {"predicted": [0.1, 0.9], "seen": [0.2, 0.8], "seen_se": [0.1, np.nan], "runs": [5, 9]}
    return pd.concat(
        pd.DataFrame({"by": by, "method": method, **curve})
        for by in ("task", "family")
        for method in methods
    )


def written(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


@pytest.mark.parametrize("methods", [FEW, MANY], ids=["few", "many"])
def test_every_method_is_named_where_it_is_drawn(methods: tuple[str, ...]) -> None:
    models = [name for name in methods if name != "climatology"]
    many = methods is MANY
    chart = methods_chart(horizons(methods), "p50", Size(560, 0), title="p50")
    texts = written(chart_svg(chart))
    for name in [*models, *AGENTS]:  # methods beside their bars, or in a legend
        assert texts.count(name) == 1, name
    texts = written(chart_svg(scores_chart(scores(methods))))
    for name in methods:  # once for each of two kinds of fold
        assert texts.count(name) == 2, name
    texts = written(chart_svg(calibration_chart(calibration(methods))))
    for name in methods:
        if many:
            assert f"{name}, held out by family" in texts
        else:
            assert texts.count(name) == 1


def test_tables_of_many_methods_fit_a_screen_and_line_up() -> None:
    lines = list(horizon_lines(horizons(MANY)))
    assert max(map(len, lines)) < 150
    for name in (*NAMES, *VARIANTS):
        assert sum(bool(re.search(rf" {name}( |$)", line)) for line in lines) == 2  # 50 % and 80 %
    header, *rows = list(score_lines(scores(MANY)))[1:-1]
    assert len(rows) == 2 * len(MANY)
    end_of_first_score = header.index("log score") + len("log score")
    assert {row[:end_of_first_score].rstrip()[-6:] for row in rows} == {"0.0200"}
