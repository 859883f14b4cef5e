"""NUTS through nutpie, for a PyMC model or for a compiled log density.

nutpie needs only the address of a C function for the log density and its gradient; its promised
Python interface costs ten times a leapfrog step. What is not promised is used in this file alone,
nutpie's version is pinned, and `tests/unit/engine/test_sampling.py` holds it to its word.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tidegauge.arrays import FloatArray
from tidegauge.engine.arviz_import import quiet_arviz
from tidegauge.engine.config import SamplerConfig
from tidegauge.progress import SILENT, Progress, Step
from tidegauge.system import available_cores

if TYPE_CHECKING:
    import arviz as az
    import pymc as pm

with quiet_arviz():
    import nutpie
    from nutpie import _lib
    from nutpie.compile_pymc import CompiledPyMCModel


_STATISTICS = {
    "diverging": "diverging",
    "energy": "energy",
    "logp": "lp",
    "n_steps": "n_steps",
    "step_size": "step_size",
    "depth": "tree_depth",
}

# Rendered by nutpie's progress thread; JSON, so that any Progress can show it.
_PROGRESS_TEMPLATE = (
    '{"done": {{ total_finished_draws }}, "diverging": '
    "[{% for chain in chains %}{{ chain.divergences }},{% endfor %}0]}"
)


class CompiledFunction(Protocol):
    """A C function by its address, such as a numba ``cfunc``."""

    address: int


@dataclass(frozen=True)
class LogDensity:
    """A compiled log density over an unconstrained vector.

    Attributes
    ----------
    function, identity : CompiledFunction
        ``int64 f(uint64 n, double *x, double *gradient, double *logp, void *data)``, and a
        function ``int64 g(uint64 n, uint64 n, double *x, double *out, void *data)`` that copies.
    data : ndarray
        The buffer that `function` receives as its last argument; kept alive with this object.
    size : int
        Length of the vector.
    initial : callable
        From a seed to a starting point; different seeds give dispersed points.
    """

    function: CompiledFunction
    identity: CompiledFunction
    data: FloatArray
    size: int
    initial: Callable[[int], FloatArray]


@dataclass(frozen=True)
class Draws:
    """What a kernel's sampler returns.

    Attributes
    ----------
    position : ndarray of shape (chain, draw, size)
        Unconstrained draws.
    statistics : dict of ndarray of shape (chain, draw)
        ``diverging``, ``energy``, ``lp``, ``n_steps``, ``step_size``, ``tree_depth``.
    seconds : float
        Wall time of tuning and drawing.
    """

    position: FloatArray
    statistics: dict[str, NDArray[Any]]
    seconds: float


def sample_density(
    density: LogDensity,
    config: SamplerConfig,
    *,
    low_rank: bool = False,
    label: str = "sampling",
    progress: Progress = SILENT,
) -> Draws:
    """Sample a compiled log density with several chains from dispersed starts.

    Parameters
    ----------
    low_rank : bool
        Adapt to correlations by a low-rank metric instead of a diagonal one.

    Raises
    ------
    RuntimeError
        No chain found a starting point with finite density: the density is at fault.
    """
    dim = "position_dim"
    model = CompiledPyMCModel(
        dims={"position": (dim,)},
        _n_dim=density.size,
        _coords={dim: np.arange(density.size)},
        _shapes={"position": (density.size,)},
        compiled_logp_func=density.function,
        compiled_expand_func=density.identity,
        initial_point_func=density.initial,
        shared_data={},
        user_data=density.data,
        n_expanded=density.size,
        shape_info=(["position"], [slice(0, density.size)], [(density.size,)]),
        logp_func=None,
        expand_func=None,
    )
    began = time.perf_counter()
    draws, statistics = _run(model, config, low_rank=low_rank, label=label, progress=progress)
    position = np.stack(
        [_column(batch, "position", config).reshape(config.draws, -1) for batch in draws]
    )
    return Draws(
        position=position,
        statistics={
            ours: np.stack([_column(batch, theirs, config) for batch in statistics])
            for theirs, ours in _STATISTICS.items()
        },
        seconds=time.perf_counter() - began,
    )


def sample_pymc(
    model: pm.Model,
    config: SamplerConfig,
    *,
    low_rank: bool = False,
    label: str = "sampling",
    progress: Progress = SILENT,
) -> az.InferenceData:
    """Compile a PyMC model with numba, sample it with NUTS and return posterior and statistics."""
    with progress.step(f"compiling for {label}"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba's remarks on PyTensor's generated code
        compiled = nutpie.compile_pymc_model(model)
    draws, statistics = _run(compiled, config, low_rank=low_rank, label=label, progress=progress)
    trace = nutpie.sample.__globals__["_arrow_to_arviz"](
        draws,
        statistics,
        skip_vars=[name for name in statistics[0].column_names if name not in _STATISTICS],
        coords=dict(compiled.coords),
        save_warmup=False,
    )
    # nutpie also stores what PyMC samples in: sigma_log__ and the like.
    shown = [name for name in trace.posterior.data_vars if not name.endswith("__")]
    trace.posterior = trace.posterior[shown]
    trace.sample_stats = trace.sample_stats.rename(
        {theirs: ours for theirs, ours in _STATISTICS.items() if theirs in trace.sample_stats}
    )
    return trace


def _run(
    model: Any, config: SamplerConfig, *, low_rank: bool, label: str, progress: Progress
) -> tuple[list[Any], list[Any]]:
    """Run nutpie's sampler and return its Arrow batches, one a chain."""
    kind = _lib.PyNutsSettings.LowRank if low_rank else _lib.PyNutsSettings.Diag
    settings = kind(config.seed)
    settings.num_tune, settings.num_draws = config.tune, config.draws
    settings.num_chains, settings.target_accept = config.chains, config.target_accept
    cores = min(config.cores or available_cores(), config.chains)
    total = config.chains * (config.tune + config.draws)
    with progress.step(label, total=total) as step:
        sampler = model._make_sampler(
            settings,
            np.zeros(model.n_dim),
            cores,
            _lib.ProgressType.template_callback(200, _PROGRESS_TEMPLATE, cores, _report_to(step)),
            _lib.PyStorage.arrow(),
        )
        try:
            sampler.wait(None)
        except BaseException:
            sampler.abort()
            raise
    draws, statistics = sampler.take_results().get_arrow_trace()
    return draws, statistics


def _report_to(step: Step) -> Callable[[str], None]:
    def report(rendered: str) -> None:
        state = json.loads(rendered)
        step.update(state["done"], f"{sum(state['diverging'])} divergences")

    return report


def _column(batch: Any, name: str, config: SamplerConfig) -> NDArray[Any]:
    """Return one column of a chain's Arrow batch without its tuning draws."""
    import pyarrow

    column = pyarrow.array(batch.column(name)).slice(batch.num_rows - config.draws)
    values = column.flatten() if hasattr(column, "flatten") else column
    array: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return array
