"""Leave-one-family-out: a planted family is found, and the table adds up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from designs import draw_design, usual_truth
from tidegauge.errors import InputError
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.data.subset import subset_tasks
from tidegauge.horizon.studies.influence import COLUMNS, leave_families_out

PLANTED = 3


@pytest.fixture(scope="module")
def design() -> Design:
    """One family of long tasks at which every agent always succeeds; one agent knows no other."""
    rng = np.random.default_rng(6)
    truth = usual_truth(rng, n_agents=3, n_tasks=20, n_families=5)
    drawn = draw_design(truth, rng, runs_per_cell=6)
    odd = drawn.task_family == PLANTED
    longest = float(drawn.log2_minutes.max()) + 1
    minutes = np.where(odd, 2.0**longest, drawn.human_minutes)
    run_log2 = np.where(odd[drawn.run_task], longest, drawn.run_log2)
    estimate_log2 = np.where(odd[drawn.estimate_task], longest, drawn.estimate_log2)
    successes = np.where(odd, drawn.attempts, drawn.successes)
    only = np.where(odd, 6.0, 0.0)
    return replace(
        drawn,
        agents=(*drawn.agents, "one family alone"),
        attempts=np.vstack([drawn.attempts, only]),
        successes=np.vstack([successes, only / 2]),
        score_sum=np.vstack([successes, only / 2]),
        human_minutes=minutes,
        run_log2=run_log2,
        estimate_log2=estimate_log2,
    )


@pytest.fixture(scope="module")
def table(design: Design) -> pd.DataFrame:
    return leave_families_out(design, seed=1, workers=1)


def test_the_planted_family_is_the_most_influential_and_its_absence_lowers_horizons(
    design: Design, table: pd.DataFrame
) -> None:
    assert tuple(table.columns) == COLUMNS
    first = table[table["rank"] == 1]
    assert set(first["family"]) == {design.families[PLANTED]}
    assert (first["log2_change"] < 0).all()
    assert (table["influence"].diff().dropna() <= 0).all()


def test_every_family_and_agent_has_its_change(design: Design, table: pd.DataFrame) -> None:
    assert set(table["family"]) == set(design.families)
    for family, own in table.groupby("family"):
        f = design.families.index(str(family))
        members = design.task_family == f
        assert (own["tasks"] == members.sum()).all()
        assert (own["runs"] == design.attempts[:, members].sum()).all()
        assert own["influence"].iloc[0] == pytest.approx(own["log2_change"].abs().mean())
        # Who ran that family alone has no run left without it.
        expected = 3 if f == PLANTED else 4
        assert len(own) == expected
    assert (table.groupby("agent")["p50_all"].nunique() == 1).all()


def test_one_family_cannot_be_left_out(design: Design) -> None:
    one = replace(design, families=("all",), task_family=np.zeros(20, dtype=np.int64))
    with pytest.raises(InputError, match="one family of tasks"):
        leave_families_out(one)


def test_a_family_with_all_agent_runs_is_recorded_with_its_reason(design: Design) -> None:
    design = subset_tasks(design, design.task_family < 2)
    first = design.task_family == 0
    lonely = replace(design, attempts=design.attempts * first, successes=design.successes * first)
    rows = np.flatnonzero(lonely.attempts.sum(axis=1) > 0)
    lonely = replace(
        lonely, agents=tuple(design.agents[a] for a in rows),
        attempts=lonely.attempts[rows], successes=lonely.successes[rows],
        score_sum=lonely.successes[rows],
    )  # fmt: skip
    table = leave_families_out(lonely, workers=1)
    row = table[table["family"] == design.families[0]].iloc[0]
    assert "no agent run is left" in row["reason"]
    assert np.isnan(row["influence"])
