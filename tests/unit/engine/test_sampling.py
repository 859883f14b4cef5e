"""What engine.sampling takes from nutpie, held to its word."""

from __future__ import annotations

import numba
import numpy as np
import pymc as pm
import pytest
from numba import types

from tidegauge.engine.config import SamplerConfig
from tidegauge.engine.diagnostics import diagnose
from tidegauge.engine.sampling import LogDensity, sample_density, sample_pymc
from tidegauge.errors import InputError

POINTER = types.CPointer(types.float64)
SIZE = types.uint64


@numba.cfunc(types.int64(SIZE, POINTER, POINTER, POINTER, POINTER))
def gaussian(n, x, gradient, logp, data):  # type: ignore[no-untyped-def]
    """Independent normals; means and sds lie in the data."""
    logp[0] = 0.0
    for i in range(n):
        z = (x[i] - data[i]) / data[n + i]
        logp[0] -= 0.5 * z * z
        gradient[i] = -z / data[n + i]
    return 0


@numba.cfunc(types.int64(SIZE, SIZE, POINTER, POINTER, POINTER))
def identity(n, n_out, x, out, data):  # type: ignore[no-untyped-def]
    for i in range(n):
        out[i] = x[i]
    return 0


MEAN, SD = np.array([-3.0, 0.0, 5.0, 100.0]), np.array([0.1, 1.0, 2.0, 30.0])


@pytest.fixture(scope="module")
def density() -> LogDensity:
    return LogDensity(
        function=gaussian,
        identity=identity,
        data=np.concatenate([MEAN, SD]),
        size=4,
        initial=lambda seed: np.random.default_rng(seed).normal(size=4),
    )


class Recorder:
    """A step that remembers what it was told."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, str]] = []

    def step(self, label: str, total: float | None = None):  # type: ignore[no-untyped-def]
        import contextlib

        return contextlib.nullcontext(self)

    def update(self, done: float, detail: str = "") -> None:
        self.seen.append((done, detail))

    def note(self, text: str) -> None:
        pass


@pytest.mark.parametrize("low_rank", [False, True])
def test_draws_of_a_compiled_density_have_its_moments(density: LogDensity, low_rank: bool) -> None:
    config = SamplerConfig(draws=2000, tune=500, chains=4, seed=5)
    draws = sample_density(density, config, low_rank=low_rank)
    assert draws.position.shape == (4, 2000, 4)
    flat = draws.position.reshape(-1, 4)
    import arviz as az

    for i in range(4):
        ess = float(az.ess(draws.position[:, :, i]))
        # Five standard errors of a mean, and of an sd, at the effective sample size.
        assert abs(flat[:, i].mean() - MEAN[i]) < 5 * SD[i] / np.sqrt(ess)
        assert abs(flat[:, i].std() / SD[i] - 1) < 5 / np.sqrt(ess)
    assert set(draws.statistics) >= {"diverging", "energy", "lp", "n_steps", "tree_depth"}
    assert not draws.statistics["diverging"].any()


def test_the_same_seed_gives_the_same_draws_and_another_does_not(density: LogDensity) -> None:
    first, second, other = (
        sample_density(density, SamplerConfig(draws=50, tune=50, chains=2, seed=seed)).position
        for seed in (7, 7, 8)
    )
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_progress_is_told_draws_and_divergences(density: LogDensity) -> None:
    recorder = Recorder()
    config = SamplerConfig(draws=200_000, tune=100, chains=2)
    sample_density(density, config, progress=recorder)  # type: ignore[arg-type]
    assert recorder.seen
    assert all(detail.endswith("divergences") for _, detail in recorder.seen)
    done = [count for count, _ in recorder.seen]
    assert done == sorted(done)


def test_a_pymc_model_is_sampled_with_named_dimensions() -> None:
    with pm.Model(coords={"thing": ["a", "b"]}) as model:
        pm.Normal("level", [0.0, 10.0], 2.0, dims="thing")
    trace = sample_pymc(model, SamplerConfig(draws=500, tune=300, chains=2))
    assert trace.posterior["level"].dims == ("chain", "draw", "thing")
    assert list(trace.posterior["thing"].values) == ["a", "b"]
    diagnosis = diagnose(trace)
    assert diagnosis.divergences == 0
    assert list(diagnosis.parameters["parameter"]) == ["level[a]", "level[b]"]
    error = diagnosis.parameters["sd"] / np.sqrt(diagnosis.parameters["ess_bulk"])
    assert (np.abs(diagnosis.parameters["mean"] - [0.0, 10.0]) < 5 * error).all()


@pytest.mark.parametrize(
    ("field", "value"), [("draws", 0), ("tune", 1), ("chains", 0), ("seed", -1)]
)
def test_impossible_settings_name_their_field(field: str, value: int) -> None:
    with pytest.raises(InputError, match=field):
        SamplerConfig(**{field: value})
