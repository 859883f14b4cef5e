"""The core model as statistics: the same posterior as PyMC's own sampler, and honest intervals."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from designs import Truth, draw_design, usual_truth
from tidegauge.arrays import weighted_quantiles
from tidegauge.engine.config import SamplerConfig
from tidegauge.engine.sampling import sample_pymc
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.horizons.estimate import estimate_of_fit
from tidegauge.horizon.horizons.quantities import log2_horizon
from tidegauge.horizon.methods.exact import agent_grid
from tidegauge.horizon.model.options import DEFAULT_PRIORS, HorizonOptions
from tidegauge.horizon.model.specification import build_model
from tidegauge.horizon.sampler.fit import fit_horizon

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import arviz as az

SIZES = {"n_agents": 4, "n_tasks": 16, "n_families": 5}
QUICK = SamplerConfig(draws=500, tune=300, chains=2, cores=1)


def drawn(seed: int, **options: int) -> tuple[Truth, Design]:
    rng = np.random.default_rng(seed)
    truth = usual_truth(rng, **SIZES)
    return truth, draw_design(truth, rng, **options)


@pytest.mark.parametrize("failures", ["ignore", "censor"])
def test_posterior_equals_that_of_the_pymc_model(failures: str) -> None:
    """Another density (PyMC's graph) in other coordinates (centred); the targets must agree.

    PyMC's own sampler on the same model is compared in benchmarks/bench_horizon.py: on data this
    small its effective sample sizes are too low to judge by.
    """
    _, design = drawn(1, failed=6)
    options = HorizonOptions(failures=failures)
    fit = fit_horizon(design, options=options)
    assert fit.diagnosis.converged
    careful = SamplerConfig(draws=4000, tune=1500, chains=2, target_accept=0.98)
    posterior = sample_pymc(build_model(design, options=options), careful).posterior
    scores = []
    for name in posterior.data_vars:
        theirs = np.asarray(posterior[name]).reshape(2, posterior.sizes["draw"], -1)
        ours = getattr(fit.point, name).reshape(4, fit.sampler.draws, -1)
        for i in range(theirs.shape[2]):
            error = np.hypot(az.mcse(theirs[:, :, i]), az.mcse(ours[:, :, i]))
            scores.append((ours[:, :, i].mean() - theirs[:, :, i].mean()) / error)
            # The spread too: standard errors of an sd at its effective sample size.
            spread = np.log(ours[:, :, i].std() / theirs[:, :, i].std())
            ess = min(az.ess(theirs[:, :, i], method="sd"), az.ess(ours[:, :, i], method="sd"))
            assert abs(spread) < 5 / np.sqrt(ess), (name, i)
    # About 35 correlated standard normals: none beyond 4, and no drift of their mean square.
    assert np.abs(scores).max() < 4
    assert np.mean(np.square(scores)) < 2.5


def test_90_percent_intervals_of_p50_cover_the_truth() -> None:
    inside = 0
    for seed in range(100):
        truth, design = drawn(1000 + seed)
        fit = fit_horizon(design, sampler=QUICK, patient=False)
        log2 = log2_horizon(fit.point.alpha[..., 0], fit.point.beta[..., 0], success=0.5)
        low, high = np.quantile(log2, [0.05, 0.95])
        inside += low <= truth.log2_p50[0] <= high
    assert 83 <= inside <= 96


def test_many_runs_recover_the_difficulties_and_curves() -> None:
    truth, design = drawn(5, runs_per_cell=400, human_runs=60, estimates=60)
    fit = fit_horizon(design)
    assert fit.diagnosis.converged
    for name in ("mu_task", "alpha", "beta"):
        draws = getattr(fit.point, name)
        z = (draws.mean(axis=(0, 1)) - getattr(truth, name)) / draws.std(axis=(0, 1))
        assert np.abs(z).max() < 4, name


def test_without_task_noise_the_hierarchical_fit_approaches_the_exact_grid() -> None:
    """With very many human runs the lengths are known, and the agents are as if alone."""
    rng = np.random.default_rng(8)
    truth = usual_truth(rng, **SIZES)
    design = draw_design(truth, rng, human_runs=40_000, estimates=40_000)
    fit = fit_horizon(design)
    p50 = estimate_of_fit(fit).interval()
    for a in range(SIZES["n_agents"]):
        grid = agent_grid(truth.mu_task, design.successes[a], design.attempts[a], DEFAULT_PRIORS)
        log2 = log2_horizon(grid.alpha, grid.beta, success=0.5)
        exact = weighted_quantiles(log2, grid.weight, [0.025, 0.5, 0.975])
        ours = np.log2([p50.low[a], p50.median[a], p50.high[a]])
        draws = log2_horizon(fit.point.alpha[..., a], fit.point.beta[..., a], success=0.5)
        errors = [float(az.mcse(draws, method="quantile", prob=q)) for q in (0.025, 0.5, 0.975)]
        np.testing.assert_array_less(np.abs(ours - exact), 4 * np.array(errors) + 0.02)
