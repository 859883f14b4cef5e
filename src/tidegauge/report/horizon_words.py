"""The horizon page's plain language: what the checks mean, and how the numbers were made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegauge.engine.diagnostics import Check
from tidegauge.horizon.stored import StoredFit
from tidegauge.report.page import Block, Facts, Finding, Findings, Remark, Table, Text

_CHECKS = {
    "r_hat": (
        "The chains agree",
        "Chains that start apart must end up describing the same posterior; R-hat near 1 says so.",
    ),
    "ess_bulk": (
        "Enough draws for the middle",
        "Draws resemble their neighbours; this is how many independent ones the medians rest on.",
    ),
    "ess_tail": (
        "Enough draws for the ends",
        "The same for the 95 % intervals, which rest on the rarer draws.",
    ),
    "divergences": (
        "Nothing was too steep to follow",
        "A divergence is a place the sampler could not enter, so that draws may be missing there.",
    ),
    "predictive_human_durations": (
        "Human times look like the model's own",
        "The fitted model would have produced human times of this centre and spread.",
    ),
    "predictive_success_rates": (
        "Success rates look like the model's own",
        "Runs replicated from the fit should hold the rates seen in 95 of 100 cases.",
    ),
    "difficulty_against_human_time": (
        "How far tasks moved from their human time",
        "Where human runs are many, the inferred length should stay close to their mean.",
    ),
}
_METHODS = {
    "core": "Every task has a length in log2 minutes, drawn around its family's. Successful human "
    "runs measure it with one noise, estimates with another. An agent succeeds with probability "
    "logistic(alpha + beta × length), beta at most 0. All of it is inferred together, so that "
    "doubt about the tasks' lengths is part of every interval. The horizon at a success rate is "
    "the length at which the curve falls to it; points are posterior medians, intervals hold the "
    "central 95 % of all draws, those beyond the longest task included.",
    "frequentist": "One logistic regression per agent on the file's human minutes (log2), runs "
    "weighted by task and family. Intervals hold the central 95 % of a bootstrap over families, "
    "tasks and runs. The human minutes are taken as the truth.",
    "grid": "Each agent's own posterior of alpha and beta, summed on a grid, with the file's "
    "human minutes taken as the truth. Points are posterior medians, intervals hold the central "
    "95 %.",
}


def verdict(fit: StoredFit) -> Block:
    """Say whether the numbers can be relied on, and why."""
    if fit.posterior is None:
        source = {"frequentist": "a regression and its bootstrap", "grid": "sums on a grid"}
        made = source.get(fit.manifest.method, "a computation")
        return Text(
            f"Nothing was sampled: the numbers come from {made}, so there is no convergence to "
            "check. Human times are taken as exact, so the intervals leave that doubt out."
        )
    if not fit.diagnostics.converged:
        return Remark(
            "The sampler did not converge: do not rely on the numbers of this page. Fit again "
            "with more draws (--draws 4000 --tune 2000) or another --seed."
        )
    failed = sum(check.passed is False for check in fit.diagnostics.checks)
    if failed:
        return Remark(
            f"The sampler converged: the numbers are what the model says. But {failed} of the "
            "checks below failed: the data hold something that the model does not, so read its "
            "intervals as too narrow there."
        )
    return Text(
        "The sampler converged: the numbers are what the model says of these runs. No check found "
        "the data at odds with the model."
    )


def findings(fit: StoredFit) -> list[Block]:
    """Return every check in words, those of the sampler first."""
    items = [_finding(check) for check in fit.diagnostics.checks]
    return [Findings(items)] if items else []


def _finding(check: Check) -> Finding:
    name, _, part = check.name.removesuffix("]").partition("[")
    title, meaning = _CHECKS.get(name, (name.replace("_", " "), ""))
    title = f"{title} ({part})" if part else title
    return Finding(title, check.passed, f"{meaning} Found: {check.detail}.".strip())


def methods(fit: StoredFit) -> list[Block]:
    """Return how the numbers were made, in enough detail to make them again."""
    manifest, settings = fit.manifest, fit.manifest.settings
    model = str(settings.get("model", manifest.method))
    blocks: list[Block] = []
    if model in _METHODS:
        blocks.append(Text(_METHODS[model]))
    if fit.diagnostics.chains and fit.diagnostics.draws:
        blocks.append(
            Text(
                f"Sampled by NUTS: {fit.diagnostics.chains} chains of "
                f"{fit.diagnostics.draws:,} draws."
            )
        )
    seed = "none" if manifest.seed is None else str(manifest.seed)
    facts = [("method", manifest.method), ("model", model), ("seed", seed)]
    for part in ("options", "frequentist"):
        facts += [(name.replace("_", " "), str(v)) for name, v in _items(settings.get(part))]
    when = manifest.created_at.replace("T", " ").replace("+00:00", " UTC")
    facts = [*dict(facts).items(), ("fitted", when)]
    facts += [("tidegauge", manifest.tidegauge), ("Python", manifest.python)]
    blocks.append(Facts([*facts, *manifest.libraries.items()]))
    priors = [[name, _prior_text(prior)] for name, prior in _items(settings.get("priors"))]
    if priors:
        caption = "Priors; lengths are log2 minutes, alpha and beta logits."
        blocks.append(Table(("parameter", "prior"), priors, caption))
    blocks += _scales(fit)
    blocks.append(
        Facts([(f"SHA-256 of {name}", digest) for name, digest in manifest.inputs.items()])
    )
    blocks += [Text(f"Note: {note}.") for note in manifest.notes]
    return blocks


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
    return [Table(header, rows, "What the tasks have in common, log2 minutes.")] if rows else []


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, Mapping) else []


def _prior_text(prior: Any) -> str:
    if not isinstance(prior, Mapping) or "kind" not in prior:
        return str(prior)
    kind, mu, sd = prior["kind"], prior.get("mu", 0), prior.get("sd")
    if str(kind).startswith("half_"):
        return f"{str(kind).replace('_', '-')}({sd})"
    upper = prior.get("upper", "inf")
    bound = "" if upper == "inf" else f", at most {upper}"
    return f"{str(kind).removeprefix('truncated_')}({mu}, {sd}){bound}"
