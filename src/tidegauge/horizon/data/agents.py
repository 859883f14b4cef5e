"""What is known of agents beside their runs: when they were released, and by whom."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tidegauge.errors import InputError
from tidegauge.horizon.data.design import Design
from tidegauge.io import read_yaml

DAYS_PER_YEAR = 365.25
UNKNOWN_GROUP = "other"

# Words that begin the names of models, and who makes them.
_LABS = {
    "OpenAI": ("gpt", "chatgpt", "davinci", "codex", "o1", "o3", "o4"),
    "Anthropic": ("claude",),
    "Google": ("gemini", "gemma", "palm"),
    "Meta": ("llama",),
    "xAI": ("grok",),
    "DeepSeek": ("deepseek",),
    "Alibaba": ("qwen", "qwq"),
    "Mistral": ("mistral", "mixtral", "magistral", "codestral"),
    "Moonshot": ("kimi",),
    "Zhipu": ("glm",),
    "MiniMax": ("minimax",),
}


def lab_of(agent: str) -> str:
    """Tell from an agent's name who made its model; ``other`` where the name does not say."""
    words = re.findall(r"[a-z]+\d*", agent.lower())
    for lab, beginnings in _LABS.items():
        if any(word.startswith(beginnings) for word in words):
            return lab
    return UNKNOWN_GROUP


def model_family_of(agent: str) -> str:
    """Tell the line of models: the first word of the name and its first number.

    ``Claude 3.5 Sonnet (New)`` is of ``claude 3``, ``GPT-4 Turbo`` of ``gpt 4``, ``o1-preview`` of
    ``o 1``.
    """
    word, number = re.search(r"[a-z]+", agent.lower()), re.search(r"\d+", agent)
    parts = [found[0] for found in (word, number) if found]
    return " ".join(parts) or UNKNOWN_GROUP


def group_names(design: Design, pooling: str) -> tuple[str, ...]:
    """Return each agent's group under a kind of pooling; those given with the design come first."""
    if pooling in ("none", "all"):
        return ("all",) * len(design.agents)
    if design.agent_groups:
        return design.agent_groups
    tell = lab_of if pooling == "lab" else model_family_of
    return tuple(tell(agent) for agent in design.agents)


def read_release_dates(
    given: Path | str | Mapping[str, datetime.date | str] | None,
) -> dict[str, datetime.date]:
    """Return release dates by agent, from a mapping or from METR's YAML.

    Parameters
    ----------
    given : mapping, path or None
        Agents to dates (or texts of them); a file has the mapping itself, or under ``date``.

    Raises
    ------
    InputError
        Not such a mapping.
    """
    if given is None:
        return {}
    content: Any = given
    where = "release_dates"
    if isinstance(given, Path | str):
        content, where = read_yaml(Path(given)), str(given)
    if isinstance(content, Mapping):
        content = content.get("date", content)
    if not isinstance(content, Mapping):
        raise InputError(f"{where}: must map agents to dates, as 'date: {{GPT-4o: 2024-05-13}}'")
    found = {}
    for agent, value in content.items():
        try:
            # YAML makes dates, dates with a time of day, or texts of them.
            found[str(agent)] = datetime.datetime.fromisoformat(str(value)).date()
        except ValueError:
            raise InputError(
                f"{where}: {agent}={value}: not a date; write it as 2024-05-13"
            ) from None
    return found


def read_groups(given: Path | str | Mapping[str, str] | None) -> dict[str, str]:
    """Return the lab or model family that agents are pooled with, from a mapping or a YAML file.

    Raises
    ------
    InputError
        Not such a mapping.
    """
    if given is None:
        return {}
    content: Any = given
    where = "groups"
    if isinstance(given, Path | str):
        content, where = read_yaml(Path(given)), str(given)
    if not isinstance(content, Mapping) or (not content and content is not given):
        raise InputError(f"{where}: must map agents to groups, as 'GPT-4o: OpenAI'")
    for agent, group in content.items():
        if isinstance(group, dict | list) or group is None or not str(group).strip():
            raise InputError(f"{where}: {agent}={group}: must be the name of a group")
    return {str(agent): str(group) for agent, group in content.items()}


def undated_note(agents: Sequence[str], dates: Mapping[str, datetime.date]) -> list[str]:
    """Name the agents that have no release date, where others have."""
    missing = [agent for agent in agents if agent not in dates]
    return [f"no release date for {', '.join(missing)}"] if dates and missing else []


def with_agent_facts(
    design: Design,
    *,
    dates: Mapping[str, datetime.date] | None = None,
    groups: Mapping[str, str] | None = None,
    since: datetime.date | None = None,
    only: frozenset[str] | None = None,
) -> Design:
    """Add release dates and groups to a design.

    Parameters
    ----------
    since : date or None
        Agents released before are not in the trend.
    only : set of str or None
        The agents that may be in the trend, such as those at the frontier.
    """
    dates = dates or {}
    days = np.array(
        [
            dates[agent].toordinal()
            if agent in dates
            and (since is None or dates[agent] >= since)
            and (only is None or agent in only)
            else np.nan
            for agent in design.agents
        ]
    )
    dated = ~np.isnan(days)
    origin = float(days[dated].mean()) if dated.any() else 0.0
    known = groups or {}
    names = tuple(known.get(agent, UNKNOWN_GROUP) for agent in design.agents) if known else ()
    years = (days - origin) / DAYS_PER_YEAR
    return replace(design, agent_years=years, origin_day=origin, agent_groups=names)
