"""How a patient's lung capacity will fall, from visits and a CT scan.

The public names; everything else may move.

Examples
--------
>>> from pathlib import Path
>>> import tidegauge.fvc as tf
>>> cohort = tf.read_cohort(Path("cohort/train.csv"))  # doctest: +SKIP
>>> tf.crossval(cohort, repeats=1).scores()  # doctest: +SKIP
>>> model = tf.fit(Path("cohort"), seed=1)  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegauge.fvc.data.tables import read_cohort
    from tidegauge.fvc.prediction import fit, predict
    from tidegauge.fvc.scans.scan import scan
    from tidegauge.fvc.solver import solve
    from tidegauge.fvc.validation import crossval

__all__ = ["crossval", "fit", "predict", "read_cohort", "scan", "solve"]
_HOMES = {
    "crossval": "validation",
    "fit": "prediction",
    "predict": "prediction",
    "read_cohort": "data.tables",
    "scan": "scans.scan",
    "solve": "solver",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: scans and samplers are heavy."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
