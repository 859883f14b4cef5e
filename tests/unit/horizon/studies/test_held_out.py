"""What is held out never reaches a fit, and what is predicted goes to its own cell."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pytest

from designs import draw_design, usual_truth
from tidegauge.engine.config import SamplerConfig
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.horizons.estimate import Estimate
from tidegauge.horizon.methods.base import Climatology, Effort, Method
from tidegauge.horizon.methods.exact import Exact
from tidegauge.horizon.methods.hierarchical import Hierarchical
from tidegauge.horizon.methods.regression import Regression
from tidegauge.horizon.model.options import HorizonOptions
from tidegauge.horizon.studies.folds import KINDS, Fold, make_folds
from tidegauge.horizon.studies.held_out import SUREST, hold_out
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
