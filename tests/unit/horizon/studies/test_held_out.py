"""Folds hold out each tried cell once; what is held out never reaches a fit."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pytest

from designs import draw_design, usual_truth
from tidegauge.engine.config import SamplerConfig
from tidegauge.errors import InputError
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.horizons.estimate import Estimate
from tidegauge.horizon.methods.base import Climatology, Effort, Method
from tidegauge.horizon.methods.exact import Exact
from tidegauge.horizon.methods.hierarchical import Hierarchical
from tidegauge.horizon.methods.regression import Regression
from tidegauge.horizon.model.options import HorizonOptions
from tidegauge.horizon.studies.held_out import (
    KINDS,
    NOT_TRIED,
    SUREST,
    Fold,
    assign_folds,
    hold_out,
    make_folds,
    without,
)
from tidegauge.progress import SILENT, Progress

SHORT = SamplerConfig(draws=300, tune=150, chains=2, target_accept=0.9, cores=1)
ALL: list[Method] = [
    Climatology(),
    Regression(),
    Exact(),
    Hierarchical(fold_sampler=SHORT),
    Hierarchical(
        "core:failures=censor", options=HorizonOptions(failures="censor"), fold_sampler=SHORT
    ),
]


@pytest.fixture(scope="module")
def design() -> Design:
    rng = np.random.default_rng(11)
    truth = usual_truth(rng, n_agents=3, n_tasks=12, n_families=4)
    return draw_design(truth, rng, failed=4)


@dataclass(frozen=True)
class Spy:
    """A method that keeps every design it is given."""

    given: list[Design]
    name: str = "spy"

    @property
    def settings(self) -> dict[str, Any]:
        return {}

    def fit(
        self,
        design: Design,
        *,
        effort: Effort = Effort.FULL,
        seed: int = 1,
        progress: Progress = SILENT,
    ) -> Estimate:
        self.given.append(design)
        flat = np.zeros((1, len(design.agents)))
        return Estimate(
            method=self.name,
            agents=design.agents,
            alpha=flat,
            beta=flat,
            success=np.full(design.attempts.shape, 0.5),
            longest_minutes=1.0,
        )


def spoilt(design: Design, fold: Fold) -> Design:
    """The same design with every held-out outcome turned round and counted twice."""
    lost = design.attempts - design.successes
    return replace(
        design,
        attempts=np.where(fold.held, 2 * design.attempts, design.attempts),
        successes=np.where(fold.held, 2 * lost, design.successes),
        score_sum=np.where(fold.held, 0.123, design.score_sum),
    )


@pytest.mark.parametrize("by", KINDS)
def test_a_method_is_given_the_same_whatever_the_held_out_outcomes(design: Design, by: str) -> None:
    for fold in make_folds(design, by=by, folds=3, seed=1):
        spy = Spy([])
        for data in (design, spoilt(design, fold)):
            hold_out(data, [spy], [fold], seed=1, workers=1)
        first, second = (asdict(given) for given in spy.given)
        for name, value in first.items():
            np.testing.assert_array_equal(value, second[name], err_msg=name)


@pytest.mark.parametrize("method", ALL[:3], ids=lambda method: method.name)
def test_runs_that_stay_change_the_predictions_and_held_out_ones_do_not(
    design: Design, method: Method
) -> None:
    fold = make_folds(design, by="task", folds=3, seed=1)[0]
    kept = np.argwhere(~fold.held & (design.successes > 0))[0]
    learnt = design.successes.copy()
    learnt[tuple(kept)] -= 1
    first, second, third = (
        hold_out(given, [method], [fold], seed=4, workers=1).cells["raw"]
        for given in (design, spoilt(design, fold), replace(design, successes=learnt))
    )
    np.testing.assert_array_equal(first, second)
    assert np.any(first != third)


@pytest.mark.parametrize("method", ALL[3:], ids=lambda method: method.name)
def test_held_out_outcomes_move_sampled_predictions_by_monte_carlo_error_only(
    design: Design, method: Method
) -> None:
    """Chains of the same seed may part by rounding; a leak would move them far more."""
    fold = make_folds(design, by="task", folds=3, seed=1)[0]
    other = spoilt(design, fold)
    first, second = (
        hold_out(given, [method], [fold], seed=4, workers=1).cells["raw"].to_numpy()
        for given in (design, other)
    )
    leak = method.fit(other, effort=Effort.FOLD, seed=4).success[fold.held]
    assert np.abs(first - second).max() < 0.25 * np.abs(first - leak).max()


def test_predictions_of_climatology_are_the_rates_of_the_same_agent_elsewhere(
    design: Design,
) -> None:
    attempts = design.attempts.copy()
    attempts[0, 1:] = 0  # the first agent tried one task: it leaves the design when that is held
    sparse = replace(design, attempts=attempts, successes=np.minimum(design.successes, attempts))
    folds = make_folds(sparse, by="task", folds=3, seed=2)
    cells = hold_out(sparse, [Climatology()], folds, seed=1, workers=1).cells
    assert set(cells["agent"]) == set(design.agents[1:])
    for row in cells.to_dict("records"):
        a, t = design.agents.index(row["agent"]), design.tasks.index(row["task_id"])
        fold = next(fold for fold in folds if fold.number == row["fold"])
        assert fold.held[a, t]
        stays = ~fold.held[a]
        won, tried = sparse.successes[a, stays].sum(), sparse.attempts[a, stays].sum()
        assert row["raw"] == pytest.approx((won + 0.5) / (tried + 1))
        assert (row["attempts"], row["successes"]) == (
            sparse.attempts[a, t],
            sparse.successes[a, t],
        )


def test_a_certain_regression_that_is_wrong_has_a_finite_score(design: Design) -> None:
    successes = np.zeros_like(design.successes)
    successes[:, 0] = design.attempts[:, 0]  # every agent succeeds at one task alone
    odd = replace(design, successes=successes)
    folds = [fold for fold in make_folds(odd, by="task", folds=None, seed=1) if fold.held[0, 0]]
    cells = hold_out(odd, [Regression()], folds, seed=1, workers=1).cells
    np.testing.assert_array_equal(cells["raw"], 0)
    np.testing.assert_array_equal(cells["probability"], SUREST)
    np.testing.assert_allclose(cells["log_score"], 6 * np.log(SUREST))


def test_fold_fits_in_other_processes_are_those_of_this_one(design: Design) -> None:
    folds = make_folds(design, by="agent", folds=2, seed=1)
    contenders = [Climatology(), Regression()]
    here, there = (
        hold_out(design, contenders, folds, seed=1, workers=workers).cells for workers in (1, 2)
    )
    assert here.equals(there)


@pytest.fixture
def sparse() -> Design:
    """Five agents, 30 tasks in 7 families; a third of the cells were never tried."""
    rng = np.random.default_rng(5)
    drawn = draw_design(usual_truth(rng, n_agents=5, n_tasks=30, n_families=7), rng)
    tried = rng.random(drawn.attempts.shape) < 0.7
    return only(drawn, tried)


def only(sparse: Design, tried: np.ndarray) -> Design:
    return replace(
        sparse,
        attempts=sparse.attempts * tried,
        successes=sparse.successes * tried,
        score_sum=sparse.score_sum * tried,
    )


@pytest.mark.parametrize("by", KINDS)
@pytest.mark.parametrize("folds", [2, 5, None])
def test_every_tried_cell_is_held_out_once_and_no_other(
    sparse: Design, by: str, folds: int | None
) -> None:
    made = make_folds(sparse, by=by, folds=folds, seed=3)
    times = sum(fold.held.astype(int) for fold in made)
    np.testing.assert_array_equal(times, (sparse.attempts > 0).astype(int))
    if folds is not None:
        assert len(made) == folds


def test_folds_by_task_and_family_keep_them_whole(sparse: Design) -> None:
    by_task = assign_folds(sparse, by="task", folds=5, seed=1)
    by_family = assign_folds(sparse, by="family", folds=3, seed=1)
    for assigned, group in ((by_task, np.arange(30)), (by_family, sparse.task_family)):
        for g in np.unique(group):
            inside = assigned[:, group == g]
            assert len(np.unique(inside[inside != NOT_TRIED])) == 1


def test_one_at_a_time_holds_out_each_family_alone(sparse: Design) -> None:
    made = make_folds(sparse, by="family", folds=None, seed=1)
    held = [set(sparse.task_family[fold.held.any(axis=0)]) for fold in made]
    assert sorted(map(len, held)) == [1] * 7
    assert set.union(*held) == set(range(7))


def test_folds_by_agent_hold_out_a_fifth_of_every_agents_tasks(sparse: Design) -> None:
    tried = (sparse.attempts > 0).sum(axis=1)
    for fold in make_folds(sparse, by="agent", folds=5, seed=1):
        share = fold.held.sum(axis=1)
        assert np.all(np.abs(share - tried / 5) < 1)


def test_a_seed_gives_its_folds_and_another_seed_gives_others(sparse: Design) -> None:
    first, again, other = (assign_folds(sparse, by="task", folds=5, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


def test_a_cell_whose_agent_would_keep_no_run_is_in_no_fold(sparse: Design) -> None:
    tried = sparse.attempts > 0
    tried[2] = np.arange(30) == 4  # one task only
    for by in KINDS:
        made = make_folds(only(sparse, tried), by=by, folds=5, seed=1)
        assert not any(fold.held[2].any() for fold in made)
        assert sum(fold.held.sum() for fold in made) == (only(sparse, tried).attempts > 0).sum() - (
            sparse.attempts[2, 4] > 0
        )


def test_training_blanks_the_cells_and_keeps_everything_human(sparse: Design) -> None:
    fold = make_folds(sparse, by="task", folds=5, seed=1)[0]
    training = without(sparse, fold.held).design
    np.testing.assert_array_equal(training.attempts, np.where(fold.held, 0, sparse.attempts))
    np.testing.assert_array_equal(training.successes, np.where(fold.held, 0, sparse.successes))
    np.testing.assert_array_equal(training.score_sum, np.where(fold.held, 0, sparse.score_sum))
    for name in ("run_task", "run_log2", "failed_log2", "estimate_task", "estimate_log2"):
        np.testing.assert_array_equal(getattr(training, name), getattr(sparse, name))
    assert training.tasks == sparse.tasks


def test_training_leaves_out_agents_without_a_run_and_says_where_the_others_were(
    sparse: Design,
) -> None:
    held = np.zeros(sparse.attempts.shape, dtype=bool)
    held[1] = True
    training = without(sparse, held)
    assert training.design.agents == tuple(sparse.agents[a] for a in (0, 2, 3, 4))
    np.testing.assert_array_equal(training.agent_rows, [0, 2, 3, 4])
    np.testing.assert_array_equal(training.design.attempts, sparse.attempts[[0, 2, 3, 4]])


@pytest.mark.parametrize(
    ("by", "message"),
    [("family", "families with agent runs: 1,"), ("source", "must be one of task, family, agent")],
)
def test_impossible_folds_name_the_remedy(sparse: Design, by: str, message: str) -> None:
    alone = replace(sparse, task_family=np.zeros(30, dtype=np.int64), families=("one",))
    with pytest.raises(InputError, match=message):
        make_folds(alone, by=by, folds=5, seed=1)
