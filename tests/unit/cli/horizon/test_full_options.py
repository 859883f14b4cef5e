"""``full`` with every level of every option, on every path from runs to a page.

The variants are made from the options themselves: a new option, or a new level of one, is in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

import pandas as pd
import pytest
import yaml

from calls import Call
from tidegauge.engine.config import SamplerConfig
from tidegauge.horizon.methods.base import Method
from tidegauge.horizon.methods.hierarchical import Hierarchical
from tidegauge.horizon.methods.registry import find_method, variant_name
from tidegauge.horizon.model.option_file import make_model
from tidegauge.horizon.model.options import CHOICES, HorizonOptions

LEVELS: Mapping[str, tuple[str | bool, ...]] = {
    field.name: CHOICES.get(field.name, (False, True)) for field in fields(HorizonOptions)
}


# Variant k has level k of every option, so that together they have every level of each.
def variant(k: int) -> HorizonOptions:
    chosen = {name: levels[k % len(levels)] for name, levels in LEVELS.items()}
    if chosen["scores"] != "binary":  # a fractional score has no distribution
        chosen |= {"cells": "binomial", "lapses": False}
    return make_model("full", **chosen).options


VARIANTS = [variant(k) for k in range(max(map(len, LEVELS.values())))]
SIZES = ("--draws", 20, "--tune", 30, "--chains", 2, "-q")  # never converges, and need not
CHARTS = {
    *("horizons", "success_curves", "trace", "rank", "sampling", "difficulty"),
    *("predictive_success", "predictive_human"),
}


def method(options: HorizonOptions, **changed: str) -> str:
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    return variant_name("full", HorizonOptions(**{**values, **changed}))


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegauge.engine.parallel.available_cores", lambda: 1)


@pytest.fixture
def dated(few_runs: Path) -> tuple[object, ...]:
    return few_runs / "runs.jsonl", "--release-dates", few_runs / "release_dates.yaml"


def test_the_variants_have_every_level_of_every_option() -> None:
    for name, levels in LEVELS.items():
        assert {getattr(options, name) for options in VARIANTS} == set(levels)


@pytest.mark.parametrize("options", VARIANTS, ids=method)
def test_fit_draws_its_plots_and_report_its_page(
    options: HorizonOptions, call: Call, dated: tuple[object, ...], tmp_path: Path
) -> None:
    plots = ("--plots",) if options.discrimination else ()  # drawing costs more than fitting
    said = call(
        "horizon", "fit", *dated, "--out", tmp_path, "--method", method(options), *SIZES, *plots
    )
    assert said.code == 1, said.err
    assert "not converged" in said.err
    if plots:
        assert {path.stem for path in (tmp_path / "plots").iterdir()} == CHARTS
    said = call("horizon", "report", tmp_path, "-q")
    assert said.code == 0, said.err
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for agent in pd.read_csv(tmp_path / "horizons.csv")["agent"]:
        assert agent in page


def test_compare_scores_variants_beside_each_other(
    call: Call, dated: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hurried(text: str) -> Method:
        found, few = find_method(text), SamplerConfig(draws=20, tune=30, chains=2)
        if not isinstance(found, Hierarchical):
            return found
        return replace(found, sampler=few, fold_sampler=few, patient=False)

    monkeypatch.setattr("tidegauge.horizon.studies.compare.find_method", hurried)
    names = [method(options, trend="none") for options in VARIANTS[1:3]]
    chosen = [word for name in names for word in ("--method", name)]
    said = call(
        *("horizon", "compare", *dated, "--out", tmp_path, "--by", "task", "--folds", 2),
        *(*chosen, "-q"),
    )
    assert said.code == 1, said.err
    scores = pd.read_csv(tmp_path / "scores.csv").set_index("method")["log_score"]
    assert set(names) <= set(scores.index)
    assert (scores < 0).all()
    assert set(pd.read_csv(tmp_path / "compare.csv")["method"]) >= set(names)


def test_trend_compares_shapes_under_other_options(
    call: Call, dated: tuple[object, ...], tmp_path: Path
) -> None:
    flags = ("--model", "full", "--noise", "normal", "--residual", "task", "--scores", "binary")
    said = call("horizon", "trend", *dated, "--out", tmp_path, *flags, *SIZES)
    assert said.code == 1, said.err
    shapes = pd.read_csv(tmp_path / "shapes.csv")
    assert list(shapes["shape"]) == [shape for shape in CHOICES["trend"] if shape != "none"]
    assert shapes["weight"].sum() == pytest.approx(1)


def test_multiverse_has_universes_of_other_options(
    call: Call, dated: tuple[object, ...], tmp_path: Path
) -> None:
    grid = tmp_path / "grid.yaml"
    choices = {"method": "full", "noise": ["normal", "student_t"], "residual": "task"}
    grid.write_text(yaml.safe_dump([choices]), encoding="utf-8")
    out = tmp_path / "out"
    said = call("horizon", "multiverse", *dated, "--grid", grid, "--out", out, "--plots", "-q")
    assert said.code in (0, 1), said.err
    found = pd.read_csv(out / "multiverse.csv")
    assert set(found["noise"]) == {"normal", "student_t"}
    assert found["p50"].gt(0).all()
    assert any((out / "plots").iterdir())
