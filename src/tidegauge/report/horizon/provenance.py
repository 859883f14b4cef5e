"""How the numbers of the horizon page were made, in enough detail to make them again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tidegauge.engine.priors import Prior
from tidegauge.engine.store import plain
from tidegauge.horizon.model.options import CORE, DEFAULT_PRIORS
from tidegauge.horizon.store.stored_fit import StoredFit
from tidegauge.report.page import Block, Facts, Table, Text

_METHODS = {
    "core": "Every task has a length in log2 minutes, drawn around its family's. Successful human "
    "runs measure it with one noise, estimates with another. An agent succeeds with probability "
    "logistic(alpha + beta × length), beta at most 0. All of it is inferred together, so that "
    "doubt about the tasks' lengths is part of every interval. The horizon at a success rate is "
    "the length at which the curve falls to it; points are posterior medians, intervals hold the "
    "central 95 % of all draws, those beyond the longest task included.",
    "regression": "One logistic regression per agent on the file's human minutes (log2), runs "
    "weighted by task and family. Intervals hold the central 95 % of a bootstrap over families, "
    "tasks and runs. The human minutes are taken as the truth.",
    "exact": "Each agent's own posterior of alpha and beta, summed on a grid, with the file's "
    "human minutes taken as the truth. Points are posterior medians, intervals hold the central "
    "95 %.",
}
# What an option adds, in one sentence each.
_OPTIONS: Mapping[tuple[str, Any], str] = {
    ("residual", "task"): "Tasks have a difficulty beyond their length, in logits.",
    ("residual", "family"): "Tasks and their families have a difficulty beyond their length, in "
    "logits.",
    ("noise", "student_t"): "Human log durations have Student-t noise.",
    ("noise", "weibull"): "Human durations are Weibull.",
    ("human_scale", "source"): "Each task source has its own human noise.",
    ("noise_growth", True): "Human noise may grow with the length of the task.",
    ("rounding", True): "Whole minutes are read as rounded down.",
    ("failures", "censor"): "Failed human runs say that the task takes longer than they did.",
    ("estimate_bias", True): "Estimates may all be too short or too long by one factor.",
    ("discrimination", True): "Tasks differ in how sharply they tell agents apart.",
    ("pooling", "all"): "Agents' horizons and slopes are pooled.",
    ("pooling", "lab"): "Agents' horizons and slopes are pooled by lab.",
    ("pooling", "family"): "Agents' horizons and slopes are pooled by model family.",
    ("scores", "re_bench"): "RE-Bench runs count by their continuous score.",
    ("scores", "continuous"): "Runs count by their continuous score.",
    **{
        ("trend", shape): f"Log horizons follow a {shape} trend over release date, around which "
        "agents scatter; it is fitted together with all the rest."
        for shape in ("linear", "quadratic", "kink", "logistic")
    },
}


def methods(fit: StoredFit) -> list[Block]:
    """Return how the numbers were made: model, options, priors, versions, seed, data."""
    manifest, settings = fit.manifest, fit.manifest.settings
    model = str(settings.get("model", manifest.method))
    blocks: list[Block] = [Text(_paragraph(fit, model))]
    if fit.diagnostics.chains and fit.diagnostics.draws:
        blocks.append(
            Text(
                f"Sampled by NUTS: {fit.diagnostics.chains} chains of "
                f"{fit.diagnostics.draws:,} draws."
            )
        )
    seed = "none" if manifest.seed is None else str(manifest.seed)
    facts = [("method", manifest.method), ("model", model), ("seed", seed)]
    for part in ("options", "regression"):
        facts += [(name.replace("_", " "), _said(v)) for name, v in _items(settings.get(part))]
    if settings.get("filters"):
        facts.append(("rows", "; ".join(map(str, settings["filters"]))))
    when = manifest.created_at.replace("T", " ").replace("+00:00", " UTC")
    facts = [*dict(facts).items(), ("fitted", when)]
    facts += [("tidegauge", manifest.tidegauge), ("Python", manifest.python)]
    blocks.append(Facts([*facts, *manifest.libraries.items()]))
    blocks += [*_priors(fit), *_scales(fit)]
    blocks.append(
        Facts([(f"SHA-256 of {name}", digest) for name, digest in manifest.inputs.items()])
    )
    blocks += [Text(f"Note: {note}.") for note in manifest.notes]
    return blocks


def _paragraph(fit: StoredFit, model: str) -> str:
    """Describe the model: the core, then what was added to it."""
    said = _METHODS["core" if model == "full" else model] if model in (*_METHODS, "full") else ""
    options = fit.manifest.options
    changed = [
        (name, value)
        for name, value in options.items()
        if isinstance(value, str | bool) and value != getattr(CORE, name, value)
    ]
    added = [_OPTIONS[pair] for pair in changed if pair in _OPTIONS]
    if added:
        said += " On top of this core model: " + " ".join(added)
    other = [
        name for name, prior in _items(fit.manifest.settings.get("priors")) if _moved(name, prior)
    ]
    if other:
        said += f" Priors that are not the default: {', '.join(other)}."
    elif fit.posterior is not None:
        said += " All priors are the default."
    return said.strip()


def _moved(name: str, prior: Any) -> bool:
    default = getattr(DEFAULT_PRIORS, name, None)
    return default is not None and plain(default) != prior


def _priors(fit: StoredFit) -> list[Block]:
    """Return the priors of what the model has, marking those that are not the default."""
    used = {field.name for field in fields(DEFAULT_PRIORS)}
    if fit.parameters is not None:
        used = {str(name).split("[")[0] for name in fit.parameters["parameter"]}
    rows = [
        [name, _prior_text(prior) + (" (not the default)" if _moved(name, prior) else "")]
        for name, prior in _items(fit.manifest.settings.get("priors"))
        if name in used
    ]
    caption = "Priors; lengths are log2 minutes, alpha and beta logits."
    if used & {"sigma_horizon"}:
        caption += " Where a trend or pooling says where an agent lies, alpha has no other prior."
    return [Table(("parameter", "prior"), rows, caption)] if rows else []


def _said(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _scales(fit: StoredFit) -> list[Block]:
    """Return what was inferred about all tasks together, where there is a posterior."""
    if fit.parameters is None:
        return []
    shared = fit.parameters[~fit.parameters["parameter"].str.contains("[", regex=False)]
    rows = [
        [
            row["parameter"],
            f"{row['mean']:.3g}",
            f"{row['q0.025']:.3g} to {row['q0.975']:.3g}",
            f"{row['r_hat']:.4f}",
            f"{row['ess_bulk']:,.0f}",
        ]
        for row in shared.to_dict("records")
    ]
    header = ("parameter", "mean", "95 % interval", "R-hat", "effective draws")
    return [Table(header, rows, "What tasks and agents have in common.")] if rows else []


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, Mapping) else []


def _prior_text(prior: Any) -> str:
    if not isinstance(prior, Mapping) or "kind" not in prior:
        return str(prior)
    upper = float(prior.get("upper", "inf"))
    return str(Prior(prior["kind"], prior.get("mu", 0.0), prior["sd"], upper))
