"""What is known of agents beside their runs: when they were released, and by whom."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

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


def read_groups(path: Path | None) -> dict[str, str]:
    """Read a YAML file that maps agents to the lab or model family they are pooled with.

    Raises
    ------
    InputError
        Not such a mapping.
    """
    content = read_yaml(path) if path is not None else {}
    if not isinstance(content, dict) or (path is not None and not content):
        raise InputError(f"{path}: must map agents to groups, as 'GPT-4o: OpenAI'")
    for agent, group in content.items():
        if isinstance(group, dict | list) or group is None or not str(group).strip():
            raise InputError(f"{path}: {agent}={group}: must be the name of a group")
    return {str(agent): str(group) for agent, group in content.items()}


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
