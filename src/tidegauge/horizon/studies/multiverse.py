"""The same runs under every set of choices: refitted in parallel, side by side."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.engine.parallel import parallel_map
from tidegauge.errors import InputError, TideGaugeError
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.horizons.quantities import (
    Interval,
    bounded,
    extrapolation_limits,
    share_beyond,
)
from tidegauge.horizon.methods.base import Effort
from tidegauge.horizon.studies.specifications import CHOICES, Universe, check_names
from tidegauge.horizon.trend.least_squares import Trendline, fit_trendline
from tidegauge.progress import SILENT, Progress

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Outcome:
    """The horizons of one universe, or why it has none.

    Attributes
    ----------
    number : int
        Its place in the grid, from 1.
    agents : tuple of str
        Those with a run in its data.
    p50 : Interval or None
        Minutes, per agent; None if it failed.
    beyond : ndarray
        Share of the draws beyond the longest task of the whole file.
    trend : Trendline or None
        Where there are dates.
    reason : str
        Why it failed; empty if it did not.
    seconds, cpu_seconds : float
    """

    number: int
    universe: Universe
    agents: tuple[str, ...] = ()
    p50: Interval | None = None
    beyond: FloatArray | None = None
    converged: bool = False
    r_hat: float = float("nan")
    divergences: int = 0
    trend: Trendline | None = None
    reason: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass(frozen=True)
class Multiverse:
    """All universes of one analysis.

    Attributes
    ----------
    tasks_log2 : tuple of float
        The shortest and the longest task of the file, log2 minutes.
    """

    outcomes: tuple[Outcome, ...]
    tasks_log2: tuple[float, float]
    seed: int

    @property
    def failed(self) -> list[Outcome]:
        """The universes that could not be fitted."""
        return [outcome for outcome in self.outcomes if outcome.p50 is None]

    @property
    def unconverged(self) -> list[Outcome]:
        """The universes that were fitted, but whose chains do not agree."""
        return [one for one in self.outcomes if one.p50 is not None and not one.converged]

    @property
    def choices(self) -> list[str]:
        """The choices that have more than one level among the universes."""
        levels: dict[str, set[Any]] = {name: set() for name in CHOICES}
        for outcome in self.outcomes:
            for name, level in outcome.universe.choices.items():
                levels[name].add(level)
        return [name for name in CHOICES if len(levels[name]) > 1]


def explore(
    design: Design,
    universes: Sequence[Universe],
    *,
    dates: Mapping[str, datetime.date] | None = None,
    sample: int | None = None,
    seed: int = 1,
    workers: int | None = None,
    progress: Progress = SILENT,
) -> Multiverse:
    """Fit every universe; one that fails is recorded with its reason and stops no other.

    Parameters
    ----------
    dates : mapping, optional
        Release date of agents, for doubling times.
    sample : int, optional
        Fit so many of the universes, drawn at random; all by default.

    Raises
    ------
    InputError
        No universe at all, or one that leaves out what the data do not have.
    """
    if not universes:
        raise InputError("the grid has no universe; give at least one level of each choice")
    check_names(universes, design)
    numbers = np.arange(len(universes))
    if sample is not None and sample < numbers.size:
        numbers = np.sort(np.random.default_rng(seed).choice(numbers, sample, replace=False))
    outcomes = parallel_map(
        partial(_fit_universe, design=design, dates=dates or {}, seed=seed),
        [(number + 1, universes[number]) for number in numbers.tolist()],
        workers=workers,
        label="universes",
        progress=progress,
    )
    x = design.log2_minutes
    return Multiverse(tuple(outcomes), (float(x.min()), float(x.max())), seed)


def _fit_universe(
    numbered: tuple[int, Universe],
    *,
    design: Design,
    dates: Mapping[str, datetime.date],
    seed: int,
) -> Outcome:
    began, cpu = time.perf_counter(), time.process_time()
    number, universe = numbered
    try:
        data = universe.data_of(design, seed=seed)
        found = universe.fitted_by.fit(data, effort=Effort.SHORT, seed=seed)
    except TideGaugeError as error:
        return Outcome(number, universe, reason=str(error))
    except Exception as error:  # a sampler's own: it must not stop the other universes
        return Outcome(number, universe, reason=f"{type(error).__name__}: {error}")
    log2 = bounded(found.log2_horizons())
    return Outcome(
        number=number,
        universe=universe,
        agents=found.agents,
        p50=found.interval(),
        beyond=share_beyond(log2, longest_minutes=float(design.human_minutes.max())),
        converged=found.converged,
        r_hat=found.r_hat,
        divergences=found.divergences,
        trend=fit_trendline(
            [dates.get(agent) for agent in found.agents],
            found.centre_log2(),
            log2,
            limits_log2=extrapolation_limits(design.log2_minutes),
        ),
        seconds=time.perf_counter() - began,
        cpu_seconds=time.process_time() - cpu,
    )


def horizons_table(multiverse: Multiverse) -> pd.DataFrame:
    """Return ``multiverse.csv``: one row per universe and agent, or one where it failed."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for one in multiverse.outcomes:
        shared = _choice_columns(multiverse, one)
        ends: dict[str, Any] = {"converged": one.converged, "r_hat": one.r_hat}
        ends |= {"divergences": one.divergences, "seconds": round(one.seconds, 3)}
        ends |= {"cpu_seconds": round(one.cpu_seconds, 3), "reason": one.reason}
        if one.p50 is None or one.beyond is None:
            rows.append({**shared, "agent": "", **dict.fromkeys(_NUMBERS, np.nan), **ends})
            continue
        for a, agent in enumerate(one.agents):
            numbers = (one.p50.median[a], one.p50.low[a], one.p50.high[a], one.beyond[a])
            found = dict(zip(_NUMBERS, numbers, strict=True))
            rows.append({**shared, "agent": agent, **found, **ends})
    return pd.DataFrame(rows)


_NUMBERS = ("p50", "low", "high", "beyond")


def doubling_table(multiverse: Multiverse) -> pd.DataFrame:
    """Return ``doubling.csv``: one row per universe that has a trend over release dates."""
    import pandas as pd

    rows = []
    for one in multiverse.outcomes:
        if one.trend is None:
            continue
        rows.append(
            {
                **_choice_columns(multiverse, one),
                "doubling_months": one.trend.doubling_months,
                "fastest_months": one.trend.fastest_months,
                "slowest_months": one.trend.slowest_months,
                "rising_share": one.trend.rising_share,
                "agents": one.trend.n_agents,
                "converged": one.converged,
            }
        )
    columns = ("doubling_months", "fastest_months", "slowest_months", "rising_share", "agents")
    names = ["universe", *multiverse.choices, *columns, "converged"]
    return pd.DataFrame(rows, columns=names)


def _choice_columns(multiverse: Multiverse, outcome: Outcome) -> dict[str, Any]:
    """Return the number and the level of every varied choice; empty where it does not apply."""
    own = outcome.universe.choices
    return {"universe": outcome.number} | {name: own.get(name, "") for name in multiverse.choices}
