"""Agents that ship, each a command: they know only the workspace."""

from __future__ import annotations

# What `--agent NAME` stands for; any other text is a shell command.
SHIPPED = {
    "sample": "python -m tidegauge.bench.agents.sample",
    "naive": "python -m tidegauge.bench.agents.naive",
    # Nine tenths of the time: the last file must be written before the end. The grade then says
    # where it stands, so the agent need not find out.
    "fvc": "python -m tidegauge fvc solve --input input --output submission/submission.csv "
    '--time-limit "$(( (TIDEGAUGE_DEADLINE - $(date +%s)) * 9 / 10 ))s" '
    '--seed "$TIDEGAUGE_SEED" --validate-url "$SERVER_URL/validate" --no-standing --quiet',
}


# Agents of language models: they speak the step protocol, and need a model to be named.
REACT = "python -m tidegauge.bench.agents.react"


def resolve_agent(agent: str) -> tuple[str, str]:
    """Return the command and the default alias of what a user gave as ``--agent``."""
    if agent == "react":
        return REACT, agent
    if agent in SHIPPED:
        return SHIPPED[agent], agent
    words = agent.split()
    return agent, words[0].rpartition("/")[2] if words else "agent"
