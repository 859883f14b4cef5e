"""The one float64 buffer that compiled functions read: written, read and checked in this file.

A header, then the sections of `SECTIONS` one after the other. The header holds its own length (by
which a foreign buffer is known), sizes, settings, where the blocks of the parameter vector begin,
and where the sections begin. `check_buffer` refuses a buffer that a compiled function would read
outside of; `pack_data` ends with it.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from tidegauge.arrays import FloatArray, IntArray
from tidegauge.engine.priors import GAUSSIAN
from tidegauge.errors import InputError
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.density.jit import jit
from tidegauge.horizon.model.human_noise import NOISE_CODES
from tidegauge.horizon.model.observations import (
    failed_runs,
    group_index,
    human_runs,
    in_joint_prior,
    prior_length,
    scored_successes,
    source_index,
    trend_years,
)
from tidegauge.horizon.model.options import HorizonOptions, HorizonPriors, priors_in_force
from tidegauge.horizon.model.parameters import (
    ALPHA,
    BLOCKS,
    GROUP_HORIZON,
    GROUP_SLOPE,
    MU_FAMILY,
    MU_SLOPE,
    SIGMA_HUMAN,
    TREND_LEVEL,
    Layout,
    is_log,
    layout_of,
    prior_of,
)
from tidegauge.horizon.model.trend_shapes import TREND_SHAPES

NOT_IN_TREND = -1e9  # in place of an agent's years
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Sizes(NamedTuple):
    """How many of each there are: what the lengths of the sections follow from."""

    agents: int
    tasks: int
    families: int
    intervals: int
    failed: int
    scalars: int
    cell_sizes: int  # distinct numbers of runs in a cell
    linked_slopes: int  # agents whose slopes share a prior, and its coefficients
    slope_terms: int
    linked_horizons: int  # the same of horizons
    horizon_terms: int

    def of(self, dimension: str | int) -> int:
        """Return the length of a dimension as `SECTIONS` names it."""
        if isinstance(dimension, int):
            return dimension
        derived = {"pairs": 2 * self.agents, "family_ends": self.families + 1}
        return derived[dimension] if dimension in derived else int(getattr(self, dimension))


class Settings(NamedTuple):
    """What the model is, beside its data."""

    constant: float  # normalisers and binomial coefficients, all that has no slope
    noise: float
    trend: float
    pooled: float
    first_year: float
    last_year: float
    alpha_mean: float
    alpha_sd: float
    beta_mean: float
    beta_sd: float
    prior_length: float  # log2 minutes of the task at which alpha's prior is stated


class Moments(NamedTuple):
    """Number, mean and sum of squares about it of log2 minutes, by task."""

    number: FloatArray
    mean: FloatArray
    square: FloatArray


class Agents(NamedTuple):
    """Each agent's group, years, and whether its horizon has the joint prior (1) or its own."""

    group: FloatArray
    years: FloatArray
    joint: FloatArray


class Intervals(NamedTuple):
    """Human runs that moments do not describe: task, and log2 minutes from and to."""

    task: FloatArray
    low: FloatArray
    high: FloatArray


class Failed(NamedTuple):
    """Failed human runs that are censored: task and log2 minutes."""

    task: FloatArray
    log2: FloatArray


class CellSizes(NamedTuple):
    """Distinct numbers of runs in a cell, and how many cells have so many."""

    attempts: FloatArray
    number: FloatArray


class Data(NamedTuple):
    """What the log density is computed from."""

    at: IntArray  # where the blocks of the parameter vector begin
    settings: Settings
    scalar_priors: FloatArray  # mean, sd, code, and whether the vector holds the logarithm
    first_task: FloatArray  # of each family; one more entry closes the last
    source: FloatArray
    runs: Moments
    estimates: Moments
    agents: Agents
    intervals: Intervals
    failed: Failed
    cells: CellSizes
    attempts: FloatArray
    successes: FloatArray


class Link(NamedTuple):
    """Values of agents (slopes or horizons) that share a prior, as their runs alone tell them.

    Attributes
    ----------
    rotation : ndarray, shape (agent, agent)
        Eigenvectors of the values' covariance, in columns.
    variance : ndarray, shape (agent,)
        Its eigenvalues.
    prior_mean, prior_precision : ndarray, shape (term,)
        Of the coefficients that the prior's mean is linear in; the precision of a group's level
        is not constant, and 0 here.
    """

    rotation: FloatArray
    variance: FloatArray
    prior_mean: FloatArray
    prior_precision: FloatArray


class Expansion(NamedTuple):
    """The constants of the sampler's coordinates, from an expansion about a point.

    An agent's pair is (its logit at its pivot, s of its slope); all logits come first, in `order`,
    then all s.

    Attributes
    ----------
    human_count, human_mean : ndarray, shape (task,)
        Number and mean of Normal log2 durations with the information of the human runs.
    sharpness_precision, sharpness_location : ndarray, shape (task,)
        Pseudo-observation of the log discrimination.
    logit_weight, weighted_logit : ndarray, shape (task, agent)
        Weights of the agents' logits, and weights times logits, for least squares.
    pivot : ndarray, shape (agent,)
        Equivalent length at which an agent's runs are informative, log2 minutes.
    order : ndarray, shape (agent,)
        Agents whose horizons share a prior first.
    center : ndarray, shape (2 agents,)
        The pairs at the point, by agent; of a horizon with a shared prior as its runs alone
        tell it.
    root : ndarray, shape (2 agents, 2 agents)
        Upper triangular: how far a pair follows the deviations of those after it, and on the
        diagonal its sd given them; logits whose horizons share a prior follow only the others.
    slope_location : ndarray, shape (agent,)
        Log slopes that share a prior, as their runs alone tell them.
    slopes, horizons : Link
        Log slopes and log2 horizons that share a prior.
    """

    human_count: FloatArray
    human_mean: FloatArray
    sharpness_precision: FloatArray
    sharpness_location: FloatArray
    logit_weight: FloatArray
    weighted_logit: FloatArray
    pivot: FloatArray
    order: FloatArray
    center: FloatArray
    root: FloatArray
    slope_location: FloatArray
    slopes: Link
    horizons: Link

    def sections(self) -> dict[str, FloatArray]:
        """Return the arrays by the names of their sections."""
        parts = {k: v for k, v in self._asdict().items() if not isinstance(v, Link)}
        for name, link in (("slopes", self.slopes), ("horizons", self.horizons)):
            parts |= {f"{name}_{k}": v for k, v in link._asdict().items()}
        return parts


def _link_sections(name: str, agents: str, terms: str) -> dict[str, tuple[str, ...]]:
    dims = {"rotation": (agents, agents), "variance": (agents,)}
    dims |= {"prior_mean": (terms,), "prior_precision": (terms,)}
    return {f"{name}_{part}": dims[part] for part in Link._fields}


_DATA_SECTIONS: Mapping[str, tuple[str | int, ...]] = {
    "scalar_priors": ("scalars", 4),
    "first_task": ("family_ends",),
    "source": ("tasks",),
    **dict.fromkeys(("run_number", "run_mean", "run_square"), ("tasks",)),
    **dict.fromkeys(("estimate_number", "estimate_mean", "estimate_square"), ("tasks",)),
    **dict.fromkeys(("group", "years", "joint"), ("agents",)),
    **dict.fromkeys(("interval_task", "interval_low", "interval_high"), ("intervals",)),
    **dict.fromkeys(("failed_task", "failed_log2"), ("failed",)),
    **dict.fromkeys(("cell_attempts", "cell_number"), ("cell_sizes",)),
    **dict.fromkeys(("attempts", "successes"), ("agents", "tasks")),
}
_EXPANSION_SECTIONS: Mapping[str, tuple[str | int, ...]] = {
    **dict.fromkeys(("human_count", "human_mean"), ("tasks",)),
    **dict.fromkeys(("sharpness_precision", "sharpness_location"), ("tasks",)),
    **dict.fromkeys(("logit_weight", "weighted_logit"), ("tasks", "agents")),
    **dict.fromkeys(("pivot", "order"), ("agents",)),
    "center": ("pairs",),
    "root": ("pairs", "pairs"),
    "slope_location": ("linked_slopes",),
    **_link_sections("slopes", "linked_slopes", "slope_terms"),
    **_link_sections("horizons", "linked_horizons", "horizon_terms"),
}
SECTIONS = {**_DATA_SECTIONS, **_EXPANSION_SECTIONS}
_EXPANSION_FIRST = len(_DATA_SECTIONS)
# The section's number by its name.
_N: Any = namedtuple("_Numbers", tuple(SECTIONS))(*range(len(SECTIONS)))

# The header: its own length, sizes, settings, starts of the blocks, starts of the sections.
_SIZES = 1
_SETTINGS = _SIZES + len(Sizes._fields)
_BLOCK_STARTS = _SETTINGS + len(Settings._fields)
_SECTION_STARTS = _BLOCK_STARTS + len(BLOCKS) + 1
HEADER = _SECTION_STARTS + len(SECTIONS) + 1
_END = HEADER - 1


@jit
def length_of(buffer):  # type: ignore[no-untyped-def]
    """Return the length of a checked buffer from its header, so that one pointer is enough."""
    return int(buffer[_END])


@jit
def _section(buffer, number):  # type: ignore[no-untyped-def]
    start = _SECTION_STARTS + number
    return buffer[int(buffer[start]) : int(buffer[start + 1])]


@jit
def read_data(buffer):  # type: ignore[no-untyped-def]
    """Return the data sections of a checked buffer."""
    s = buffer[_SETTINGS:_BLOCK_STARTS]
    group, source = _section(buffer, _N.group), _section(buffer, _N.source)
    shape = (group.size, source.size)
    return Data(
        buffer[_BLOCK_STARTS:_SECTION_STARTS].astype(np.int64),
        Settings(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10]),
        _section(buffer, _N.scalar_priors).reshape((-1, 4)),
        _section(buffer, _N.first_task),
        source,
        Moments(
            _section(buffer, _N.run_number),
            _section(buffer, _N.run_mean),
            _section(buffer, _N.run_square),
        ),
        Moments(
            _section(buffer, _N.estimate_number),
            _section(buffer, _N.estimate_mean),
            _section(buffer, _N.estimate_square),
        ),
        Agents(group, _section(buffer, _N.years), _section(buffer, _N.joint)),
        Intervals(
            _section(buffer, _N.interval_task),
            _section(buffer, _N.interval_low),
            _section(buffer, _N.interval_high),
        ),
        Failed(_section(buffer, _N.failed_task), _section(buffer, _N.failed_log2)),
        CellSizes(_section(buffer, _N.cell_attempts), _section(buffer, _N.cell_number)),
        _section(buffer, _N.attempts).reshape(shape),
        _section(buffer, _N.successes).reshape(shape),
    )


@jit
def _read_link(buffer, first):  # type: ignore[no-untyped-def]
    """Return the link whose sections begin with number `first`, in the order of its fields."""
    variance = _section(buffer, first + 1)
    return Link(
        _section(buffer, first).reshape((variance.size, variance.size)),
        variance,
        _section(buffer, first + 2),
        _section(buffer, first + 3),
    )


@jit
def read_expansion(buffer):  # type: ignore[no-untyped-def]
    """Return the expansion sections of a checked buffer."""
    n_agents, n_tasks = _section(buffer, _N.pivot).size, _section(buffer, _N.human_count).size
    n = 2 * n_agents
    return Expansion(
        _section(buffer, _N.human_count),
        _section(buffer, _N.human_mean),
        _section(buffer, _N.sharpness_precision),
        _section(buffer, _N.sharpness_location),
        _section(buffer, _N.logit_weight).reshape((n_tasks, n_agents)),
        _section(buffer, _N.weighted_logit).reshape((n_tasks, n_agents)),
        _section(buffer, _N.pivot),
        _section(buffer, _N.order),
        _section(buffer, _N.center),
        _section(buffer, _N.root).reshape((n, n)),
        _section(buffer, _N.slope_location),
        _read_link(buffer, _N.slopes_rotation),
        _read_link(buffer, _N.horizons_rotation),
    )


def pack_data(
    design: Design,
    priors: HorizonPriors,
    options: HorizonOptions,
    expansion: Expansion | None = None,
) -> FloatArray:
    """Write the buffer of a model, with or without the constants of the sampler's coordinates.

    Raises
    ------
    InputError
        A prior that the compiled density does not have.
    """
    layout, priors = layout_of(design, options), priors_in_force(priors, options)
    sections = _data_sections(design, priors, options, layout)
    sizes = Sizes(
        agents=len(design.agents),
        tasks=len(design.tasks),
        families=len(design.families),
        intervals=sections["interval_task"].size,
        failed=sections["failed_task"].size,
        scalars=layout.starts[MU_FAMILY],
        cell_sizes=sections["cell_attempts"].size,
        linked_slopes=len(design.agents) * options.pools_slopes,
        slope_terms=layout.size_of(MU_SLOPE) + layout.size_of(GROUP_SLOPE),
        linked_horizons=int(in_joint_prior(design, options).sum()),
        horizon_terms=len(TREND_SHAPES[options.trend].linear) * layout.has(TREND_LEVEL)
        + layout.size_of(GROUP_HORIZON),
    )
    if expansion is None:
        sections |= dict.fromkeys(_EXPANSION_SECTIONS, np.empty(0))
    else:
        sections |= expansion.sections()
    flat = [np.ravel(sections[name]).astype(float) for name in SECTIONS]
    settings = _settings(design, priors, options, layout)
    starts = np.cumsum([HEADER, *(section.size for section in flat)])
    header = np.array([HEADER, *sizes, *settings, *layout.starts, *starts], dtype=float)
    buffer = np.concatenate([header, *flat])
    check_buffer(buffer)
    return buffer


def _data_sections(
    design: Design, priors: HorizonPriors, options: HorizonOptions, layout: Layout
) -> dict[str, FloatArray]:
    plain, intervals = human_runs(design, options)
    failed_task, failed_log2 = failed_runs(design, options)
    runs = _moments(design, design.run_task[plain], design.run_log2[plain])
    estimates = _moments(design, design.estimate_task, design.estimate_log2)
    years = trend_years(design, options)
    rows = [row for name in BLOCKS[:MU_FAMILY] for row in _prior_rows(name, priors, layout)]
    first_task = np.searchsorted(design.task_family, np.arange(len(design.families) + 1))
    sizes, number = np.unique(design.attempts[design.attempts > 0], return_counts=True)
    return {
        "scalar_priors": np.array(rows),
        "first_task": first_task.astype(float),
        "source": source_index(design, options).astype(float),
        **{f"run_{name}": part for name, part in runs._asdict().items()},
        **{f"estimate_{name}": part for name, part in estimates._asdict().items()},
        "group": group_index(design, options).astype(float),
        "years": np.where(np.isnan(years), NOT_IN_TREND, years),
        "joint": in_joint_prior(design, options).astype(float),
        **dict(zip(("interval_task", "interval_low", "interval_high"), intervals, strict=True)),
        "failed_task": failed_task.astype(float),
        "failed_log2": failed_log2,
        "cell_attempts": sizes,
        "cell_number": number,
        "attempts": design.attempts,
        "successes": scored_successes(design, options),
    }


def _prior_rows(name: str, priors: HorizonPriors, layout: Layout) -> list[list[float]]:
    prior, block = prior_of(name, priors), BLOCKS.index(name)
    row = [prior.mu, prior.sd, prior.code, float(is_log(name))]
    return [row] * layout.size_of(block)


def _moments(design: Design, task: IntArray, log2: FloatArray) -> Moments:
    n_tasks = len(design.tasks)
    number: FloatArray = np.bincount(task, minlength=n_tasks).astype(float)
    total: FloatArray = np.bincount(task, weights=log2, minlength=n_tasks).astype(float)
    mean = total / np.maximum(number, 1)
    square = np.bincount(task, weights=(log2 - mean[task]) ** 2, minlength=n_tasks)
    return Moments(number, mean, square.astype(float))


def _settings(
    design: Design, priors: HorizonPriors, options: HorizonOptions, layout: Layout
) -> Settings:
    for name, prior in (("alpha", priors.alpha), ("beta", priors.beta)):
        if prior.code != GAUSSIAN:
            raise InputError(f"priors: {name}: {prior}: must be a normal prior, truncated or not")
    return Settings(
        constant=_constant(design, priors, options, layout),
        noise=NOISE_CODES[options.noise],
        trend=TREND_SHAPES[options.trend].code,
        pooled=float(options.pools_slopes),
        first_year=layout.first_year,
        last_year=layout.last_year,
        alpha_mean=priors.alpha.mu,
        alpha_sd=priors.alpha.sd,
        beta_mean=priors.beta.mu,
        beta_sd=priors.beta.sd,
        prior_length=prior_length(design, options),
    )


def _constant(
    design: Design, priors: HorizonPriors, options: HorizonOptions, layout: Layout
) -> float:
    """Sum what does not depend on the parameters: normalisers and binomial coefficients."""
    n, k = design.attempts, scored_successes(design, options)
    constant = float(np.sum(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)))
    for block, name in enumerate(BLOCKS[:MU_FAMILY]):
        constant += layout.size_of(block) * prior_of(name, priors).log_normaliser
    joint, pooled = in_joint_prior(design, options), options.pools_slopes
    constant += float((~joint).sum()) * priors.alpha.log_normaliser
    constant += 0 if pooled else len(design.agents) * priors.beta.log_normaliser
    n_normals = layout.starts[ALPHA] - layout.starts[MU_FAMILY]  # all vectors before alpha
    n_normals += int(joint.sum()) + pooled * len(design.agents)
    n_normals += int(human_runs(design, options)[0].sum()) + design.estimate_task.size
    return constant - n_normals * _HALF_LOG_2PI


def check_buffer(buffer: FloatArray) -> None:
    """Refuse a buffer that a compiled function would read outside of.

    Raises
    ------
    ValueError
        The header does not describe the buffer, or an index in it points outside.
    """
    if buffer.ndim != 1 or buffer.dtype != np.float64 or not buffer.flags.c_contiguous:
        raise ValueError("buffer: must be a contiguous vector of float64")
    if buffer.size < HEADER or buffer[0] != HEADER:
        raise ValueError(f"buffer: no header of {HEADER} entries; it is of another version")
    sizes = Sizes(*_whole("sizes", buffer[_SIZES:_SETTINGS]))
    blocks = _whole("blocks", buffer[_BLOCK_STARTS:_SECTION_STARTS])
    starts = _whole("sections", buffer[_SECTION_STARTS:HEADER])
    expected = [math.prod(sizes.of(part) for part in dims) for dims in SECTIONS.values()]
    lengths = [end - start for start, end in pairwise(starts)]
    if not any(lengths[_EXPANSION_FIRST:]):  # a buffer without coordinates
        expected[_EXPANSION_FIRST:] = lengths[_EXPANSION_FIRST:]
    if starts[0] != HEADER or starts[-1] != buffer.size or lengths != expected:
        wrong = [
            f"{name} has {length}, should have {should}"
            for name, length, should in zip(SECTIONS, lengths, expected, strict=True)
            if length != should
        ]
        found = "; ".join(wrong) or f"they end at {starts[-1]} of {buffer.size}"
        raise ValueError(f"buffer: sections do not fit their sizes: {found}")
    if blocks[0] != 0 or any(end < start for start, end in pairwise(blocks)):
        raise ValueError("buffer: blocks of the parameter vector overlap")
    _check_indices(buffer, sizes, blocks, starts)


def _whole(what: str, values: FloatArray) -> list[int]:
    if not (np.isfinite(values) & (values >= 0) & (values == np.floor(values))).all():
        raise ValueError(f"buffer: {what} must be whole numbers, none negative")
    return [int(value) for value in values]


def _check_indices(buffer: FloatArray, sizes: Sizes, blocks: list[int], starts: list[int]) -> None:
    """Refuse indices that point outside what they index."""
    n_groups = blocks[GROUP_HORIZON + 1] - blocks[GROUP_HORIZON]
    limits = {
        "first_task": sizes.tasks + 1,
        "source": blocks[SIGMA_HUMAN + 1] - blocks[SIGMA_HUMAN],
        "group": max(n_groups, 1),
        "interval_task": sizes.tasks,
        "failed_task": sizes.tasks,
        "order": sizes.agents,
    }
    for number, name in enumerate(SECTIONS):
        if name in limits:
            section = _whole(name, buffer[starts[number] : starts[number + 1]])
            if section and max(section) >= limits[name]:
                raise ValueError(f"buffer: {name}={max(section)}: must be below {limits[name]}")
