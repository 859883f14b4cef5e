"""The full model as statistics: honest intervals where `core` has none, horizons of new tasks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from full_designs import FullTruth, draw_full_design, full_usual_truth
from tidegauge.engine.config import SamplerConfig
from tidegauge.horizon.design import Design
from tidegauge.horizon.fit import HorizonFit, fit_horizon
from tidegauge.horizon.methods import log2_horizons
from tidegauge.horizon.options import CORE, FULL, HorizonOptions

SIZES = {"n_agents": 4, "n_tasks": 18, "n_families": 8}
QUICK = SamplerConfig(draws=400, tune=300, chains=2, cores=1)
DATA_SETS, AGENTS = 50, 2  # 100 intervals of each kind

# Success rate, and whether over random tasks. At one half both are the same, by symmetry.
Kind = tuple[float, bool]
KINDS: tuple[Kind, ...] = ((0.5, False), (0.5, True), (0.8, False), (0.8, True))


def drawn(seed: int) -> tuple[FullTruth, Design]:
    rng = np.random.default_rng(seed)
    truth = full_usual_truth(rng, **SIZES)
    return truth, draw_full_design(truth, rng)


def true_log2(truth: FullTruth, kind: Kind) -> np.ndarray:
    success, marginal = kind
    return truth.log2_marginal(success) if marginal else truth.log2_typical(success)


def intervals_that_hold_the_truth(options: HorizonOptions) -> dict[Kind, int]:
    """How many of 100 intervals of 90 % hold the horizon that the data were drawn from."""
    inside = dict.fromkeys(KINDS, 0)
    for seed in range(DATA_SETS):
        truth, design = drawn(3000 + seed)
        fit = fit_horizon(design, options=options, sampler=QUICK, patient=False)
        for kind in KINDS:
            log2 = log2_horizons(fit, success=kind[0], marginal=kind[1])[:, :AGENTS]
            low, high = np.quantile(log2, [0.05, 0.95], axis=0)
            true = true_log2(truth, kind)[:AGENTS]
            inside[kind] += int(((low <= true) & (true <= high)).sum())
    return inside


@pytest.fixture(scope="module")
def full_inside() -> dict[Kind, int]:
    return intervals_that_hold_the_truth(FULL)


@pytest.mark.parametrize("kind", KINDS, ids=["p50", "p50 marginal", "p80", "p80 marginal"])
def test_90_percent_intervals_cover_typical_and_marginal_horizons(
    full_inside: dict[Kind, int], kind: Kind
) -> None:
    assert 83 <= full_inside[kind] <= 96


def test_core_covers_less_where_difficulty_is_more_than_length(
    full_inside: dict[Kind, int],
) -> None:
    core_inside = intervals_that_hold_the_truth(CORE)
    assert core_inside[0.5, False] < full_inside[0.5, False]
    assert core_inside[0.8, True] < full_inside[0.8, True]


@pytest.fixture(scope="module")
def sharp_fit() -> HorizonFit:
    options = HorizonOptions(residual="family", noise="student_t", discrimination=True)
    rng = np.random.default_rng(11)
    truth = full_usual_truth(rng, options=options, **SIZES)
    return fit_horizon(draw_full_design(truth, rng), options=options, sampler=QUICK, patient=False)


@pytest.mark.parametrize("success", [0.2, 0.5, 0.8, 0.95])
def test_marginal_horizons_against_simulated_new_tasks(
    sharp_fit: HorizonFit, success: float
) -> None:
    """At the marginal horizon of a draw, new tasks drawn with it are solved at that rate."""
    log2 = log2_horizons(sharp_fit, success=success, marginal=True)
    point, rng, n_new = sharp_fit.point.flat(), np.random.default_rng(12), 100_000
    assert point.sigma_residual_family is not None
    assert point.sigma_residual_task is not None
    assert point.sigma_discrimination is not None
    scores = []
    for draw in range(0, log2.shape[0], log2.shape[0] // 12):
        family = rng.normal(0, point.sigma_residual_family[draw], n_new)
        residual = rng.normal(family, point.sigma_residual_task[draw])
        sharpness = np.exp(rng.normal(0, point.sigma_discrimination[draw], n_new))
        for a in range(SIZES["n_agents"]):
            typical = point.alpha[draw, a] + point.beta[draw, a] * log2[draw, a]
            rates = expit(sharpness * (typical + residual))
            scores.append((rates.mean() - success) / (rates.std() / np.sqrt(n_new)))
    # A dozen draws (agents of one share their new tasks): standard normals.
    assert np.abs(scores).max() < 4
