"""How much the priors decide: power-scaling of each, and refits under named alternatives.

Power-scaling raises a prior (or the likelihood) to a power and asks how far the posterior of each
agent's log2 p50 moves. Near 1 the draws are reweighted with Pareto smoothing, and the movement is
the cumulative Jensen-Shannon distance per doubling of the power (Kallioinen and others 2023). At
half and twice a prior's strength the draws are reweighted where that can be trusted, and the model
is refitted where it cannot.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.engine.parallel import parallel_map
from tidegauge.engine.priors import Prior, half_cauchy, half_normal, normal, truncated_normal
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.horizons.estimate import Estimate
from tidegauge.horizon.methods.short_fits import fit_short
from tidegauge.horizon.model.likelihood import log_likelihoods
from tidegauge.horizon.model.options import (
    CORE,
    DEFAULT_PRIORS,
    DEFAULT_SAMPLER,
    HorizonOptions,
    HorizonPriors,
    with_human_prior,
)
from tidegauge.horizon.model.parameters import priors_in_effect
from tidegauge.horizon.studies.influence import changes
from tidegauge.progress import SILENT, Progress

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.horizon.result import HorizonFit

LIKELIHOOD = "likelihood"
SENSITIVE = 0.05  # distance per doubling of the power, above which a component matters
HIGH_K = 0.7
POWERS = (0.5, 2.0)
COLUMNS = (
    *("kind", "parameter", "change", "agent", "p50_all", "p50", "log2_change", "change_error"),
    *("sensitivity", "pareto_k", "how", "converged", "verdict"),
)
ALTERNATIVES: Mapping[str, tuple[Prior, ...]] = {
    "mu_global": (normal(5, 6),),
    "sigma_global": (half_normal(6),),
    "sigma_family": (half_normal(4),),
    "sigma_human": (half_cauchy(1), half_normal(2)),
    "sigma_estimate": (half_normal(1), half_normal(4)),
    "alpha": (normal(0, 10),),
    "beta": (truncated_normal(-0.5, 3, upper=0),),
    "delta_estimate": (normal(0, 2),),
    "noise_growth": (normal(0, 0.3),),
    "sigma_residual_family": (half_normal(1), half_normal(4)),
    "sigma_residual_task": (half_normal(1), half_normal(4)),
    "sigma_discrimination": (half_normal(1),),
}


@dataclass(frozen=True)
class _Job:
    """A refit under another prior of one parameter."""

    design: Design
    options: HorizonOptions
    priors: HorizonPriors
    seed: int


def prior_sensitivity(
    design: Design,
    *,
    options: HorizonOptions = CORE,
    priors: HorizonPriors = DEFAULT_PRIORS,
    seed: int = 1,
    workers: int | None = None,
    progress: Progress = SILENT,
) -> pd.DataFrame:
    """Return ``sensitivity.csv``: one row per change of a prior and agent.

    Returns
    -------
    DataFrame
        kind (``power`` or ``alternative``), parameter, change, agent, p50_all and p50 (minutes,
        before and after), log2_change (horizons outside the range of the tasks count as its
        ends), change_error (Monte Carlo), sensitivity (distance per doubling of the power),
        pareto_k, how (``reweighted`` or ``refitted``), converged, verdict.
    """
    import pandas as pd

    with progress.step("the fit whose priors are changed"):
        sampler = replace(DEFAULT_SAMPLER, draws=1000, chains=2)
        base, fit = fit_short(design, options=options, priors=priors, sampler=sampler, seed=seed)
    priors = with_human_prior(priors, options)
    powers, doubtful = _power_rows(replace(fit, priors=priors), base)
    refits = [("power", name, _power_text(name, power), power) for name, power in doubtful]
    planned = [(_power_priors(priors, name, power)) for _, name, _, power in refits]
    for name in priors_in_effect(fit.options, fit.point):
        for prior in ALTERNATIVES.get(name, ()):
            if prior != getattr(priors, name):
                refits.append(("alternative", name, describe(prior), 1.0))
                planned.append(replace(priors, **{name: prior}))
    found = parallel_map(
        _refit,
        [_Job(design, options, changed, seed) for changed in planned],
        workers=workers,
        label="fits under other priors",
        progress=progress,
    )
    blocks = [powers]
    for (kind, name, text, _), other in zip(refits, found, strict=True):
        block = changes(design, base, other).assign(kind=kind, parameter=name, change=text)
        blocks.append(block.assign(how="refitted", converged=base.converged and other.converged))
    table = pd.concat(blocks, ignore_index=True).reindex(columns=COLUMNS)
    return _with_verdicts(table)


def _refit(job: _Job) -> Estimate:
    return fit_short(job.design, options=job.options, priors=job.priors, seed=job.seed)[0]


def log_prior(prior: Prior, values: FloatArray) -> FloatArray:
    """Return the log density of values (chain, draw, ...), up to a constant, summed per draw."""
    match prior.kind:
        case "half_cauchy":
            logp = -np.log1p((values / prior.sd) ** 2)
        case "gamma":
            shape, rate = (prior.mu / prior.sd) ** 2, prior.mu / prior.sd**2
            logp = (shape - 1) * np.log(values) - rate * values
        case _:
            logp = -0.5 * ((values - prior.mu) / prior.sd) ** 2
    summed: FloatArray = logp.reshape(*values.shape[:2], -1).sum(axis=-1)
    return summed


def log_components(fit: HorizonFit) -> dict[str, FloatArray]:
    """Return, per draw (chain, draw), the log prior of each parameter and the log likelihood."""
    found = {
        name: log_prior(getattr(fit.priors, name), getattr(fit.point, name))
        for name in priors_in_effect(fit.options, fit.point)
    }
    pointwise = log_likelihoods(fit.design, fit.options, fit.point)
    total = sum(np.asarray(part, dtype=float).sum(axis=-1) for part in pointwise.values())
    return {**found, LIKELIHOOD: np.asarray(total)}


def _power_rows(fit: HorizonFit, base: Estimate) -> tuple[pd.DataFrame, list[tuple[str, float]]]:
    """Reweight for every component; also return what has to be refitted instead."""
    import pandas as pd

    components = log_components(fit)
    x = fit.design.log2_minutes  # a distance over tails of 1e9 minutes would see nothing else
    log2 = np.clip(base.log2_horizons(), x.min() - 6, x.max() + 6)
    log2 = log2.reshape(*fit.point.alpha.shape)
    blocks, doubtful = [], []
    for name, logs in components.items():
        shared = {
            "kind": "power",
            "parameter": name,
            "agent": base.agents,
            "sensitivity": power_sensitivity(log2, logs),
            "converged": base.converged,
        }
        if name == LIKELIHOOD:
            block = pd.DataFrame({**shared, "change": "power near 1"})
            blocks.append(block.assign(how="reweighted"))
            continue
        for power in POWERS:
            weights, k = _smoothed((power - 1) * logs)
            block = pd.DataFrame({**shared, "change": _power_text(name, power), "pareto_k": k})
            if k > HIGH_K and _is_closed(getattr(fit.priors, name)):
                doubtful.append((name, power))
                blocks.append(block.assign(how="not to be trusted: see the refit"))
                continue
            after = replace(base, weight=np.tile(weights[:, None], (1, len(base.agents))))
            moved = changes(fit.design, base, after).drop(columns="change_error")
            blocks.append(block.merge(moved, on="agent").assign(how="reweighted"))
    return pd.concat(blocks, ignore_index=True), doubtful


def power_sensitivity(log2: FloatArray, logs: FloatArray) -> FloatArray:
    """Return how far each agent's posterior moves per doubling of a component's power.

    Parameters
    ----------
    log2 : ndarray, shape (chain, draw, agent)
    logs : ndarray, shape (chain, draw)
        Log density of the component at each draw.
    """
    az = _arviz()
    trace = az.from_dict(posterior={"log2_p50": log2})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # xarray's and ArviZ's remarks on its groups
        trace.add_groups({"log_prior": {"component": logs}})
        moved = az.psens(trace, component="prior", var_names=["log2_p50"])
    return np.asarray(moved, dtype=float)


def _smoothed(log_weights: FloatArray) -> tuple[FloatArray, float]:
    """Return Pareto-smoothed weights that sum to one, and how heavy their tail is."""
    flat = log_weights.ravel()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a heavy tail, which is reported
        smoothed, k = _arviz().psislw(flat - flat.max())
    weights = np.exp(np.asarray(smoothed))
    return weights / weights.sum(), float(k)


def _is_closed(prior: Prior) -> bool:
    """Tell whether a power of the prior is a prior of the same kind."""
    return prior.kind in ("normal", "half_normal", "truncated_normal")


def _power_priors(priors: HorizonPriors, name: str, power: float) -> HorizonPriors:
    prior: Prior = getattr(priors, name)
    return replace(priors, **{name: replace(prior, sd=prior.sd / np.sqrt(power))})


def _power_text(name: str, power: float) -> str:
    return f"prior to the power {power:g}"


def describe(prior: Prior) -> str:
    """Return a prior as it is written in the documentation."""
    match prior.kind:
        case "half_normal":
            return f"HalfNormal({prior.sd:g})"
        case "half_cauchy":
            return f"HalfCauchy({prior.sd:g})"
        case "gamma":
            return f"Gamma(mean {prior.mu:g}, sd {prior.sd:g})"
        case "truncated_normal":
            return f"Normal({prior.mu:g}, {prior.sd:g}) up to {prior.upper:g}"
        case _:
            return f"Normal({prior.mu:g}, {prior.sd:g})"


def _with_verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """Say of every power-scaled prior what its distance and the likelihood's mean together."""
    power = table["sensitivity"].notna()
    likelihood = table[table["parameter"] == LIKELIHOOD].set_index("agent")["sensitivity"]
    verdicts = [
        _verdict(row, float(likelihood[row["agent"]])) if known else ""
        for row, known in zip(table.to_dict("records"), power, strict=True)
    ]
    return table.assign(verdict=verdicts)


def _verdict(row: Mapping[Any, Any], likelihood: float) -> str:
    if row["parameter"] == LIKELIHOOD:
        return "weak likelihood" if row["sensitivity"] < SENSITIVE else "the data speak"
    if row["sensitivity"] < SENSITIVE:
        return "not sensitive"
    both = likelihood >= SENSITIVE
    return "possible prior-data conflict" if both else "strong prior or weak likelihood"


def _arviz() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # ArviZ announces its next major
        import arviz as az
    return az
