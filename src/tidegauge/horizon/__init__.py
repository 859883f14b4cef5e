"""How long a task an AI agent can finish."""
