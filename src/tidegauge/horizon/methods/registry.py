"""The methods by name: ``regression``, ``exact``, ``core``, ``full``, and variants of them.

A variant is a name with options, such as ``core:failures=censor``, ``full:noise=student_t`` or
``regression:lengths=simex``, or with a file of options, ``full:options.yaml``. Names are read
without importing what fits them, so that commands can list them in their help.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge.errors import InputError, did_you_mean
from tidegauge.horizon.model.option_file import MODELS, OPTION_NAMES, ModelChoice, resolve
from tidegauge.horizon.model.options import CHOICES, CORE, HorizonOptions

if TYPE_CHECKING:
    from tidegauge.horizon.methods.base import Method

NAMES = ("regression", "exact", "core", "full")
BASELINE = "climatology"
# Each option of core changed alone; a trend needs release dates.
VARIANTS = tuple(
    f"core:{name}={level}"
    for name in OPTION_NAMES
    if name != "trend"
    for level in CHOICES.get(name, ("false", "true"))[1:]
)
# Spellings of earlier versions.
FORMER_NAMES: Mapping[str, str] = {
    "frequentist": "regression",
    "grid": "exact",
    "hierarchical": "core",
    "core-censor": "core:failures=censor",
    "core-residual-task": "core:residual=task",
    "core-residual-family": "core:residual=family",
    "core-student-t": "core:noise=student_t",
    "core-weibull": "core:noise=weibull",
    "core-per-source": "core:human_scale=source",
    "core-half-normal-2": "core:human_prior=half_normal_2",
    "core-half-cauchy-1": "core:human_prior=half_cauchy_1",
    "core-noise-growth": "core:noise_growth=true",
    "core-rounding": "core:rounding=true",
    "core-estimate-bias": "core:estimate_bias=true",
    "core-discrimination": "core:discrimination=true",
    "core-pooled": "core:pooling=all",
    "core-pooled-lab": "core:pooling=lab",
    "core-pooled-family": "core:pooling=family",
    "core-continuous": "core:scores=continuous",
}


def current_name(text: str, note: Callable[[str], None] = lambda sentence: None) -> str:
    """Return a method as it is spelt now; `note` is given a sentence if it was spelt otherwise."""
    if (name := FORMER_NAMES.get(text)) is None:
        return text
    note(f"method {text} is now called {name}")
    return name


def find_method(text: str) -> Method:
    """Return the method of a name, with its options if it has any.

    Raises
    ------
    InputError
        An unknown name or option, or a value that the option does not take.
    """
    from tidegauge.horizon.methods.base import Climatology
    from tidegauge.horizon.methods.exact import Exact
    from tidegauge.horizon.methods.hierarchical import Hierarchical
    from tidegauge.horizon.methods.regression import Regression, RegressionOptions

    text = current_name(text)
    name, _, given = text.partition(":")
    try:
        if name in MODELS:
            choice = model_choice(name, given)
            return Hierarchical(text, options=choice.options, priors=choice.priors)
        if name == "regression":
            return Regression(text, RegressionOptions(**parse_regression(given)))
        if name in ("exact", BASELINE):
            _parse(given, {})
            return Exact() if name == "exact" else Climatology()
    except InputError as error:
        raise InputError(f"method={text}: {error}") from None
    raise InputError(
        f"method={text}: must be one of {', '.join(NAMES)}, or one with options, as "
        "full:noise=student_t or core:failures=censor"
        + did_you_mean(text, (*NAMES, *VARIANTS, *FORMER_NAMES))
    )


def model_choice(name: str, given: str = "") -> ModelChoice:
    """Return the model of ``core`` or ``full`` with the options of a variant, or of a file."""
    if given.endswith((".yaml", ".yml")):
        return resolve(model=name, file=Path(given))
    return resolve(model=name, flags=parse_variant(given))


def parse_variant(given: str) -> dict[str, Any]:
    """Read the options of a model, as ``noise=student_t,rounding=true``."""
    return _parse(given, _defaults(CORE))


def parse_regression(given: str) -> dict[str, Any]:
    """Read the options of the regression, as ``weighting=equal,lengths=simex``."""
    from tidegauge.horizon.methods.regression import DEFAULT_REGRESSION

    return _parse(given, _defaults(DEFAULT_REGRESSION))


def variant_name(name: str, options: HorizonOptions) -> str:
    """Return ``core`` or ``full`` with options as it is written: ``core:rounding=true``."""
    usual, own = _defaults(MODELS[name]), _defaults(options)
    changed = [f"{key}={str(own[key]).lower()}" for key in own if own[key] != usual[key]]
    return ":".join([name, *filter(None, [",".join(changed)])])


def _defaults(options: Any) -> dict[str, Any]:
    return {field.name: getattr(options, field.name) for field in fields(options)}


def _parse(given: str, usual: Mapping[str, Any]) -> dict[str, Any]:
    """Read ``name=value,name=value``, each value as what the option usually is."""
    found = {}
    for part in filter(None, given.split(",")):
        name, _, value = part.partition("=")
        if name not in usual:
            known = f"choose from {', '.join(usual)}" if usual else "it takes none"
            raise InputError(f"{name}: no such option; {known}")
        found[name] = _value(name, value, usual[name])
    return found


def _value(name: str, text: str, usual: Any) -> Any:
    if isinstance(usual, bool):
        # Anything else is left to the options themselves, which name the values they take.
        return {"true": True, "false": False}.get(text, text)
    if isinstance(usual, str):
        return text
    try:
        return type(usual)(text)
    except ValueError:
        raise InputError(f"{name}={text}: must be a number") from None
