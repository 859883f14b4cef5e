"""The core model as statistics: the same posterior as PyMC's own sampler, and honest intervals."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.stats import norm

from coverage_study import core_coverage
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


def drawn(seed: int, **options: int) -> tuple[Truth, Design]:
    rng = np.random.default_rng(seed)
    truth = usual_truth(rng, **SIZES)
    return truth, draw_design(truth, rng, **options)


def test_posterior_equals_that_of_the_pymc_model() -> None:
    """Another density (PyMC's graph) in other coordinates (centred); the targets must agree.

    Many families and runs: where a scale may vanish, chains in centred coordinates are stuck for
    longer than their own Monte Carlo error can tell, and nothing could be judged by them.
    """
    rng = np.random.default_rng(1)
    truth = usual_truth(rng, n_agents=4, n_tasks=32, n_families=16)
    design = draw_design(truth, rng, human_runs=6, estimates=3, failed=6)
    options = HorizonOptions(failures="censor")
    sampler = SamplerConfig(draws=1000, tune=600, chains=4)
    fit = fit_horizon(design, options=options, sampler=sampler)
    trace = sample_pymc(build_model(design, options=options), sampler)
    scores = []
    for name in trace.posterior.data_vars:
        pair = [np.asarray(trace.posterior[name]), getattr(fit.point, name)]
        theirs, ours = (values.reshape(*values.shape[:2], -1) for values in pair)
        for i in range(theirs.shape[2]):
            both = theirs[:, :, i], ours[:, :, i]
            assert min(az.ess(x) for x in both) > 200, (name, i)  # else its error means nothing
            centre = both[0].mean()
            for power in (1, 2):  # means, and mean squared deviations
                first, second = ((x - centre) ** power for x in both)
                error = np.hypot(az.mcse(first), az.mcse(second))
                scores.append((second.mean() - first.mean()) / error)
    # Standard normals, one set in 10,000 of which goes beyond, however they are correlated.
    assert np.abs(scores).max() < norm.isf(0.5e-4 / len(scores))


def test_intervals_of_p50_cover_the_truth() -> None:
    for found in core_coverage(20):
        assert found.is_nominal, found


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
