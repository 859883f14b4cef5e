"""Which agents stand in a trend: all that have a date, those since a date, or the frontier."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tidegauge.engine.logistic import logistic_ridge
from tidegauge.errors import InputError
from tidegauge.horizon.data.agents import with_agent_facts
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.data.runs import Runs
from tidegauge.horizon.data.weights import run_weights
from tidegauge.horizon.horizons.quantities import log2_horizon
from tidegauge.horizon.methods.regression import DEFAULT_REGULARISATION
from tidegauge.horizon.model.options import HorizonOptions
from tidegauge.horizon.trend.draws import LAST_YEAR

FEWEST_DATED = 3  # a line through two points leaves nothing to tell its scatter by
FIRST_YEAR = 1950
FRONTIER_NOTE = (
    "--frontier: record holders are chosen by measured horizons, so luck in measuring counts as "
    "progress (winner's curse): the trend lies too high, and rises even where nothing improves; "
    "its intervals do not hold this"
)


@dataclass(frozen=True, kw_only=True)
class AgentFacts:
    """Which agents are in a trend, of those that have a release date.

    Attributes
    ----------
    since : date or None
        Agents released before are not in the trend.
    frontier : bool
        Only agents whose horizon exceeded all earlier ones are in the trend.
    """

    since: datetime.date | None = None
    frontier: bool = False

    @property
    def notes(self) -> list[str]:
        """What a trend through the chosen agents does not say."""
        return [FRONTIER_NOTE] if self.frontier else []

    def check(self, options: HorizonOptions, *, dated: bool) -> None:
        """Refuse what the options would not use."""
        if options.trend != "none" and not dated:
            raise InputError(f"trend={options.trend}: needs release dates; give --release-dates")
        if options.trend == "none" and (self.since or self.frontier):
            raise InputError(
                "--since and --frontier choose the agents of a trend; add --trend linear"
            )


NO_FACTS = AgentFacts()


def place_agents(runs: Runs, options: HorizonOptions, facts: AgentFacts = NO_FACTS) -> Runs:
    """Choose the agents of a trend.

    Raises
    ------
    InputError
        A trend was asked for and too few agents have a date.
    """
    facts.check(options, dated=bool(runs.release_dates))
    design, dates = runs.design, runs.release_dates
    wrong = [agent for agent, day in dates.items() if not FIRST_YEAR <= day.year < LAST_YEAR]
    if options.trend != "none" and wrong:
        raise InputError(
            f"release date of {wrong[0]}: {dates[wrong[0]]}: a trend is from {FIRST_YEAR} to "
            f"{LAST_YEAR}; correct the date"
        )
    only = frontier_agents(design, dates) if facts.frontier else None
    placed = with_agent_facts(design, dates=dates, groups=runs.groups, since=facts.since, only=only)
    years = placed.agent_years[~np.isnan(placed.agent_years)]
    if options.trend != "none" and (years.size < FEWEST_DATED or np.ptp(years) == 0):
        chosen = f" since {facts.since}" if facts.since else ""
        chosen += " at the frontier" if facts.frontier else ""
        raise InputError(
            f"trend={options.trend}: {years.size} of {len(design.agents)} agents have a release "
            f"date{chosen}, on {np.unique(years).size} different days; at least {FEWEST_DATED} on "
            "two days are needed, so add dates or leave --trend out"
        )
    return replace(runs, design=placed)


def frontier_agents(design: Design, dates: Mapping[str, datetime.date]) -> frozenset[str]:
    """Return the agents whose 50 % horizon exceeded that of all released before or with them.

    By METR's regression, which needs no sampling.
    """
    weights = run_weights(design)
    fits = logistic_ridge(
        design.log2_minutes,
        weights * design.successes,
        weights * (design.attempts - design.successes),
        ridge=DEFAULT_REGULARISATION,
    )
    longest = float(np.log2(design.human_minutes.max()))
    log2 = log2_horizon(fits.intercept, fits.slope, success=0.5, longest_log2=longest)
    horizon = {agent: log2[a] for a, agent in enumerate(design.agents) if agent in dates}
    return frozenset(
        agent
        for agent in horizon
        if all(
            horizon[agent] > horizon[rival]
            for rival in horizon
            if rival != agent and dates[rival] <= dates[agent]
        )
    )
