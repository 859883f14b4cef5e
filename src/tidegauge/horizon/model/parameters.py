"""Where everything lies in the parameter vector, and the same vector unpacked and named.

The vector is the model's unconstrained one: logs of the scales, log of -beta, the logit of where
the kink lies between the first and the last date. Parts a model does not have take no place.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from tidegauge.arrays import FloatArray, IntArray
from tidegauge.engine.priors import Prior, uniform_logit
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.model.observations import groups_of, sources_of
from tidegauge.horizon.model.options import HorizonOptions, HorizonPriors
from tidegauge.horizon.model.trend_shapes import TREND_SHAPES

# The blocks of the vector in their order; those before mu_family have priors of their own.
BLOCKS = (
    *("mu_global", "sigma_global", "sigma_family", "sigma_estimate", "sigma_human"),
    *("nu_minus_one", "noise_growth", "delta_estimate"),
    *("sigma_residual_family", "sigma_residual_task", "sigma_discrimination"),
    *("phi", "mu_lapse", "sigma_lapse"),
    *("sigma_horizon", "sigma_group_horizon", "sigma_slope", "sigma_group_slope", "mu_slope"),
    *("trend_level", "trend_rate", "trend_bend", "trend_change", "trend_kink"),
    *("trend_log_height", "trend_middle"),
    *("mu_family", "mu_task", "residual_family", "residual", "log_discrimination"),
    *("group_horizon", "group_slope", "logit_lapse", "alpha", "beta"),
)
# fmt: off
(
    MU_GLOBAL, SIGMA_GLOBAL, SIGMA_FAMILY, SIGMA_ESTIMATE, SIGMA_HUMAN,
    NU_MINUS_ONE, NOISE_GROWTH, DELTA_ESTIMATE,
    SIGMA_RESIDUAL_FAMILY, SIGMA_RESIDUAL_TASK, SIGMA_DISCRIMINATION,
    PHI, MU_LAPSE, SIGMA_LAPSE,
    SIGMA_HORIZON, SIGMA_GROUP_HORIZON, SIGMA_SLOPE, SIGMA_GROUP_SLOPE, MU_SLOPE,
    TREND_LEVEL, TREND_RATE, TREND_BEND, TREND_CHANGE, TREND_KINK,
    TREND_LOG_HEIGHT, TREND_MIDDLE,
    MU_FAMILY, MU_TASK, RESIDUAL_FAMILY, RESIDUAL, LOG_DISCRIMINATION,
    GROUP_HORIZON, GROUP_SLOPE, LOGIT_LAPSE, ALPHA, LOG_SLOPE,
) = range(len(BLOCKS))
# fmt: on

DIMS = {
    "mu_family": "family",
    "mu_task": "task",
    "residual_family": "family",
    "residual": "task",
    "log_discrimination": "task",
    "group_horizon": "group",
    "group_slope": "group",
    "logit_lapse": "agent",
    "alpha": "agent",
    "beta": "agent",
}


class Layout(NamedTuple):
    """Where each block lies: ``starts[i]`` to ``starts[i + 1]`` for block i of `BLOCKS`."""

    starts: tuple[int, ...]
    first_year: float
    last_year: float
    per_source: bool

    @property
    def size(self) -> int:
        """Length of the vector."""
        return self.starts[-1]

    def place(self, block: int) -> slice:
        """Return where a block lies."""
        return slice(self.starts[block], self.starts[block + 1])

    def size_of(self, block: int) -> int:
        """Return the length of a block; 0 for one that the model does not have."""
        return self.starts[block + 1] - self.starts[block]

    def has(self, block: int) -> bool:
        """Tell whether the model has a block."""
        return self.size_of(block) > 0


def is_log(name: str) -> bool:
    """Tell whether the vector holds the logarithm of a block."""
    return name.startswith("sigma_") or name in ("nu_minus_one", "phi")


def layout_of(design: Design, options: HorizonOptions) -> Layout:
    """Return the places of all blocks for this design under these options."""
    n_families, n_tasks, n_agents = len(design.families), len(design.tasks), len(design.agents)
    joint = options.pooling != "none" or options.trend != "none"
    by_family = options.residual == "family"
    n_groups = len(groups_of(design, options))
    sizes = {
        **dict.fromkeys(("mu_global", "sigma_global", "sigma_family", "sigma_estimate"), 1),
        "sigma_human": len(sources_of(design, options)),
        "nu_minus_one": options.noise == "student_t",
        "noise_growth": options.noise_growth,
        "delta_estimate": options.estimate_bias,
        "sigma_residual_family": by_family,
        "sigma_residual_task": options.has_residual,
        "sigma_discrimination": options.discrimination,
        "phi": options.is_overdispersed,
        **dict.fromkeys(("mu_lapse", "sigma_lapse"), options.lapses),
        "sigma_horizon": joint,
        "sigma_group_horizon": n_groups > 0,
        "sigma_slope": options.pools_slopes,
        "sigma_group_slope": n_groups > 0,
        "mu_slope": options.pools_slopes,
        "trend_level": joint,
        **dict.fromkeys(TREND_SHAPES[options.trend].terms, 1),
        "mu_family": n_families,
        "mu_task": n_tasks,
        "residual_family": n_families * by_family,
        "residual": n_tasks * options.has_residual,
        "log_discrimination": n_tasks * options.discrimination,
        "group_horizon": n_groups,
        "group_slope": n_groups,
        "logit_lapse": n_agents * options.lapses,
        "alpha": n_agents,
        "beta": n_agents,
    }
    ends = np.cumsum([int(sizes.get(name, 0)) for name in BLOCKS])
    dated = design.agent_years[~np.isnan(design.agent_years)]
    first, last = (float(dated.min()), float(dated.max())) if dated.size else (0.0, 0.0)
    per_source = options.human_scale == "source"
    return Layout((0, *ends.tolist()), first, last, per_source)


@dataclass(frozen=True)
class Point:
    """A parameter vector, unpacked; arrays may have leading (chain, draw) dimensions.

    What a model does not have is None. Names and units are those of the priors; `trend_kink` is in
    years, `residual` in log2 minutes; `sigma_human` has a last dimension where it is per source.
    """

    mu_global: FloatArray
    sigma_global: FloatArray
    sigma_family: FloatArray
    sigma_estimate: FloatArray
    sigma_human: FloatArray
    mu_family: FloatArray
    mu_task: FloatArray
    alpha: FloatArray
    beta: FloatArray
    nu_minus_one: FloatArray | None = None
    noise_growth: FloatArray | None = None
    delta_estimate: FloatArray | None = None
    sigma_residual_family: FloatArray | None = None
    sigma_residual_task: FloatArray | None = None
    sigma_discrimination: FloatArray | None = None
    phi: FloatArray | None = None
    mu_lapse: FloatArray | None = None
    sigma_lapse: FloatArray | None = None
    sigma_horizon: FloatArray | None = None
    sigma_group_horizon: FloatArray | None = None
    mu_slope: FloatArray | None = None
    sigma_slope: FloatArray | None = None
    sigma_group_slope: FloatArray | None = None
    trend_level: FloatArray | None = None
    trend_rate: FloatArray | None = None
    trend_bend: FloatArray | None = None
    trend_change: FloatArray | None = None
    trend_kink: FloatArray | None = None
    trend_log_height: FloatArray | None = None
    trend_middle: FloatArray | None = None
    residual_family: FloatArray | None = None
    residual: FloatArray | None = None
    log_discrimination: FloatArray | None = None
    group_horizon: FloatArray | None = None
    group_slope: FloatArray | None = None
    logit_lapse: FloatArray | None = None

    @property
    def equivalent_length(self) -> FloatArray:
        """Length plus residual of each task: how long it is to an agent, log2 minutes."""
        return self.mu_task if self.residual is None else self.mu_task + self.residual

    def present(self) -> dict[str, FloatArray]:
        """Return what the model has, by name."""
        mine = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in mine.items() if value is not None}

    def thinned(self, thin: int) -> Point:
        """Keep each `thin`-th draw of every chain."""
        return Point(**{name: value[:, ::thin] for name, value in self.present().items()})

    def flat(self, thin: int = 1) -> Point:
        """Put the chains after one another: arrays (draw, ...), each `thin`-th draw kept."""
        kept = self.thinned(thin).present()
        return Point(**{name: value.reshape(-1, *value.shape[2:]) for name, value in kept.items()})

    def chosen(self, where: tuple[IntArray, ...]) -> Point:
        """Keep the draws at these (chain, draw) indices: arrays (draw, ...)."""
        return Point(**{name: value[where] for name, value in self.present().items()})


def unpack(x: FloatArray, layout: Layout) -> Point:
    """Name and constrain the entries of one vector, or of draws (..., size)."""
    found: dict[str, Any] = {}
    for block, name in enumerate(BLOCKS):
        if layout.has(block):
            found[name] = _constrained(x[..., layout.place(block)], name, layout)
    return Point(**found)


def _constrained(values: FloatArray, name: str, layout: Layout) -> FloatArray:
    if name == "beta":
        return -np.exp(values)
    if is_log(name):
        values = np.exp(values)
    if name == "trend_kink":
        values = layout.first_year + (layout.last_year - layout.first_year) * expit(values)
    if name in DIMS or (name == "sigma_human" and layout.per_source):
        return values
    return values[..., 0]


def prior_of(name: str, priors: HorizonPriors) -> Prior:
    """Return the prior of a scalar by the name of its block."""
    # The kink lies anywhere between the first and the last date.
    prior: Prior = uniform_logit() if name == "trend_kink" else getattr(priors, name)
    return prior


def priors_in_effect(options: HorizonOptions, point: Point) -> list[str]:
    """Name the priors that the model of this point really has."""
    replaced = set()
    if options.pooling != "none" or options.trend != "none":
        replaced.add("alpha")  # agents share a prior of their horizons
    if options.pools_slopes:
        replaced.add("beta")
    has = point.present()
    return [f.name for f in fields(HorizonPriors) if f.name in has and f.name not in replaced]
