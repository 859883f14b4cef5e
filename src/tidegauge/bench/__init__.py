"""Pose ML competitions offline, run agents on them, grade them, record the runs. Needs Linux.

>>> import tidegauge.bench as tb
>>> tb.competition_names()
['osic', 'surge']
>>> prepared = tb.simulate("surge", "prepared", seed=1)        # doctest: +SKIP
>>> options = tb.RunOptions(command="python agent.py", alias="mine", limits=tb.Limits(hours=1))
>>> report = tb.run_agent(prepared, "runs", "runs.jsonl", options)  # doctest: +SKIP

This room may import schema, simulate and what lies under them; never horizon or fvc.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegauge.bench.competition_folder import Prepared
    from tidegauge.bench.competitions.base import Competition
    from tidegauge.bench.competitions.registry import competition_names
    from tidegauge.bench.grading import grade_submission as grade
    from tidegauge.bench.preparation import prepare_competition as prepare
    from tidegauge.bench.preparation import simulate_and_prepare as simulate
    from tidegauge.bench.run.options import Limits, Resources, RunOptions
    from tidegauge.bench.run.runner import run_agent
    from tidegauge.bench.run.workspace import make_workspace
    from tidegauge.bench.sources import find_competition as get_competition
    from tidegauge.bench.sources import open_competition as open_prepared
    from tidegauge.bench.verification import verify

__all__ = [
    "Competition",
    "Limits",
    "Prepared",
    "Resources",
    "RunOptions",
    "competition_names",
    "get_competition",
    "grade",
    "make_workspace",
    "open_prepared",
    "prepare",
    "run_agent",
    "simulate",
    "verify",
]

# Where each is defined: imported when first asked for, so that importing this costs nothing.
_HOMES = {
    "Competition": "competitions.base:Competition",
    "Limits": "run.options:Limits",
    "Prepared": "competition_folder:Prepared",
    "Resources": "run.options:Resources",
    "RunOptions": "run.options:RunOptions",
    "competition_names": "competitions.registry:competition_names",
    "get_competition": "sources:find_competition",
    "grade": "grading:grade_submission",
    "make_workspace": "run.workspace:make_workspace",
    "open_prepared": "sources:open_competition",
    "prepare": "preparation:prepare_competition",
    "run_agent": "run.runner:run_agent",
    "simulate": "preparation:simulate_and_prepare",
    "verify": "verification:verify",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    return getattr(import_module(f"{__name__}.{module}"), attribute)


def __dir__() -> list[str]:
    """List the public names too."""
    return sorted({*globals(), *__all__})
