"""Pages of fits, made once a session: one of a fit alone, one with all that may stand beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders import describe_anew
from sharing import shared_folder
from tidegauge.engine.store import manifest, write_json
from tidegauge.horizon import Runs, fit, write_report
from tidegauge.horizon.model.option_file import make_model
from tidegauge.horizon.model.trend_shapes import SHAPES, TREND_SHAPES
from tidegauge.horizon.store.studies import write_trends
from tidegauge.horizon.trend.comparison import TrendComparison, TrendOptions, score_shapes
from tidegauge.horizon.trend.draws import Trend
from tidegauge.horizon.trend.measured import Measured
from tidegauge.horizon.trend.prediction import TrendModel
from trends import known_steepness

ORIGIN = 738_700.0


@pytest.fixture(scope="session")
def page_folder(fit_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with page.html of the core fit, and its charts in charts/."""

    def make(folder: Path) -> None:
        write_report(folder / "page.html", fit_folder, charts=folder / "charts")

    return shared_folder(tmp_path_factory, "page", make)


@pytest.fixture(scope="session")
def trend_fit_folder(dated_runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fit with residual difficulty and a joint linear trend."""

    def make(folder: Path) -> None:
        choice = make_model("core", trend="linear", residual="task")
        fit(dated_runs, choice, draws=300, tune=300, chains=2, seed=3).save(folder)

    return shared_folder(tmp_path_factory, "trend_fit", make)


@pytest.fixture(scope="session")
def trend_folder(dated_runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of trends, from horizons as if they had been measured."""
    rng = np.random.default_rng(1)
    years = np.linspace(-2, 2, 8)
    log2 = 4 + 1.2 * years + rng.normal(0, 0.5, 8)
    names = tuple(f"agent-0{a + 1}" for a in range(8))
    measured = Measured(names, years, log2, 0.16 * np.eye(8))
    trends = {}
    for shape in SHAPES:
        drawn = TrendModel(shape, measured).draw(300, rng)
        trends[shape] = Trend(
            shape=shape,
            coefficients={name: drawn[name] for name in TREND_SHAPES[shape].coefficients},
            scatter=drawn["sigma_horizon"],
            steepness=known_steepness(300, change=0.05, scatter=0.2, residual_sd=1.0),
            origin_day=ORIGIN,
            first_day=ORIGIN - 2 * 365.25,
            last_day=ORIGIN + 2 * 365.25,
            n_agents=8,
        )
    folder = tmp_path_factory.mktemp("trend")
    scores = score_shapes(measured)
    found = TrendComparison(TrendOptions(), trends, scores, ORIGIN, (), dated_runs)
    write_trends(found, folder)
    return folder


@pytest.fixture(scope="session")
def compare_folder(fit_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``horizon compare`` writes, of two methods, as far as the page reads it."""
    folder = tmp_path_factory.mktemp("compare")
    own = pd.read_csv(fit_folder / "horizons.csv")
    tables = [own.assign(method=name, p50=own["p50"] * k) for k, name in ((1, "core"), (2, "grid"))]
    pd.concat(tables).to_csv(folder / "compare.csv", index=False)
    score = {"log_score_se": 0.02, "brier": 0.14, "brier_se": 0.01, "difference_se": 0.004}
    score |= {"fractional_log_score": -0.4321, "fractional_log_score_se": 0.03}
    rows = [
        {
            "by": "family",
            "method": m,
            "best": "core",
            "log_score": s,
            "difference": s + 0.4,
            **score,
        }
        for m, s in (("core", -0.4), ("grid", -0.5))
    ]
    pd.DataFrame(rows).to_csv(folder / "scores.csv", index=False)
    write_json(folder / "manifest.json", manifest(kind="horizon/compare", inputs={}, settings={}))
    describe_anew(folder)
    return folder


@pytest.fixture(scope="session")
def multiverse_folder(fit_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``horizon multiverse`` writes, of two choices, as far as the page reads it."""
    folder = tmp_path_factory.mktemp("multiverse")
    agents = pd.read_csv(fit_folder / "horizons.csv")[["agent", "p50"]]
    universes = [(m, n, f) for m, f in (("core", 1), ("grid", 4)) for n in ("normal", "t")]
    horizons, doubling = [], []
    for number, (method, noise, factor) in enumerate(universes):
        made = {"universe": number, "method": method, "noise": noise}
        p50 = agents["p50"] * factor
        horizons.append(agents.assign(**made, p50=p50, low=p50 / 2, high=p50 * 2))
        doubling.append({**made, "doubling_months": 5 + factor})
    pd.concat(horizons).to_csv(folder / "multiverse.csv", index=False)
    pd.DataFrame(doubling).to_csv(folder / "doubling.csv", index=False)
    effects = {
        "choice": ["method", "noise"],
        "levels": [2, 2],
        "typical_factor": [4.0, 1.0],
        "eta_squared": [1.0, 0.0],
        "mean_abs_rate_change": [0.7, np.nan],
    }
    pd.DataFrame(effects).to_csv(folder / "choices.csv", index=False)
    change = {"agent": agents["agent"], "log2_change": np.linspace(-1, 0.5, len(agents))}
    pd.DataFrame({"parameter": "alpha", "change": "normal(0, 10)", **change}).to_csv(
        folder / "sensitivity.csv", index=False
    )
    pd.DataFrame({"family": "chess", **change}).to_csv(folder / "influence.csv", index=False)
    described = manifest(kind="horizon/multiverse", inputs={}, settings={})
    write_json(folder / "manifest.json", described)
    describe_anew(folder)
    return folder


@pytest.fixture(scope="session")
def whole_page_folder(
    trend_fit_folder: Path,
    trend_folder: Path,
    compare_folder: Path,
    multiverse_folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A folder with page.html of a fit with everything beside it, and its charts in charts/."""

    def make(folder: Path) -> None:
        write_report(
            folder / "page.html",
            trend_fit_folder,
            charts=folder / "charts",
            trend=trend_folder,
            compare=compare_folder,
            multiverse=multiverse_folder,
        )

    return shared_folder(tmp_path_factory, "whole_page", make)
