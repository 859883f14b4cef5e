"""Charts of a fit: whichever parameter has the lowest ESS, its draws are found by its label."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tidegauge.horizon as th
from tidegauge.horizon import HorizonFit, Runs
from tidegauge.horizon.model.option_file import make_model
from tidegauge.report.horizon.fit_charts import watched_draws

EVERYTHING = {
    "noise": "student_t",
    "human_scale": "source",
    "noise_growth": True,
    "estimate_bias": True,
    "discrimination": True,
    "pooling": "lab",
    "trend": "quadratic",
}


@pytest.fixture(scope="module")
def fit(dated_runs: Runs) -> HorizonFit:
    return th.fit(dated_runs, make_model("full", **EVERYTHING), draws=20, tune=30, chains=2)


def test_every_parameter_can_be_the_one_that_mixes_worst(fit: HorizonFit) -> None:
    table = fit.diagnosis.parameters
    of_each_variable = table.groupby(table["parameter"].str.split("[").str[0]).tail(1).index
    assert len(of_each_variable) > 20
    for row in of_each_variable:
        ess = np.where(np.arange(len(table)) == row, 1.0, 1e4)
        worst = replace(
            fit, diagnosis=replace(fit.diagnosis, parameters=table.assign(ess_bulk=ess))
        )
        found = watched_draws(worst)
        name = f"{table['parameter'][row]} (lowest ESS)"
        assert found[name].mean() == pytest.approx(table["mean"][row])
        assert all(draws.shape == (2, 20) for draws in found.values())
