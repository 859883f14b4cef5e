"""A model as text: the formulas of the terms that are on, and every prior."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidegauge.horizon.model.options import (
    USUAL_LOG2_MINUTES,
    HorizonOptions,
    HorizonPriors,
    with_human_prior,
)

_OUTCOMES = {
    "binary": "success of a run ~ Bernoulli(logistic(eta))",
    "re_bench": "success of a run ~ Bernoulli(logistic(eta)); RE-Bench scores: mean logistic(eta)",
    "continuous": "score of a run in [0, 1]: fractional Bernoulli likelihood, mean logistic(eta)",
}
_TRENDS = {
    "linear": ("trend_level + trend_rate t", ("trend_rate",)),
    "quadratic": ("trend_level + trend_rate t + trend_bend t^2 / 2", ("trend_rate", "trend_bend")),
    "kink": (
        "trend_level + trend_rate t + trend_change max(t - trend_kink, 0)",
        ("trend_rate", "trend_change"),
    ),
    "logistic": (
        "trend_level + exp(trend_log_height) logistic curve of t about trend_middle",
        ("trend_rate", "trend_log_height", "trend_middle"),
    ),
}


class Term(NamedTuple):
    """One line of a model, and the parameters in it that have a prior of their own."""

    part: str
    formula: str
    parameters: tuple[str, ...] = ()


def model_text(options: HorizonOptions, priors: HorizonPriors, *, name: str) -> str:
    """Return the formulas of the terms that are on, and every prior."""
    terms = [*_task_terms(), *_human_terms(options), *_agent_terms(options)]
    width = max(len(term.part) for term in terms)
    lines = [f"{name} model of time horizons; lengths in log2 minutes, abilities in logits"]
    lines += [f"  {term.part:<{width}}  {term.formula}" for term in terms]
    used = [parameter for term in terms for parameter in term.parameters]
    priors = with_human_prior(priors, options)
    width = max(map(len, used))
    lines += ["priors", *(f"  {one:<{width}}  {getattr(priors, one)}" for one in used)]
    return "\n".join(lines)


def _task_terms() -> Iterator[Term]:
    yield Term("families", "mu_family ~ Normal(mu_global, sigma_global)", ("mu_global",))
    yield Term(
        "tasks", "mu_task ~ Normal(mu_family, sigma_family)", ("sigma_global", "sigma_family")
    )


def _human_terms(options: HorizonOptions) -> Iterator[Term]:
    scale = "sigma_human[source]" if options.human_scale == "source" else "sigma_human"
    parameters = ["sigma_human"]
    if options.noise_growth:
        scale += f" 2^(noise_growth (mu_task - {USUAL_LOG2_MINUTES:g}))"
        parameters.append("noise_growth")
    if options.noise == "student_t":
        parameters.append("nu_minus_one")
    formula = {
        "normal": f"log2 duration ~ Normal(mu_task, {scale})",
        "student_t": f"log2 duration ~ StudentT(1 + nu_minus_one, mu_task, {scale})",
        "weibull": f"duration ~ Weibull, its log2 of mean mu_task and sd {scale}",
    }[options.noise]
    yield Term("human runs", formula, tuple(parameters))
    if options.rounding:
        yield Term("", "a duration of m whole minutes is in [m, m + 1)")
    if options.censors_failures:
        yield Term("", "a failed human run is censored: duration > the time it took")
    bias = " + delta_estimate" if options.estimate_bias else ""
    yield Term(
        "estimates",
        f"log2 estimate ~ Normal(mu_task{bias}, sigma_estimate)",
        ("sigma_estimate", *(["delta_estimate"] if bias else [])),
    )


def _agent_terms(options: HorizonOptions) -> Iterator[Term]:
    eta = "alpha + beta mu_task" + (" + residual" if options.has_residual else "")
    if options.discrimination:
        eta = f"exp(log_discrimination) ({eta})"
    yield Term("agent runs", f"eta = {eta}; {_OUTCOMES[options.scores]}")
    if options.residual == "family":
        yield Term(
            "difficulty",
            "residual_family ~ Normal(0, sigma_residual_family)",
            ("sigma_residual_family",),
        )
    if options.has_residual:
        centre = "residual_family" if options.residual == "family" else "0"
        yield Term(
            "", f"residual ~ Normal({centre}, sigma_residual_task)", ("sigma_residual_task",)
        )
    if options.discrimination:
        yield Term(
            "",
            "log_discrimination ~ Normal(0, sigma_discrimination)",
            ("sigma_discrimination",),
        )
    yield from _curve_terms(options)


def _curve_terms(options: HorizonOptions) -> Iterator[Term]:
    """Say where the agents' curves come from: their own priors, a pool, a trend."""
    level, parameters = _TRENDS.get(options.trend, ("trend_level", ()))
    pooled, joint = options.pooling != "none", options.pooling != "none" or options.trend != "none"
    grouped = options.pooling in ("lab", "family")
    if joint:
        group = f" + group_horizon[{options.pooling}]" if grouped else ""
        yield Term(
            "agents",
            f"log2 T50 = -alpha / beta ~ Normal({level}{group}, sigma_horizon)",
            ("trend_level", *parameters, "sigma_horizon"),
        )
    if grouped:
        yield Term(
            "",
            "group_horizon ~ Normal(0, sigma_group_horizon)",
            ("sigma_group_horizon",),
        )
    if pooled:
        group = " + group_slope" if grouped else ""
        yield Term(
            "",
            f"log(-beta) ~ Normal(mu_slope{group}, sigma_slope)",
            ("mu_slope", "sigma_slope", *(["sigma_group_slope"] if grouped else [])),
        )
    own = (*(() if joint else ("alpha",)), *(() if pooled else ("beta",)))
    if own:
        yield Term("agents" if not joint else "", f"{' and '.join(own)} of each agent", own)
    yield Term("horizon", "T(q) = 2^((logit(q) - alpha) / beta) minutes")
