"""METR's plotting code finds what it reads in ``horizons.csv`` and draws the right line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

BUCKETS = ["1-4 min", "4-16 min", "16-64 min", "64-256 min", "256-960 min", "960-2880 min"]
METR_COLUMNS = [
    *("agent", "coefficient", "intercept", "bce_loss", "average"),
    *("p50", "p50q0.025", "p50q0.975", "p80", "p80q0.025", "p80q0.975"),
    *BUCKETS,
    "release_date",
]
FOLDERS = ["fit_folder", "regression_folder"]


@pytest.fixture(params=FOLDERS)
def folder(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(request.param)
    return found


def as_metr_reads(folder: Path) -> pd.DataFrame:
    """Read as their plots do: their columns by name, dates parsed, human rows never there."""
    table = pd.read_csv(folder / "horizons.csv", usecols=METR_COLUMNS)
    table["release_date"] = pd.to_datetime(table["release_date"]).dt.date
    return table[table["agent"] != "human"].sort_values("release_date", ignore_index=True)


def plot_table(table: pd.DataFrame, percent: int) -> pd.DataFrame:
    """Build what a horizon plot draws: a point, its error bar and its date on log2 axes."""
    name = f"p{percent}"
    return pd.DataFrame(
        {
            "agent": table["agent"],
            "years": [day.toordinal() / 365.25 for day in table["release_date"]],
            "log2": np.log2(table[name]),
            "below": np.log2(table[name] / table[f"{name}q0.025"]),
            "above": np.log2(table[f"{name}q0.975"] / table[name]),
        }
    )


def test_their_columns_come_first_and_in_their_order(folder: Path) -> None:
    header = (folder / "horizons.csv").read_text(encoding="utf-8").splitlines()[0].split(",")
    assert header[: len(METR_COLUMNS)] == METR_COLUMNS


def test_every_value_can_be_plotted(folder: Path) -> None:
    table = as_metr_reads(folder)
    assert len(table) == 8
    assert table[METR_COLUMNS].dtypes.loc["p50":"p80q0.975"].unique().tolist() == [np.dtype(float)]
    assert table.drop(columns=BUCKETS).notna().all(axis=None)
    assert table["average"].between(0, 1).all()
    assert (table["bce_loss"] > 0).all()
    assert (table["coefficient"] < 0).all()
    rates = table[BUCKETS].to_numpy()
    seen = ~np.isnan(rates)  # buckets without a task are empty cells
    assert seen.any(axis=0).all()
    assert ((rates[seen] >= 0) & (rates[seen] <= 1 + 1e-12)).all()


@pytest.mark.parametrize("percent", [50, 80])
def test_curve_and_horizon_tell_the_same(folder: Path, percent: int) -> None:
    """Their curve plots use coefficient and intercept, their horizon plots p50 and p80."""
    table = as_metr_reads(folder)
    logit = np.log(percent / (100 - percent))
    log2 = (logit - table["intercept"]) / table["coefficient"]
    spread = np.log2(table[f"p{percent}q0.975"] / table[f"p{percent}q0.025"])
    # Medians of alpha, beta and of their ratio differ, but by little of the interval.
    assert (np.abs(log2 - np.log2(table[f"p{percent}"])) < 0.1 * spread).all()


@pytest.mark.parametrize("percent", [50, 80])
def test_the_doubling_time_of_the_plot_is_that_of_the_truth(
    folder: Path, simulated_runs: Path, percent: int
) -> None:
    drawn = plot_table(as_metr_reads(folder), percent)
    assert (drawn[["below", "above"]] > 0).all(axis=None)
    truth = json.loads((simulated_runs / "truth.json").read_text(encoding="utf-8"))["agents"]
    true_log2 = np.log2([truth[agent][f"p{percent}"] for agent in drawn["agent"]])
    years = drawn["years"].to_numpy() - drawn["years"].mean()
    pull = years / (years @ years)  # what each agent's horizon adds to the slope
    doublings, true_doublings = pull @ drawn["log2"], pull @ true_log2
    error = np.sqrt(pull**2 @ ((drawn["below"] + drawn["above"]) / 3.92) ** 2)
    assert abs(doublings - true_doublings) < 4 * error
    assert 12 / doublings == pytest.approx(12 / true_doublings, rel=0.5)  # months to double


def test_draws_have_the_columns_of_their_bootstrap_and_the_quantiles_of_the_table(
    regression_folder: Path,
) -> None:
    draws = pd.read_csv(regression_folder / "horizon_draws.csv")
    table = pd.read_csv(regression_folder / "horizons.csv").set_index("agent")
    assert list(draws) == [f"{agent}_p{p}" for agent in table.index for p in (50, 80)]
    assert len(draws) == 40  # one row a replicate
    low = 2 ** np.quantile(np.log2(draws["agent-05_p50"]), 0.025)
    assert low == pytest.approx(table.loc["agent-05", "p50q0.025"], rel=1e-6)
