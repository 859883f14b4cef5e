"""How much the priors decide: power-scaling of each, and refits under named alternatives.

Power-scaling raises a prior (or the likelihood) to a power and measures how far the posterior of
each agent's log2 p50 moves. Near 1 the draws are reweighted with Pareto smoothing, and the movement
is the cumulative Jensen-Shannon distance per doubling of the power (Kallioinen and others 2023). At
half and twice a prior's strength the draws are reweighted where that can be trusted, and the model
is refitted where it cannot.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.engine.arviz_import import arviz
from tidegauge.engine.diagnostics import HIGH_K
from tidegauge.engine.parallel import parallel_map
from tidegauge.engine.priors import (
    Prior,
    half_cauchy,
    half_normal,
    log_normal,
    normal,
    truncated_normal,
)
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.horizons.estimate import Estimate
from tidegauge.horizon.horizons.quantities import extrapolation_limits
from tidegauge.horizon.methods.base import Effort
from tidegauge.horizon.methods.hierarchical import Hierarchical
from tidegauge.horizon.model.likelihood import log_likelihoods
from tidegauge.horizon.model.options import (
    CORE,
    DEFAULT_PRIORS,
    DEFAULT_SAMPLER,
    HorizonOptions,
    HorizonPriors,
    priors_in_force,
)
from tidegauge.horizon.model.parameters import priors_in_effect
from tidegauge.horizon.studies.changes import p50_changes
from tidegauge.progress import SILENT, Progress

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.horizon.result import HorizonFit

LIKELIHOOD = "likelihood"
SENSITIVE = 0.05  # distance per doubling of the power, above which a component matters
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
    "sigma_residual_family": (half_normal(0.75), half_normal(3)),
    "sigma_residual_task": (half_normal(0.75), half_normal(3)),
    "phi": (log_normal(1.5, 2),),
    "mu_slope": (normal(-0.5, 1.4),),
    "mu_lapse": (normal(-4, 2),),
    "sigma_discrimination": (half_normal(1),),
}


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
        method = Hierarchical(options=options, priors=priors, short_sampler=sampler)
        base = method.fit(design, effort=Effort.SHORT, seed=seed)
    fit = base.fit
    assert fit is not None, "a sampled estimate has its posterior"
    priors = priors_in_force(priors, options)
    powers, doubtful = _power_rows(replace(fit, priors=priors), base)
    refits = [("power", name, _power_text(name, power), power) for name, power in doubtful]
    planned = [(_power_priors(priors, name, power)) for _, name, _, power in refits]
    for name in priors_in_effect(fit.options, fit.point):
        for prior in ALTERNATIVES.get(name, ()):
            if prior != getattr(priors, name):
                refits.append(("alternative", name, str(prior), 1.0))
                planned.append(replace(priors, **{name: prior}))
    found = parallel_map(
        partial(_refit, design=design, options=options, seed=seed),
        planned,
        workers=workers,
        label="fits under other priors",
        progress=progress,
    )
    blocks = [powers]
    for (kind, name, text, _), other in zip(refits, found, strict=True):
        block = p50_changes(design, base, other).assign(kind=kind, parameter=name, change=text)
        blocks.append(block.assign(how="refitted", converged=base.converged and other.converged))
    table = pd.concat(blocks, ignore_index=True).reindex(columns=COLUMNS)
    return _with_verdicts(table)


def _refit(
    priors: HorizonPriors, *, design: Design, options: HorizonOptions, seed: int
) -> Estimate:
    method = Hierarchical(options=options, priors=priors)
    return replace(method.fit(design, effort=Effort.SHORT, seed=seed), fit=None)


def log_prior(prior: Prior, values: FloatArray) -> FloatArray:
    """Return the log density of values (chain, draw, ...), summed per draw."""
    summed: FloatArray = prior.logpdf(values).reshape(*values.shape[:2], -1).sum(axis=-1)
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
    log2 = np.clip(base.log2_horizons(), *extrapolation_limits(fit.design.log2_minutes))
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
            if k > HIGH_K and getattr(fit.priors, name).powered(power) is not None:
                doubtful.append((name, power))
                blocks.append(block.assign(how="not to be trusted: see the refit"))
                continue
            after = replace(base, weight=np.tile(weights[:, None], (1, len(base.agents))))
            moved = p50_changes(fit.design, base, after).drop(columns="change_error")
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
    az = arviz()
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
        smoothed, k = arviz().psislw(flat - flat.max())
    weights = np.exp(np.asarray(smoothed))
    return weights / weights.sum(), float(k)


def _power_priors(priors: HorizonPriors, name: str, power: float) -> HorizonPriors:
    return replace(priors, **{name: getattr(priors, name).powered(power)})


def _power_text(name: str, power: float) -> str:
    return f"prior to the power {power:g}"


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
        return "weak likelihood" if row["sensitivity"] < SENSITIVE else "likelihood informs"
    if row["sensitivity"] < SENSITIVE:
        return "not sensitive"
    both = likelihood >= SENSITIVE
    return "possible prior-data conflict" if both else "strong prior or weak likelihood"
