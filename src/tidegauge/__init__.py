"""Bayesian measurement of AI agents, and forecasts from sparse visits.

Three capabilities share one Bayesian engine: ``tidegauge.horizon`` (how long a task an AI agent
can finish), ``tidegauge.bench`` (ML competitions posed and graded offline) and ``tidegauge.fvc``
(lung-function forecasts from one visit). Nothing heavy is imported here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegauge import bench, fvc, horizon

__version__ = "0.1.0"
__all__ = ["__version__", "bench", "fvc", "horizon"]


def __getattr__(name: str) -> Any:
    """Import a capability when it is first used."""
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
