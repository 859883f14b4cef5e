"""The choices an analyst can make, as data: universes, and grids of them.

A grid is a list of blocks; a block maps choices to their levels, and stands for every combination
of them. Nothing is fitted here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from tidegauge.errors import InputError
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.data.subset import estimate_only, of_source, resample_tasks, subset_tasks
from tidegauge.horizon.data.weights import SCHEMES
from tidegauge.horizon.methods.base import Method
from tidegauge.horizon.methods.exact import Exact
from tidegauge.horizon.methods.hierarchical import Hierarchical
from tidegauge.horizon.methods.registry import NAMES, current_name
from tidegauge.horizon.methods.regression import (
    DEFAULT_REGRESSION,
    DEFAULT_REGULARISATION,
    Regression,
    RegressionOptions,
)
from tidegauge.horizon.model.option_file import MODELS
from tidegauge.horizon.model.options import CORE, HorizonOptions
from tidegauge.io import read_yaml
from tidegauge.progress import SILENT, Progress

ALL, WITHOUT, RESAMPLED = "all", "without ", "resampled "
SHARED = ("estimates", "sources", "tasks")
_REGRESSION = ("weighting", "regularisation", "lengths")
_MODEL = tuple(option.name for option in fields(HorizonOptions))
_FLAGS = tuple(name for name in _MODEL if isinstance(getattr(CORE, name), bool))
APPLIES: Mapping[str, tuple[str, ...]] = {
    "regression": (*_REGRESSION, *SHARED),
    "exact": SHARED,
    "core": (*_MODEL, *SHARED),
    "full": (*_MODEL, *SHARED),
}
CHOICES = ("method", *_REGRESSION, *_MODEL, *SHARED)
_LEVELS = {"method": NAMES, "estimates": ("used", "dropped")}
_RESAMPLES = 4
_MOST = 100_000  # universes of one block; more is a slip, and would not end

Level = str | float | bool
Block = Mapping[str, Sequence[Level]]


@dataclass(frozen=True, kw_only=True)
class Universe:
    """One complete set of choices.

    Attributes
    ----------
    method : str
        One of `NAMES`.
    regression : RegressionOptions
        Task weights, ridge and lengths of ``regression``.
    model : HorizonOptions
        Options of ``core`` or ``full``, all of them.
    estimates : str
        Tasks whose length is only an estimate are ``used``, or ``dropped`` with their runs.
    sources : str
        ``all``, or ``without NAME``: a source of tasks, or a family.
    tasks : str
        ``all``, or ``resampled N``: the N-th draw of families, then of tasks within them.
    """

    method: str = "core"
    regression: RegressionOptions = DEFAULT_REGRESSION
    model: HorizonOptions = field(default=CORE)
    estimates: str = "used"
    sources: str = ALL
    tasks: str = ALL

    def __post_init__(self) -> None:
        for name, allowed in _LEVELS.items():
            if (value := getattr(self, name)) not in allowed:
                raise InputError(f"{name}={value}: must be one of {', '.join(allowed)}")
        if self.sources != ALL and not self.sources.removeprefix(WITHOUT).strip():
            raise InputError(f"sources={self.sources}: name what is left out, as 'without SWAA'")
        if self.sources != ALL and not self.sources.startswith(WITHOUT):
            raise InputError(f"sources={self.sources}: must be all, or 'without NAME'")
        number = self.tasks.removeprefix(RESAMPLED)
        if self.tasks != ALL and (number == self.tasks or not number.isdecimal()):
            raise InputError(f"tasks={self.tasks}: must be all, or 'resampled 1', 'resampled 2'...")

    @property
    def choices(self) -> dict[str, Level]:
        """Every choice that applies to the method, in the order of `CHOICES`."""
        homes = {**dict.fromkeys(_MODEL, self.model), **dict.fromkeys(_REGRESSION, self.regression)}
        known = {"method", *APPLIES[self.method]}
        return {name: getattr(homes.get(name, self), name) for name in CHOICES if name in known}

    @property
    def fitted_by(self) -> Method:
        """The method with this universe's options."""
        if self.method == "regression":
            return Regression(options=self.regression)
        if self.method == "exact":
            return Exact()
        return Hierarchical(self.method, options=self.model)

    def data_of(self, design: Design, *, seed: int) -> Design:
        """Return the part of the data this universe looks at.

        Raises
        ------
        InputError
            Nothing is left, or nothing has the name that is to be left out.
        """
        if self.sources != ALL:
            left_out = of_source(design, self.sources.removeprefix(WITHOUT))
            if not left_out.any():
                raise InputError(f"sources={self.sources}: no task is of it; {_known(design)}")
            design = subset_tasks(design, ~left_out)
        if self.estimates == "dropped":
            design = subset_tasks(design, ~estimate_only(design))
        if self.tasks != ALL:
            # The N-th draw is of the same tasks in every universe with the same data.
            number = int(self.tasks.removeprefix(RESAMPLED))
            design = resample_tasks(design, np.random.default_rng([seed, number]))
        return design


def expand(blocks: Iterable[Block]) -> tuple[Universe, ...]:
    """Return every combination of levels of every block, each universe once.

    Raises
    ------
    InputError
        A choice or a level that does not exist, or a choice that its method does not have.
    """
    found: dict[Universe, None] = {}
    for block in blocks:
        names = list(block)
        if (size := math.prod(map(len, block.values()))) > _MOST:
            raise InputError(f"{size:,} combinations, more than {_MOST:,}; give fewer levels")
        for levels in itertools.product(*block.values()):
            found[_universe(dict(zip(names, levels, strict=True)))] = None
    return tuple(found)


def _universe(choices: Mapping[str, Level]) -> Universe:
    method = current_name(str(choices.get("method", Universe.method)))
    for name in choices:
        if name not in ("method", *APPLIES.get(method, CHOICES)):
            raise InputError(
                f"{name} is not a choice of method {method}, which has "
                f"{', '.join(APPLIES[method])}; give it in a block of its own method"
            )

    def given(names: Sequence[str]) -> dict[str, Any]:
        return {name: choices[name] for name in choices if name in names}

    return Universe(
        method=method,
        regression=replace(DEFAULT_REGRESSION, **given(_REGRESSION)),
        model=replace(MODELS.get(method, CORE), **given(_MODEL)),
        **given(SHARED),
    )


def default_grid(design: Design) -> tuple[Universe, ...]:
    """Return 64 universes: each choice crossed with those it could lean on.

    Left out in turn is the source with the fewest tasks; of a file with one source only, its
    largest family. What a file has nothing to choose about (no failed human run, no estimate, no
    repeated run for SIMEX, one family) is not varied, so such a file has fewer universes.
    """
    model: Block = {
        "residual": ("none", "family"),
        "noise": ("normal", "student_t"),
        "failures": ("ignore", "censor") if design.failed_task.size else ("ignore",),
    }
    regression: Block = {"weighting": SCHEMES, "regularisation": (DEFAULT_REGULARISATION, 0.1)}
    # Dropping estimates must change something, and leave something.
    some = np.unique(estimate_only(design)[design.attempts.sum(axis=0) > 0]).size == 2
    estimates: Block = {"estimates": ("used", "dropped") if some else ("used",)}
    repeated = np.unique(design.run_task).size < design.run_task.size
    again: Block = {"tasks": [f"{RESAMPLED}{n + 1}" for n in range(_RESAMPLES)]}
    name = _spare(design)
    spared: Block = {"sources": [f"{WITHOUT}{name}"] if name else []}
    return expand(
        [
            {"method": ["core"], **model, **estimates},
            {"method": ["core"], **model, **spared},
            {"method": ["regression"], **regression, **estimates},
            {"method": ["regression"], **regression, **spared},
            {
                "method": ["regression"],
                "weighting": SCHEMES,
                "lengths": ["simex"] if repeated else [],
            },
            {"method": ["exact"], **estimates},
            {"method": ["exact"], **spared},
            {"method": ["core"], "residual": model["residual"], **again},
            {"method": ["regression"], **again},
            {"method": ["exact"], **again},
        ]
    )


def _spare(design: Design) -> str | None:
    tried = design.attempts.sum(axis=0) > 0
    sources = [source for source, any_run in zip(design.task_source, tried, strict=True) if any_run]
    if len(set(sources)) > 1:
        return min(sorted(set(sources)), key=sources.count)
    sizes = np.bincount(design.task_family[tried], minlength=len(design.families))
    return design.families[int(sizes.argmax())] if (sizes > 0).sum() > 1 else None


def check_names(universes: Iterable[Universe], design: Design) -> None:
    """Refuse, before anything is fitted, to leave out what the data do not have.

    Raises
    ------
    InputError
        A source or family that no task is of.
    """
    for universe in universes:
        name = universe.sources.removeprefix(WITHOUT)
        if universe.sources != ALL and not of_source(design, name).any():
            raise InputError(f"sources={universe.sources}: no task is of it; {_known(design)}")


def _known(design: Design) -> str:
    return f"the sources are {', '.join(sorted(set(design.task_source)))}, or name a family"


def read_grid(path: Path, *, progress: Progress = SILENT) -> tuple[Universe, ...]:
    """Read a grid from YAML: a list of blocks, each a mapping of choices to one or more levels.

    Former names of methods are noted once each.

    Raises
    ------
    InputError
        Not such a list; the message names the block.
    """
    content = read_yaml(path)
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list) or not content:
        raise InputError(f"{path}: must be a list of blocks, as '- method: [exact, core]'")
    universes: dict[Universe, None] = {}
    noted: dict[str, None] = {}
    for number, block in enumerate(content, start=1):
        where = f"{path}: block {number}"
        if not isinstance(block, dict) or not block:
            raise InputError(f"{where}: must map choices to levels, as 'noise: [normal, weibull]'")
        try:
            parsed = _parse_block(block)
            universes |= dict.fromkeys(expand([parsed]))
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        for method in parsed.get("method", ()):
            current_name(str(method), lambda sentence: noted.update({sentence: None}))
    for sentence in noted:
        progress.note(f"{path}: {sentence}")
    return tuple(universes)


def _parse_block(block: Mapping[Any, Any]) -> dict[str, list[Level]]:
    parsed: dict[str, list[Level]] = {}
    for name, given in block.items():
        if name not in CHOICES:
            raise InputError(f"{name}: no such choice; choose from {', '.join(CHOICES)}")
        levels = given if isinstance(given, list) else [given]
        if not levels:
            raise InputError(f"{name}: no level given")
        parsed[name] = [_parse_level(name, level) for level in levels]
    return parsed


def _parse_level(name: str, level: Any) -> Level:
    if not isinstance(level, str | int | float):
        raise InputError(f"{name}={level}: must be a word, a number, true or false")
    if name in _FLAGS:
        return level
    if name != "regularisation":
        return str(level)
    try:
        return float(level)  # YAML reads 1e-5 as a text
    except ValueError:
        raise InputError(f"{name}={level}: must be a number above 0") from None
