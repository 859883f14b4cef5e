"""The gate: chains that disagree, stand still or diverge do not pass."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from tidegauge.engine.diagnostics import diagnose

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import arviz as az


def trace_of(draws: np.ndarray, diverging: int = 0) -> az.InferenceData:
    flags = np.zeros(draws.shape[:2], dtype=bool)
    flags.ravel()[:diverging] = True
    return az.from_dict(posterior={"x": draws}, sample_stats={"diverging": flags})


@pytest.fixture
def good() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(4, 1000))


def failed(trace: az.InferenceData) -> set[str]:
    return {check.name for check in diagnose(trace).failed}


def test_independent_draws_pass(good: np.ndarray) -> None:
    diagnosis = diagnose(trace_of(good))
    assert diagnosis.converged
    assert diagnosis.failed == []


def test_a_chain_elsewhere_fails_r_hat(good: np.ndarray) -> None:
    good[2] += 3
    assert "r_hat" in failed(trace_of(good))


def test_a_slow_walk_fails_ess(good: np.ndarray) -> None:
    walk = np.cumsum(good, axis=1) / 30
    assert {"ess_bulk", "ess_tail"} <= failed(trace_of(walk))


def test_one_divergence_fails(good: np.ndarray) -> None:
    assert failed(trace_of(good, diverging=1)) == {"divergences"}


def test_a_chain_that_stands_still_fails(good: np.ndarray) -> None:
    good[:] = 1.0
    assert "r_hat" in failed(trace_of(good))


def test_r_hat_of_one_chain_is_said_to_be_unknown(good: np.ndarray) -> None:
    checks = {check.name: check for check in diagnose(trace_of(good[:1])).checks}
    assert checks["r_hat"].passed is None
