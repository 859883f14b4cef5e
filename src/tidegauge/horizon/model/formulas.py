"""A model as text: the formulas of the terms that are on, and every prior."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidegauge.horizon.model.options import (
    USUAL_LOG2_MINUTES,
    HorizonOptions,
    HorizonPriors,
    priors_in_force,
)

_OUTCOMES = {
    "binary": "successes in n runs ~ Binomial(n, p)",
    "re_bench": "successes in n runs ~ Binomial(n, p); RE-Bench scores: of mean p",
    "continuous": "score of a run in [0, 1]: fractional Bernoulli likelihood, mean p",
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
    priors = priors_in_force(priors, options)
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
    length = "(mu_task + residual)" if options.has_residual else "mu_task"
    eta = f"alpha + beta {length}"
    if options.discrimination:
        eta = f"exp(log_discrimination) ({eta})"
    p = f"logistic({eta})"
    if options.lapses:
        p = f"(1 - lapse) {p}"
    yield Term("agent runs", f"p = {p}; {_outcome(options)}", _of_cells(options))
    if options.lapses:
        yield Term(
            "",
            "logit(lapse) of each agent ~ Normal(mu_lapse, sigma_lapse)",
            ("mu_lapse", "sigma_lapse"),
        )
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


def _outcome(options: HorizonOptions) -> str:
    if options.is_overdispersed:
        return "successes in n runs ~ BetaBinomial(n, phi p, phi (1 - p))"
    return _OUTCOMES[options.scores]


def _of_cells(options: HorizonOptions) -> tuple[str, ...]:
    return ("phi",) if options.is_overdispersed else ()


def _curve_terms(options: HorizonOptions) -> Iterator[Term]:
    """Say where the agents' curves come from: their own priors, a pool, a trend."""
    level, parameters = _TRENDS.get(options.trend, ("trend_level", ()))
    joint = options.pooling != "none" or options.trend != "none"
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
    if options.pools_slopes:
        group = " + group_slope" if grouped else ""
        yield Term(
            "" if joint else "agents",
            f"log(-beta) ~ Normal(mu_slope{group}, sigma_slope)",
            ("mu_slope", "sigma_slope", *(["sigma_group_slope"] if grouped else [])),
        )
    if not options.pools_slopes:
        yield Term("" if joint else "agents", "beta of each agent", ("beta",))
    if not joint:
        at_mean = "alpha + beta mean(log2 human_minutes), the logit at the mean task,"
        what = at_mean if options.logit_prior == "mean_task" else "alpha"
        yield Term("", f"{what} of each agent", ("alpha",))
    yield Term("horizon", "T(q) = 2^((logit(q) - alpha) / beta) minutes")
