"""Two folders of one result: equal, apart by so much, or apart by more than sampling explains."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import pandas as pd
import pytest

from tidegauge.engine.folder_comparison import compare_folders, monte_carlo_agreement
from tidegauge.errors import InputError


def folders(tmp_path: Path) -> tuple[Path, Path]:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
    return old, new


def verdicts(old: Path, new: Path) -> dict[str, tuple[str, float | None]]:
    return {
        file.name: (file.verdict, file.largest_relative_difference)
        for file in compare_folders(old, new)
    }


@pytest.mark.parametrize(
    ("before", "after", "verdict", "difference"),
    [
        ("a,b\nx,1.5\n", "a,b\nx,1.50\n", "same", None),  # other bytes, equal numbers
        ("a,b\nx,0\ny,2\n", "a,b\nx,0.0\ny,2\n", "same", None),  # equal zeros
        ("a,b\nx,0\ny,2\n", "a,b\nx,0.0\ny,2.5\n", "differs", 0.2),
        ("a,seconds\nx,1\n", "a,seconds\nx,2\n", "same", None),  # how long it took
        ("a,b\nx,2\n", "a,b\nx,2.5\n", "differs", 0.2),
        ("a,b\nx,\n", "a,b\nx,1\n", "differs", None),  # a value that was not there
        ("a,b\nx,1\n", "a,b\ny,1\n", "differs", None),  # another text
        ("a,b\nx,1\n", "a,b\nx,1\ny,2\n", "differs", None),  # more rows
        ("a,b\nx,1\n", "a,c\nx,1\n", "differs", None),  # another column
        ("a,b\nx,inf\n", "a,b\nx,7\n", "differs", math.inf),
    ],
)
def test_tables_are_compared_value_by_value(
    before: str, after: str, verdict: str, difference: float | None, tmp_path: Path
) -> None:
    old, new = folders(tmp_path)
    (old / "t.csv").write_text(before)
    (new / "t.csv").write_text(after)
    assert verdicts(old, new) == {"t.csv": (verdict, difference)}


@pytest.mark.parametrize(
    ("after", "verdict", "difference"),
    [
        ({"created_at": "later", "seconds": {"total": 9}}, "same", None),
        ({"settings": {"seed": 2}}, "differs", 0.5),
        ({"settings": {"seed": "1"}}, "differs", None),  # a text is no number
        ({"converged": False}, "differs", None),
        ({"checks": [{"name": "r_hat", "detail": "max 1.01"}]}, "same", None),
    ],
)
def test_json_is_compared_without_times_and_sentences(
    after: dict[str, Any], verdict: str, difference: float | None, tmp_path: Path
) -> None:
    old, new = folders(tmp_path)
    content: dict[str, Any] = {
        "created_at": "now",
        "seconds": {"total": 3.0},
        "settings": {"seed": 1},
        "converged": True,
        "checks": [{"name": "r_hat", "detail": "max 1.00"}],
    }
    (old / "d.json").write_text(json.dumps(content))
    (new / "d.json").write_text(json.dumps(content | after))
    assert verdicts(old, new) == {"d.json": (verdict, difference)}


def test_arrays_are_compared_and_nan_equals_nan(tmp_path: Path) -> None:
    old, new = folders(tmp_path)
    for folder, last in ((old, 4.0), (new, 5.0)):
        values = np.array([[1.0, np.nan], [3.0, last]])
        np.savez(folder / "a.npz", values=values)
        az.from_dict({"mu": values}).to_netcdf(str(folder / "p.nc"), engine="h5netcdf")
    found = verdicts(old, new)
    assert found == {"a.npz": ("differs", 0.2), "p.nc": ("differs", 0.2)}


def test_charts_do_not_decide_and_lost_files_do(tmp_path: Path) -> None:
    old, new = folders(tmp_path)
    (old / "c.svg").write_text("<svg>1</svg>")
    (new / "c.svg").write_text("<svg>2</svg>")
    (old / "report.html").write_text("written later by another command")
    (new / "more.csv").write_text("a\n1\n")
    assert verdicts(old, new) == {"c.svg": ("drawn anew", None), "more.csv": ("absent", None)}


def test_a_damaged_file_is_the_users_error(tmp_path: Path) -> None:
    old, new = folders(tmp_path)
    (old / "d.json").write_text("{")
    (new / "d.json").write_text("{}")
    with pytest.raises(InputError, match=r"d\.json: damaged"):
        compare_folders(old, new)


def write_parameters(folder: Path, draws: np.ndarray) -> None:
    """As a fit of independent draws would: each column a parameter."""
    names = [f"theta[{i}]" for i in range(draws.shape[1])]
    table = pd.DataFrame(
        {
            "parameter": names,
            "mean": draws.mean(axis=0),
            "sd": draws.std(axis=0, ddof=1),
            "ess_bulk": float(len(draws)),
        }
    )
    table.to_csv(folder / "parameters.csv", index=False)


def test_two_runs_of_one_sampler_agree_and_a_shifted_one_does_not(tmp_path: Path) -> None:
    old, new = folders(tmp_path)
    rng = np.random.default_rng(20)
    n_draws, n_parameters, repeats = 1000, 50, 200
    worst = []
    for _ in range(repeats):
        for folder in (old, new):
            write_parameters(folder, rng.normal(size=(n_draws, n_parameters)))
        agreement = monte_carlo_agreement(old, new)
        assert agreement is not None
        worst.append(agreement.largest_z)
    # Of 200 pairs, 0.2 are expected above the limit; four or more have probability 6e-5.
    assert sum(z > agreement.limit for z in worst) < 4
    # The largest of 50 |z| has median 2.46: were the errors misjudged, so would this be.
    assert np.median(worst) == pytest.approx(2.46, abs=4 * 0.34 / math.sqrt(repeats))
    shifted = rng.normal(size=(n_draws, n_parameters))
    shifted[:, 7] += 8 * math.sqrt(2 / n_draws)  # eight standard errors of the difference
    write_parameters(new, shifted)
    found = monte_carlo_agreement(old, new)
    assert found is not None
    assert not found.agrees


def test_a_folder_without_posterior_has_no_monte_carlo_error(tmp_path: Path) -> None:
    assert monte_carlo_agreement(*folders(tmp_path)) is None
