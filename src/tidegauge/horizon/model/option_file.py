"""Which model is meant: `core` or `full`, then a file of options and priors, then flags."""

from __future__ import annotations

import html
import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from tidegauge.engine.priors import MAKERS, Prior, kinds_like
from tidegauge.errors import InputError, did_you_mean
from tidegauge.horizon.model.formulas import model_text
from tidegauge.horizon.model.options import (
    CHOICES,
    CORE,
    DEFAULT_PRIORS,
    FULL,
    HorizonOptions,
    HorizonPriors,
)
from tidegauge.io import read_yaml

MODELS: Mapping[str, HorizonOptions] = {"core": CORE, "full": FULL}
OPTION_NAMES = tuple(field.name for field in fields(HorizonOptions))
PRIOR_NAMES = tuple(field.name for field in fields(HorizonPriors))
CORE_TAKES = frozenset({"failures"})  # what is fitted is still called core


@dataclass(frozen=True)
class ModelChoice:
    """A model as it was asked for; `model` is what it started from, ``core`` or ``full``."""

    options: HorizonOptions = CORE
    priors: HorizonPriors = DEFAULT_PRIORS
    model: str = "core"

    @property
    def name(self) -> str:
        """``core`` as long as nothing differs from it but what it takes, else ``full``."""
        return model_name(self.options, self.priors)

    def __str__(self) -> str:
        return model_text(self.options, self.priors, name=self.name)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def make_model(
    name: str = "core", *, priors: Mapping[str, Prior] | None = None, **options: str | bool
) -> ModelChoice:
    """Make a model: `core` or `full`, with options and priors changed.

    Printing it shows the formulas of the terms that are on, and every prior.

    Parameters
    ----------
    name : str
        ``core`` or ``full``.
    priors : mapping, optional
        Parameter to its prior, as ``{"sigma_human": half_normal(2)}``; of the same support as the
        default.
    options
        As in `HorizonOptions`: ``noise="student_t"``, ``trend="linear"``...

    Returns
    -------
    ModelChoice

    Raises
    ------
    InputError
        There is no such model, option, value or parameter.

    Examples
    --------
    >>> import tidegauge.horizon as th
    >>> print(th.model("core").name)
    core
    >>> th.model("full", noise="student_t", priors={"sigma_human": th.half_normal(2)}).options.noise
    'student_t'
    """
    if name not in MODELS:
        raise InputError(f"model={name}: must be one of {', '.join(MODELS)}")
    for option in options:
        _check_name(option, OPTION_NAMES, "option")
    for parameter in priors or {}:
        _check_name(parameter, PRIOR_NAMES, "prior of")
    return ModelChoice(
        replace(MODELS[name], **options),  # type: ignore[arg-type]
        replace(DEFAULT_PRIORS, **(priors or {})),
        model=name,
    )


def model_name(options: HorizonOptions, priors: HorizonPriors = DEFAULT_PRIORS) -> str:
    """Tell `core` from `full` by what was fitted."""
    is_core = not options.changed.keys() - CORE_TAKES and priors == DEFAULT_PRIORS
    return "core" if is_core else "full"


def resolve(
    *,
    model: str | None = None,
    file: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    defaults: bool | None = None,
) -> ModelChoice:
    """Settle the options and priors of a fit.

    Parameters
    ----------
    model : str or None
        ``core`` or ``full``; None for what the file says, and ``core`` where it says nothing.
    file : Path or None
        YAML with ``model``, ``defaults``, any option by its name, and ``priors``.
    flags : mapping or None
        Options by name; they win over the file.
    defaults : bool or None
        Whether `full` starts from its defaults; if not, it is `core` with the options given and
        no others. None for what the file says, and True where it says nothing.

    Raises
    ------
    InputError
        An unknown name or a value of the wrong kind; the message names the file and the field.
    """
    content = _read_options(file) if file is not None else {}
    stated_model, stated_defaults = content.pop("model", "core"), content.pop("defaults", True)
    model = model or stated_model
    if model not in MODELS:
        raise InputError(f"model={model}: must be one of {', '.join(MODELS)}")
    given = dict(flags or {})
    for name in given:
        _check_name(name, OPTION_NAMES, "option")
    priors = _priors_of(content.pop("priors", {}), file) if file is not None else DEFAULT_PRIORS
    start = MODELS[model] if (stated_defaults if defaults is None else defaults) else CORE
    return ModelChoice(replace(start, **{**content, **given}), priors, model)


def _read_options(file: Path) -> dict[str, Any]:
    """Read the file and check every name and value in it but the priors."""
    content = read_yaml(file)
    if content is None:
        return {}  # a file of comments
    if not isinstance(content, dict):
        raise InputError(f"{file}: must map names to values, as 'model: full'")
    for name, value in content.items():
        where = f"{file}: {name}"
        _check_name(name, ("model", "defaults", *OPTION_NAMES, "priors"), f"{file}: option")
        if name == "priors":
            continue
        allowed = tuple(MODELS) if name == "model" else CHOICES.get(name)
        if allowed is not None and value not in allowed:
            raise InputError(f"{where}={value}: must be one of {', '.join(allowed)}")
        if allowed is None and not isinstance(value, bool):
            raise InputError(f"{where}={value}: must be true or false")
    return dict(content)


def _priors_of(content: Any, file: Path) -> HorizonPriors:
    if not isinstance(content, dict):
        raise InputError(
            f"{file}: priors: must map parameters to priors, as "
            "'sigma_human: {kind: half_normal, sd: 2}'"
        )
    for name in content:
        _check_name(name, PRIOR_NAMES, f"{file}: priors: parameter")
    made = {name: _prior_of(name, value, file) for name, value in content.items()}
    return replace(DEFAULT_PRIORS, **made)


def _prior_of(name: str, value: Any, file: Path) -> Prior:
    where, usual = f"{file}: priors: {name}", getattr(DEFAULT_PRIORS, name)
    kinds = kinds_like(usual)
    kind: Any = value.get("kind") if isinstance(value, dict) else None
    if kind not in kinds:
        shown = "none is given" if kind is None else f"not {kind}"
        raise InputError(f"{where}: kind must be {' or '.join(kinds)}, {shown}")
    maker = MAKERS[kind]
    expected = tuple(inspect.signature(maker).parameters)
    given = {key: number for key, number in value.items() if key != "kind"}
    if set(given) != set(expected):
        raise InputError(
            f"{where}: a {kind} prior has {' and '.join(expected)}, not "
            f"{', '.join(map(str, given)) or 'nothing'}"
        )
    prior = maker(**{key: _number(f"{where}: {key}", key, given[key]) for key in expected})
    if prior.upper != usual.upper:
        raise InputError(f"{where}: upper={prior.upper:g}: must be {usual.upper:g}")
    return prior


def _number(where: str, key: str, value: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # YAML reads 1e-3 as text
    except (TypeError, ValueError):
        number = math.nan
    positive = key not in ("mu", "upper")
    if not math.isfinite(number) or (positive and number <= 0):
        above = " above 0" if positive else ""
        raise InputError(f"{where}={value}: must be a finite number{above}")
    return number


def _check_name(name: Any, known: tuple[str, ...], what: str) -> None:
    if name not in known:
        near = did_you_mean(str(name), known)
        raise InputError(f"{what} {name}: there is no such{near}; choose from {', '.join(known)}")
