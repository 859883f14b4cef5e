"""Pairs, rates and domains against what they mean, computed by hand or by brute force."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

from designs import draw_design, usual_truth
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.horizons.domains import REFIT, SAME, SHIFTED, domains_table, source_designs
from tidegauge.horizon.horizons.estimate import Estimate, estimate_of_draws
from tidegauge.horizon.horizons.quantities import average_level
from tidegauge.horizon.horizons.tables import horizons_table, pairs_table, rates_table
from tidegauge.horizon.methods.exact import fit_exact
from tidegauge.horizon.methods.regression import RegressionOptions, fit_regression
from tidegauge.horizon.model.options import CORE, HorizonOptions
from tidegauge.horizon.model.parameters import Point


def test_pairs_of_hand_made_draws() -> None:
    draws = np.array([[1.0, 0.0, np.inf], [2.0, 3.0, np.inf], [4.0, 1.0, -np.inf], [5.0, 5.0, 0.0]])
    table = pairs_table(["a", "b", "c"], draws).set_index(["agent_a", "agent_b"])
    assert table.index.tolist() == [("a", "b"), ("a", "c"), ("b", "c")]
    assert table["probability"].tolist() == [0.625, 0.5, 0.5]  # two of four, and half a tie
    assert table.loc[("a", "b"), "log2_ratio"] == 0.5  # of -1, 0, 1, 3
    assert np.isfinite(table.to_numpy()).all()


def test_two_infinite_horizons_are_a_tie() -> None:
    table = pairs_table(["a", "b"], np.full((10, 2), np.inf))
    assert table[["probability", "log2_ratio"]].to_numpy().tolist() == [[0.5, 0.0]]


def test_one_agent_has_no_pairs_but_a_header() -> None:
    table = pairs_table(["alone"], np.zeros((5, 1)))
    assert len(table) == 0
    assert list(table.columns)[:3] == ["agent_a", "agent_b", "probability"]


@pytest.mark.parametrize("success", [0.01, 0.5, 0.8, 0.999])
def test_the_level_of_an_average_solves_its_equation(success: float) -> None:
    rng = np.random.default_rng(0)
    shifts, weights = rng.normal(0, 6, (500, 7)), rng.uniform(0.1, 5, 7)
    level = average_level(shifts, weights, success=success)
    found = expit(level[:, None] + shifts) @ (weights / weights.sum())
    np.testing.assert_allclose(found, success, rtol=1e-9)
    single = average_level(shifts[:, :1], np.ones(1), success=success)
    np.testing.assert_allclose(single, logit(success) - shifts[:, 0], atol=1e-12)


@pytest.fixture
def design() -> Design:
    rng = np.random.default_rng(8)
    truth = usual_truth(rng, n_agents=3, n_tasks=20, n_families=4)
    made = draw_design(truth, rng, runs_per_cell=4, failed=5)
    sources = tuple("HCAST" if f < 2 else "SWAA" for f in made.task_family)
    return replace(made, task_source=sources)


def posterior(design: Design, options: HorizonOptions, **residuals: Any) -> Any:
    """A posterior of 2 chains of 40 draws, as `fit_horizon` would return it."""
    rng = np.random.default_rng(4)
    shape = (2, 40, len(design.agents))
    beta = -rng.lognormal(-0.3, 0.1, shape)
    usual = np.ones((2, 40))
    point = Point(
        mu_global=usual,
        sigma_global=usual,
        sigma_family=usual,
        sigma_human=usual,
        sigma_estimate=usual,
        mu_family=np.ones((2, 40, len(design.families))),
        mu_task=np.ones((2, 40, len(design.tasks))),
        alpha=-5 * beta + rng.normal(0, 1, shape),
        beta=beta,
        **residuals,
    )
    return SimpleNamespace(design=design, options=options, point=point)


def estimate(fit: Any) -> Estimate:
    return estimate_of_draws(fit.design, fit.point, method="core")


def test_without_a_residual_every_domain_has_the_agents_one_curve(design: Design) -> None:
    fit = posterior(design, CORE)
    table = domains_table(fit)
    assert table is not None
    assert set(table["basis"]) == {SAME}
    assert table.groupby("agent")["p50"].nunique().tolist() == [1, 1, 1]
    own = np.exp2(np.median(estimate(fit).log2_horizons(kind="typical"), axis=0))
    first = table[table["domain"] == "HCAST"]
    np.testing.assert_allclose(first["p50"], own, rtol=1e-12)
    assert table.groupby("kind")["domain"].nunique().to_dict() == {"family": 4, "source": 2}
    assert table[table["kind"] == "source"].groupby("domain")["n_tasks"].first().sum() == 20


def test_a_domain_averages_over_the_residuals_of_its_tasks(design: Design) -> None:
    residual = np.random.default_rng(2).normal(0, 2, (2, 40, 20))
    fit = posterior(design, HorizonOptions(residual="task"), residual=residual)
    table = domains_table(fit)
    assert table is not None
    assert set(table["basis"]) == {SHIFTED}
    alpha, beta = fit.point.alpha.reshape(80, 3), fit.point.beta.reshape(80, 3)
    shifts = residual.reshape(80, 20)
    inside = np.isin(design.task_family, (2, 3))
    rows = table[(table["kind"] == "source") & (table["domain"] == "SWAA")]
    for a in range(3):  # by brute force: look where the average falls to the rate
        x = np.linspace(-60, 60, 60_001)
        roots = []
        for d in range(80):
            lengths = x + shifts[d, inside, None]
            average = expit(alpha[d, a] + beta[d, a] * lengths).mean(axis=0)
            roots.append(np.interp(0.5, average[::-1], x[::-1]))
        assert np.log2(rows["p50"].iloc[a]) == pytest.approx(np.median(roots), abs=2e-3)


def test_tasks_as_hard_as_one_another_move_the_horizon_by_their_residual(design: Design) -> None:
    residual = np.zeros((2, 40, 20))
    residual[..., design.task_family == 1] = 1.5
    fit = posterior(design, HorizonOptions(residual="task"), residual=residual)
    table = domains_table(fit)
    assert table is not None
    alpha, beta = fit.point.alpha.reshape(80, 3), fit.point.beta.reshape(80, 3)
    family = table[(table["kind"] == "family") & (table["domain"] == design.families[1])]
    for name, success in (("p50", 0.5), ("p80", 0.8)):
        expected = np.exp2(np.median((logit(success) - alpha) / beta - 1.5, axis=0))
        np.testing.assert_allclose(family[name], expected, rtol=1e-9)


def test_one_source_and_one_family_are_no_domains(design: Design) -> None:
    one = replace(
        design,
        task_source=("HCAST",) * 20,
        families=("all",),
        task_family=np.zeros(20, dtype=np.int64),
    )
    assert domains_table(posterior(one, CORE)) is None
    assert source_designs(one)[1] == ["all tasks have one source: there is nothing to refit by it"]


def test_a_source_alone_has_its_own_tasks_families_and_times(design: Design) -> None:
    parts, notes = source_designs(design)
    assert notes == []
    assert [part.domain.name for part in parts] == ["HCAST", "SWAA"]
    swaa = parts[1].design
    inside = np.flatnonzero(design.task_family >= 2)
    assert swaa.tasks == tuple(design.tasks[t] for t in inside)
    assert swaa.families == design.families[2:]
    np.testing.assert_array_equal(swaa.task_family, design.task_family[inside] - 2)
    np.testing.assert_array_equal(swaa.attempts, design.attempts[:, inside])
    for name in ("run", "failed", "estimate"):
        task, log2 = getattr(design, f"{name}_task"), getattr(design, f"{name}_log2")
        part_task, part_log2 = getattr(swaa, f"{name}_task"), getattr(swaa, f"{name}_log2")
        kept = np.isin(task, inside)
        np.testing.assert_array_equal(inside[part_task], task[kept])
        np.testing.assert_array_equal(part_log2, log2[kept])


def test_small_sources_and_agents_with_few_runs_are_not_refitted(design: Design) -> None:
    attempts = design.attempts.copy()
    attempts[0, design.task_family >= 2] = 0
    attempts[0, 19] = 4
    sources = ("RE-Bench",) * 4 + design.task_source[4:]
    parts, notes = source_designs(replace(design, attempts=attempts, task_source=sources))
    assert len(notes) == 1
    assert notes[0].startswith("RE-Bench is not refitted: it has 4 tasks")
    assert {part.domain.name: len(part.design.agents) for part in parts} == {"HCAST": 3, "SWAA": 2}
    assert REFIT not in (SAME, SHIFTED)


def test_rates_of_each_method_agree_with_its_horizons(design: Design) -> None:
    for found in (
        fit_regression(design, options=RegressionOptions(replicates=60)),
        fit_exact(design),
        estimate(posterior(design, CORE)),
    ):
        rates = rates_table(found, (0.8, 0.5, 0.8))
        assert rates["success"].tolist() == [0.8] * 3 + [0.5] * 3
        horizons = horizons_table(design, found)
        for name, success in (("p50", 0.5), ("p80", 0.8)):
            rows = rates[rates["success"] == success].reset_index()
            for end in ("", "q0.025", "q0.975"):
                np.testing.assert_array_equal(rows[f"marginal{end}"], horizons[f"{name}{end}"])
        half = rates[rates["success"] == 0.5]
        np.testing.assert_array_equal(half["marginal_beyond"], horizons["p50_beyond"])


def test_longer_horizons_at_lower_rates(design: Design) -> None:
    table = rates_table(estimate(posterior(design, CORE)), (0.2, 0.5, 0.95))
    by_rate = table.pivot(index="agent", columns="success", values="typical").to_numpy()
    assert (np.diff(by_rate, axis=1) < 0).all()
    assert (table["marginal"] == table["typical"]).all()


def test_the_marginal_horizon_is_that_of_new_tasks_drawn(design: Design) -> None:
    sds = {
        "sigma_residual_family": np.full((2, 40), 1.2),
        "sigma_residual_task": np.full((2, 40), 1.6),
    }
    fit = posterior(design, HorizonOptions(residual="family"), **sds)
    table = rates_table(estimate(fit), (0.9,))
    assert (table["marginal"] < table["typical"]).all()  # some new tasks are too hard at any length
    new_tasks = np.random.default_rng(6).normal(0, 2.0, 400_000)  # 1.2 and 1.6 make 2
    alpha, beta = fit.point.alpha.reshape(80, 3), fit.point.beta.reshape(80, 3)
    log2 = estimate(fit).log2_horizons(0.9)
    for a in range(3):
        rate = expit(alpha[0, a] + beta[0, a] * (log2[0, a] + new_tasks))
        assert rate.mean() == pytest.approx(0.9, abs=4 * rate.std() / np.sqrt(rate.size))
