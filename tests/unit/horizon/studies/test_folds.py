"""Folds hold out each tried cell once, and blank nothing but agents' runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from designs import draw_design, usual_truth
from tidegauge.errors import InputError
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.studies.folds import KINDS, NOT_TRIED, assign_folds, make_folds, without


@pytest.fixture
def design() -> Design:
    """Five agents, 30 tasks in 7 families; a third of the cells were never tried."""
    rng = np.random.default_rng(5)
    drawn = draw_design(usual_truth(rng, n_agents=5, n_tasks=30, n_families=7), rng)
    tried = rng.random(drawn.attempts.shape) < 0.7
    return only(drawn, tried)


def only(design: Design, tried: np.ndarray) -> Design:
    return replace(
        design,
        attempts=design.attempts * tried,
        successes=design.successes * tried,
        score_sum=design.score_sum * tried,
    )


@pytest.mark.parametrize("by", KINDS)
@pytest.mark.parametrize("folds", [2, 5, None])
def test_every_tried_cell_is_held_out_once_and_no_other(
    design: Design, by: str, folds: int | None
) -> None:
    made = make_folds(design, by=by, folds=folds, seed=3)
    times = sum(fold.held.astype(int) for fold in made)
    np.testing.assert_array_equal(times, (design.attempts > 0).astype(int))
    if folds is not None:
        assert len(made) == folds


def test_folds_by_task_and_family_keep_them_whole(design: Design) -> None:
    by_task = assign_folds(design, by="task", folds=5, seed=1)
    by_family = assign_folds(design, by="family", folds=3, seed=1)
    for assigned, group in ((by_task, np.arange(30)), (by_family, design.task_family)):
        for g in np.unique(group):
            inside = assigned[:, group == g]
            assert len(np.unique(inside[inside != NOT_TRIED])) == 1


def test_one_at_a_time_holds_out_each_family_alone(design: Design) -> None:
    made = make_folds(design, by="family", folds=None, seed=1)
    held = [set(design.task_family[fold.held.any(axis=0)]) for fold in made]
    assert sorted(map(len, held)) == [1] * 7
    assert set.union(*held) == set(range(7))


def test_folds_by_agent_hold_out_a_fifth_of_every_agents_tasks(design: Design) -> None:
    tried = (design.attempts > 0).sum(axis=1)
    for fold in make_folds(design, by="agent", folds=5, seed=1):
        share = fold.held.sum(axis=1)
        assert np.all(np.abs(share - tried / 5) < 1)


def test_a_seed_gives_its_folds_and_another_seed_gives_others(design: Design) -> None:
    first, again, other = (assign_folds(design, by="task", folds=5, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


def test_a_cell_whose_agent_would_keep_no_run_is_in_no_fold(design: Design) -> None:
    tried = design.attempts > 0
    tried[2] = np.arange(30) == 4  # one task only
    for by in KINDS:
        made = make_folds(only(design, tried), by=by, folds=5, seed=1)
        assert not any(fold.held[2].any() for fold in made)
        assert sum(fold.held.sum() for fold in made) == (only(design, tried).attempts > 0).sum() - (
            design.attempts[2, 4] > 0
        )


def test_training_blanks_the_cells_and_keeps_everything_human(design: Design) -> None:
    fold = make_folds(design, by="task", folds=5, seed=1)[0]
    training = without(design, fold.held).design
    np.testing.assert_array_equal(training.attempts, np.where(fold.held, 0, design.attempts))
    np.testing.assert_array_equal(training.successes, np.where(fold.held, 0, design.successes))
    np.testing.assert_array_equal(training.score_sum, np.where(fold.held, 0, design.score_sum))
    for name in ("run_task", "run_log2", "failed_log2", "estimate_task", "estimate_log2"):
        np.testing.assert_array_equal(getattr(training, name), getattr(design, name))
    assert training.tasks == design.tasks


def test_training_leaves_out_agents_without_a_run_and_says_where_the_others_were(
    design: Design,
) -> None:
    held = np.zeros(design.attempts.shape, dtype=bool)
    held[1] = True
    training = without(design, held)
    assert training.design.agents == tuple(design.agents[a] for a in (0, 2, 3, 4))
    np.testing.assert_array_equal(training.agent_rows, [0, 2, 3, 4])
    np.testing.assert_array_equal(training.design.attempts, design.attempts[[0, 2, 3, 4]])


@pytest.mark.parametrize(
    ("by", "message"),
    [("family", "families with agent runs: 1,"), ("source", "must be one of task, family, agent")],
)
def test_impossible_folds_name_the_remedy(design: Design, by: str, message: str) -> None:
    alone = replace(design, task_family=np.zeros(30, dtype=np.int64), families=("one",))
    with pytest.raises(InputError, match=message):
        make_folds(alone, by=by, folds=5, seed=1)
