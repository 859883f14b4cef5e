"""Prior sensitivity: reweighting against closed forms and against refits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from designs import draw_design, usual_truth
from tidegauge.engine.config import SamplerConfig
from tidegauge.engine.priors import normal
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.methods.base import Effort
from tidegauge.horizon.methods.hierarchical import Hierarchical
from tidegauge.horizon.model.parameters import priors_in_effect
from tidegauge.horizon.sampler.fit import fit_horizon
from tidegauge.horizon.studies import sensitivity
from tidegauge.horizon.studies.sensitivity import (
    ALTERNATIVES,
    COLUMNS,
    LIKELIHOOD,
    SENSITIVE,
    log_prior,
    power_sensitivity,
    prior_sensitivity,
)


@pytest.fixture(scope="module")
def design() -> Design:
    rng = np.random.default_rng(14)
    truth = usual_truth(rng, n_agents=3, n_tasks=18, n_families=6)
    return draw_design(truth, rng, runs_per_cell=6)


@pytest.fixture(scope="module")
def table(design: Design) -> pd.DataFrame:
    return prior_sensitivity(design, seed=2, workers=1)


def test_log_priors_of_a_vector_are_summed_per_draw() -> None:
    values = np.random.default_rng(2).normal(size=(2, 5, 3))
    np.testing.assert_allclose(
        log_prior(normal(0, 1), values), stats.norm.logpdf(values).sum(axis=-1), rtol=1e-12
    )


def test_sensitivity_is_nothing_for_a_flat_prior_and_grows_as_the_prior_tightens() -> None:
    """One normal observation at 3 of a mean with a Normal(0, s) prior: conjugate."""
    rng = np.random.default_rng(3)
    found = []
    for s in (30.0, 3.0, 1.0):
        precision = 1 + 1 / s**2
        draws = rng.normal(3 / precision, precision**-0.5, size=(2, 4000))
        moved = power_sensitivity(draws[..., None], log_prior(normal(0, s), draws))
        found.append(float(moved[0]))
    assert found[0] < 0.01 < found[1] < found[2]
    assert found[2] > SENSITIVE
    constant = power_sensitivity(draws[..., None], np.zeros((2, 4000)))
    # The root of a difference of sums over the draws, whose rounding walks at random, over the
    # two steps of 1 % in power that ArviZ takes.
    rounding = np.sqrt(np.sqrt(draws.size) * np.finfo(float).eps) / (2 * np.log2(1.01))
    assert constant[0] < rounding < 1e-5


def test_reweighting_to_a_power_gives_the_conjugate_median() -> None:
    rng = np.random.default_rng(4)
    draws = rng.normal(3 / 1.25, 1.25**-0.5, size=(2, 20_000))  # prior Normal(0, 2)
    weights, k = sensitivity._smoothed((2 - 1) * log_prior(normal(0, 2), draws))
    # To the power 2 it is Normal(0, sqrt 2): precision 1.5.
    assert weights @ draws.ravel() == pytest.approx(3 / 1.5, abs=4 * 1.5**-0.5 / np.sqrt(10_000))
    assert k < 0.5


def test_reweighted_horizons_agree_with_a_refit_under_the_scaled_prior(
    design: Design, table: pd.DataFrame
) -> None:
    """A normal prior of alpha to the power 2 is one with its variance halved."""
    rows = table[(table["parameter"] == "alpha") & (table["change"] == "prior to the power 2")]
    assert set(rows["how"]) == {"reweighted"}
    priors = sensitivity._power_priors(sensitivity.DEFAULT_PRIORS, "alpha", 2.0)
    assert priors.alpha == normal(0, 5 / np.sqrt(2))
    long = SamplerConfig(draws=2000, tune=500, chains=2, target_accept=0.95)
    method = Hierarchical(short_sampler=long)
    base = method.fit(design, effort=Effort.SHORT, seed=5)
    refit = replace(method, priors=priors).fit(design, effort=Effort.SHORT, seed=5)
    assert refit.median_error is not None
    assert base.median_error is not None
    # Reweighting makes fewer of the draws count.
    error = np.hypot(refit.median_error, 2 * base.median_error)
    moved = np.log2(rows["p50"].to_numpy())
    assert (np.abs(moved - refit.centre_log2()) < 5 * error).all()


def test_the_table_has_every_prior_in_effect_and_every_agent(
    design: Design, table: pd.DataFrame
) -> None:
    assert tuple(table.columns) == COLUMNS
    core = {"mu_global", "sigma_global", "sigma_family", "sigma_human", "sigma_estimate"}
    core |= {"alpha", "beta"}
    power = table[table["kind"] == "power"]
    assert set(power["parameter"]) == {*core, LIKELIHOOD}
    assert power["sensitivity"].notna().all()
    other = table[table["kind"] == "alternative"]
    assert {(row.parameter, row.change) for row in other.itertuples()} == {
        (name, str(prior)) for name in core for prior in ALTERNATIVES[name]
    }
    counts = table.groupby(["kind", "parameter", "change"])["agent"].nunique()
    assert (counts == len(design.agents)).all()
    assert (table.loc[table["parameter"] == LIKELIHOOD, "verdict"] == "likelihood informs").all()
    wide = other[(other["parameter"] == "mu_global")]
    assert (wide["log2_change"].abs() < 6 * wide["change_error"] + 0.02).all()  # hardly matters


def test_a_heavy_tail_is_refitted_instead(design: Design, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensitivity, "HIGH_K", -np.inf)  # nothing may be reweighted
    monkeypatch.setattr(sensitivity, "ALTERNATIVES", {})
    monkeypatch.setattr(sensitivity, "priors_in_effect", lambda options, point: ["alpha"])
    table = prior_sensitivity(design, seed=2, workers=1)
    alpha = table[table["parameter"] == "alpha"]
    assert set(alpha["how"]) == {"refitted", "not to be trusted: see the refit"}
    refitted = alpha[alpha["how"] == "refitted"].set_index(["change", "agent"])["log2_change"]
    assert len(refitted) == 2 * len(design.agents)
    assert refitted.notna().all()


def test_priors_that_pooling_replaces_are_not_in_effect(design: Design) -> None:
    sampler = SamplerConfig(draws=20, tune=20, chains=2)
    fit = fit_horizon(design, sampler=sampler, patient=False)
    assert {"alpha", "beta"} <= set(priors_in_effect(fit.options, fit.point))
    pooled = replace(fit, options=replace(fit.options, pooling="all"))
    assert not {"alpha", "beta"} & set(priors_in_effect(pooled.options, pooled.point))
    trend = replace(fit, options=replace(fit.options, trend="linear"))
    assert {"alpha", "beta"} & set(priors_in_effect(trend.options, trend.point)) == {"beta"}
