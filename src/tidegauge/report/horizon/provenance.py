"""How the numbers of the horizon page were made, in enough detail to make them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegauge.engine.priors import Prior
from tidegauge.engine.store import plain
from tidegauge.horizon.model.options import DEFAULT_PRIORS
from tidegauge.horizon.result import HorizonFit, HorizonResult
from tidegauge.horizon.store.fit_folder import manifest_of
from tidegauge.report.page import Block, Facts, Table, Text

_METHODS = {
    "core": "Every task has a length in log2 minutes, drawn around its family's. Successful human "
    "runs measure it with one noise, estimates with another. An agent succeeds with probability "
    "logistic(alpha + beta × length), beta at most 0. All of it is inferred together, so that "
    "the uncertainty of task lengths is part of every interval. The horizon at a success rate is "
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
    ("residual", "task"): "To agents tasks are longer or shorter than to people, each by its own "
    "factor: a difficulty beyond their length.",
    ("residual", "family"): "To agents tasks are longer or shorter than to people, each task and "
    "each family by its own factor: a difficulty beyond their length.",
    ("cells", "beta_binomial"): "Runs of one agent at one task are alike (beta-binomial).",
    ("lapses", True): "Agents may fail at a share of all tasks, however short.",
    ("logit_prior", "mean_task"): "The prior of an agent's success is stated at the mean task.",
    ("slopes", "pooled"): "Agents' slopes are pooled.",
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


def methods(fit: HorizonResult) -> list[Block]:
    """Return how the numbers were made: model, options, priors, versions, seed, data."""
    made = manifest_of(fit)
    settings = made.settings
    blocks: list[Block] = [Text(_paragraph(fit))]
    facts = [
        ("method", fit.method),
        ("seed", str(settings.get("seed", "none"))),
        ("estimand", fit.estimand),
    ]
    if isinstance(fit, HorizonFit):
        chains, draws = fit.sampler.chains, fit.sampler.draws
        blocks.append(Text(f"Sampled by NUTS: {chains} chains of {draws:,} draws."))
    for part in ("options", "regression"):
        facts += [(name.replace("_", " "), _said(v)) for name, v in _items(settings.get(part))]
    if settings.get("filters"):
        facts.append(("rows", "; ".join(map(str, settings["filters"]))))
    when = made.created_at.replace("T", " ").replace("+00:00", " UTC")
    facts = [*dict(facts).items(), ("fitted", when)]
    facts += [("tidegauge", made.tidegauge), ("Python", made.python)]
    blocks.append(Facts([*facts, *made.libraries.items()]))
    blocks += [*_priors(settings), *_scales(fit)]
    blocks.append(Facts([(f"SHA-256 of {name}", digest) for name, digest in made.inputs.items()]))
    blocks += [Text(f"Note: {note}.") for note in made.notes]
    return blocks


def _paragraph(fit: HorizonResult) -> str:
    """Describe the model: the core, then what was added to it."""
    if not isinstance(fit, HorizonFit):
        return _METHODS[fit.method]
    text = _METHODS["core"]
    added = [_OPTIONS[pair] for pair in fit.options.changed.items() if pair in _OPTIONS]
    if added:
        text += " On top of this core model: " + " ".join(added)
    other = [name for name, prior in fit.settings["priors"].items() if _moved(name, plain(prior))]
    if other:
        return f"{text} Priors that are not the default: {', '.join(other)}."
    return f"{text} All priors are the default."


def _moved(name: str, prior: Any) -> bool:
    default = getattr(DEFAULT_PRIORS, name, None)
    return default is not None and plain(default) != prior


def _priors(settings: Mapping[str, Any]) -> list[Block]:
    """Return the priors of what the model has, marking those that are not the default."""
    found = dict(_items(settings.get("priors")))
    rows = [
        [name, _prior_text(prior) + (" (not the default)" if _moved(name, prior) else "")]
        for name, prior in found.items()
    ]
    caption = "Priors; lengths are log2 minutes, alpha and beta logits."
    if "sigma_horizon" in found:
        caption += " Under a trend or pooling, alpha has no prior of its own."
    return [Table(("parameter", "prior"), rows, caption)] if rows else []


def _said(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _scales(fit: HorizonResult) -> list[Block]:
    """Return what was inferred about all tasks together, where there is a posterior."""
    if not isinstance(fit, HorizonFit):
        return []
    table = fit.parameters()
    shared = table[~table["parameter"].str.contains("[", regex=False)]
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
