"""What is fitted, as data, as NumPy and as PyMC; nothing here samples.

The package can be called: ``tidegauge.horizon.model("full", noise="student_t")`` makes a model, see
`option_file.make_model`. A function beside it could not have its name.
"""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegauge.horizon.model.option_file import ModelChoice


class _CallablePackage(types.ModuleType):
    def __call__(self, name: str = "core", **choices: Any) -> ModelChoice:
        """Make a model; see `tidegauge.horizon.model.option_file.make_model`."""
        from tidegauge.horizon.model.option_file import make_model

        return make_model(name, **choices)


sys.modules[__name__].__class__ = _CallablePackage
