"""Which choice moves the answer most: paired changes between its levels, and shares of variance.

Horizons shorter than the shortest task or longer than the longest count as those lengths here: by
how much they are extrapolated is not the choice's doing alone.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.horizon.studies.multiverse import Multiverse, Outcome
from tidegauge.horizon.studies.specifications import SHARED, Level, Universe

if TYPE_CHECKING:
    import pandas as pd


def choices_table(multiverse: Multiverse) -> pd.DataFrame:
    """Return ``choices.csv``: one row per choice, the one that moves p50 most first.

    Returns
    -------
    DataFrame
        choice, levels, universes, pairs (of universes, or of their means, that differ in this
        choice alone), mean_abs_log2_change (of p50, over pairs and agents), typical_factor (two to
        its power), eta_squared (share of the variance of log2 p50 about each agent's mean),
        and mean_abs_rate_change and rate_eta_squared: the same of doublings a year.
    """
    import pandas as pd

    p50, rate = _log2_p50(multiverse), _rates(multiverse)
    fitted = [one for one in multiverse.outcomes if one.p50 is not None]
    rows = []
    for choice in multiverse.choices:
        own = [one for one in fitted if choice in one.universe.choices]
        pairs = _pairs(own, choice)
        change = _mean_change(pairs, p50)
        rows.append(
            {
                "choice": choice,
                "levels": len({one.universe.choices[choice] for one in own}),
                "universes": len(own),
                "pairs": len(pairs),
                "mean_abs_log2_change": change,
                "typical_factor": 2**change,
                "eta_squared": _eta_squared(own, choice, p50),
                "mean_abs_rate_change": _mean_change(pairs, rate),
                "rate_eta_squared": _eta_squared(own, choice, rate),
            }
        )
    table = pd.DataFrame(rows, columns=_COLUMNS)
    return table.sort_values("mean_abs_log2_change", ascending=False, ignore_index=True)


_COLUMNS = (
    *("choice", "levels", "universes", "pairs", "mean_abs_log2_change", "typical_factor"),
    *("eta_squared", "mean_abs_rate_change", "rate_eta_squared"),
)


def levels_table(multiverse: Multiverse) -> pd.DataFrame:
    """Return ``levels.csv``: which way each pair of levels moves p50 and the trend.

    Returns
    -------
    DataFrame
        choice, level, other, pairs, log2_change (mean over agents and pairs of log2 p50 at `level`
        less that at `other`) and rate_change (doublings a year).
    """
    import pandas as pd

    p50, rate = _log2_p50(multiverse), _rates(multiverse)
    fitted = [one for one in multiverse.outcomes if one.p50 is not None]
    rows = []
    for choice in multiverse.choices:
        grouped: dict[tuple[Level, Level], list[_Pair]] = defaultdict(list)
        for pair in _pairs([one for one in fitted if choice in one.universe.choices], choice):
            grouped[pair[0], pair[1]].append(pair)
        for (other, level), pairs in grouped.items():
            rows.append(
                {
                    "choice": choice,
                    "level": level,
                    "other": other,
                    "pairs": len(pairs),
                    "log2_change": _mean_change(pairs, p50, signed=True),
                    "rate_change": _mean_change(pairs, rate, signed=True),
                }
            )
    return pd.DataFrame(
        rows, columns=["choice", "level", "other", "pairs", "log2_change", "rate_change"]
    )


# Two levels, and the universes at either that are alike in all else.
_Pair = tuple[Level, Level, list[Outcome], list[Outcome]]
_NOTHING = 1e-12  # a sum of squares that is rounding alone
_Values = dict[int, dict[str, float]]  # universe, agent: value


def _pairs(outcomes: Sequence[Outcome], choice: str) -> list[_Pair]:
    """Match universes that differ in one choice, for every two of its levels."""
    contexts: dict[Level, dict[Any, list[Outcome]]] = {}
    for one in outcomes:
        level = one.universe.choices[choice]
        own = contexts.setdefault(level, defaultdict(list))
        own[_context(one.universe, choice)].append(one)
    return [
        (first, second, group, contexts[second][context])
        for first, second in itertools.combinations(contexts, 2)
        for context, group in contexts[first].items()
        if context in contexts[second]
    ]


def _context(universe: Universe, choice: str) -> frozenset[tuple[str, Level]]:
    """Return the choices that pairs must share; those of one method alone are averaged over."""
    shared = universe.choices
    if choice == "method":
        shared = {name: shared[name] for name in SHARED}
    return frozenset((name, level) for name, level in shared.items() if name != choice)


def _mean_change(pairs: Sequence[_Pair], values: _Values, *, signed: bool = False) -> float:
    changes = []
    for _, _, first, second in pairs:
        before, after = _means(first, values), _means(second, values)
        changes += [after[agent] - before[agent] for agent in before if agent in after]
    if not changes:
        return float("nan")
    return float(np.mean(changes if signed else np.abs(changes)))


def _means(outcomes: Sequence[Outcome], values: _Values) -> dict[str, float]:
    """Average each agent over universes; an agent missing in one is missing in the mean."""
    tables = [values[one.number] for one in outcomes if values.get(one.number)]
    if not tables:
        return {}
    shared = [agent for agent in tables[0] if all(agent in table for table in tables)]
    return {agent: float(np.mean([table[agent] for table in tables])) for agent in shared}


def _eta_squared(outcomes: Sequence[Outcome], choice: str, values: _Values) -> float:
    """Return the share of the variance within agents that lies between a choice's levels."""
    by_agent: dict[str, dict[Level, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in outcomes:
        for agent, value in values.get(one.number, {}).items():
            by_agent[agent][one.universe.choices[choice]].append(value)
    between = total = 0.0
    for levels in by_agent.values():
        everything = np.concatenate(list(levels.values()))
        mean = everything.mean()
        total += float(((everything - mean) ** 2).sum())
        between += sum(len(own) * (np.mean(own) - mean) ** 2 for own in levels.values())
    return float(between / total) if total > _NOTHING else float("nan")


def _log2_p50(multiverse: Multiverse) -> _Values:
    found: _Values = {}
    for one in multiverse.outcomes:
        if one.p50 is not None:
            with np.errstate(divide="ignore"):
                log2 = np.clip(np.log2(one.p50.median), *multiverse.tasks_log2)
            found[one.number] = dict(zip(one.agents, log2.tolist(), strict=True))
    return found


def _rates(multiverse: Multiverse) -> _Values:
    """Return doublings a year, which are finite where the doubling time is not."""
    return {
        one.number: {"": 12 / one.trend.doubling_months}
        for one in multiverse.outcomes
        if one.trend is not None
    }
