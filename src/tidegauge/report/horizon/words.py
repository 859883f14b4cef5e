"""The horizon page's plain language: whether the numbers can be relied on, check by check."""

from __future__ import annotations

from tidegauge.engine.diagnostics import Check
from tidegauge.horizon.store.stored_fit import StoredFit
from tidegauge.report.page import Block, Finding, Findings, Remark, Text

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
    "other_modes": (
        "Whether the posterior has another peak",
        "Chains sent out from far apart look for one; its mass is the share of the posterior that "
        "these numbers leave out.",
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


def verdict(fit: StoredFit) -> Block:
    """Say whether the numbers can be relied on, and why."""
    if fit.posterior is None:
        source = {"regression": "a regression and its bootstrap", "exact": "sums on a grid"}
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
