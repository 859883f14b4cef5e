"""Time horizons of AI agents: how long a task each can finish, from records of runs.

>>> import tidegauge.horizon as th
>>> runs, truth = th.simulate(agents=4, tasks=30, seed=1)
>>> found = th.fit_exact(runs)
>>> found.horizons(success=0.8).columns[:2].tolist()
['agent', 'horizon']
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegauge.engine.priors import (
        gamma,
        half_cauchy,
        half_normal,
        log_normal,
        normal,
        truncated_normal,
    )
    from tidegauge.horizon.analysis import (
        compare,
        compare_trends,
        fit,
        fit_exact,
        fit_regression,
        multiverse,
        simulate,
    )
    from tidegauge.horizon.data.runs import Runs, read_runs
    from tidegauge.horizon.model.option_file import make_model as model
    from tidegauge.horizon.model.specification import build_model
    from tidegauge.horizon.result import HorizonFit, HorizonResult
    from tidegauge.horizon.store.fit_folder import load
    from tidegauge.report.horizon.page import write_report

_HOMES = {
    "tidegauge.engine.priors": (
        *("gamma", "half_cauchy", "half_normal", "log_normal", "normal", "truncated_normal"),
    ),
    "tidegauge.horizon.analysis": (
        *("compare", "compare_trends", "fit", "fit_exact", "fit_regression", "multiverse"),
        "simulate",
    ),
    "tidegauge.horizon.data.runs": ("Runs", "read_runs"),
    "tidegauge.horizon.model.specification": ("build_model",),
    "tidegauge.horizon.result": ("HorizonFit", "HorizonResult"),
    "tidegauge.horizon.store.fit_folder": ("load",),
    "tidegauge.report.horizon.page": ("write_report",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "HorizonFit",
    "HorizonResult",
    "Runs",
    "build_model",
    "compare",
    "compare_trends",
    "fit",
    "fit_exact",
    "fit_regression",
    "gamma",
    "half_cauchy",
    "half_normal",
    "load",
    "log_normal",
    "model",
    "multiverse",
    "normal",
    "read_runs",
    "simulate",
    "truncated_normal",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: the sampler and the charts are slow to load."""
    if name == "model":  # the package of models, which can be called
        return importlib.import_module("tidegauge.horizon.model")
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
