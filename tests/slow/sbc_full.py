"""Simulation-based calibration of the options of the full model: truths from the prior, refitted.

Run as a script it draws the rank histograms of all studies or of those named:
``python tests/slow/sbc_full.py docs/figures [student_t weibull ...]``.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from sbc import KEPT, draw, p_values

from full_designs import FullTruth, draw_full_design, full_prior_truth, scalar_names
from ranks import rank_among
from tidegauge.engine.config import SamplerConfig
from tidegauge.engine.parallel import parallel_map
from tidegauge.engine.priors import normal
from tidegauge.horizon.horizons.estimate import estimate_of_fit
from tidegauge.horizon.horizons.quantities import bounded
from tidegauge.horizon.model.likelihood import log_likelihoods
from tidegauge.horizon.model.options import DEFAULT_PRIORS, FULL, HorizonOptions, HorizonPriors
from tidegauge.horizon.model.parameters import Point
from tidegauge.horizon.result import HorizonFit
from tidegauge.horizon.sampler.fit import fit_horizon
from tidegauge.progress import LineProgress

FITS = 300
SAMPLER = SamplerConfig(draws=500, tune=300, chains=2, target_accept=0.95, cores=1)

# Six agents far beyond all tasks say nothing of a trend's shape: under these priors they do not lie
# there. sigma_horizon and the slopes keep their default priors, close to zero too.
AMONG_TASKS = dataclasses.replace(
    DEFAULT_PRIORS,
    mu_global=normal(5, 1),
    trend_level=normal(5, 1),
    trend_rate=normal(1, 0.5),
    trend_bend=normal(0, 0.5),
    trend_change=normal(0, 1),
    trend_middle=normal(0, 1),
)


class Study(NamedTuple):
    """Options whose own parameters are watched."""

    options: HorizonOptions
    priors: HorizonPriors = DEFAULT_PRIORS
    n_agents: int = 3
    runs_per_cell: int = 5
    n_tasks: int = 8


# Every option in one of them. Continuous scores have a likelihood but no way to be drawn from it,
# so they are not here.
STUDIES = {
    "full": Study(FULL, n_tasks=16),
    "full_trend": Study(dataclasses.replace(FULL, trend="linear"), n_agents=6, n_tasks=16),
    "lapses": Study(dataclasses.replace(FULL, lapses=True), n_tasks=16),
    "student_t": Study(
        HorizonOptions(noise="student_t", human_scale="source", failures="censor", rounding=True)
    ),
    "weibull": Study(HorizonOptions(noise="weibull", noise_growth=True, rounding=True)),
    "residual": Study(HorizonOptions(residual="family", discrimination=True, estimate_bias=True)),
    "kink": Study(HorizonOptions(trend="kink", human_prior="half_cauchy_1"), AMONG_TASKS, 6, 20),
    "pooling": Study(HorizonOptions(pooling="lab", trend="linear"), AMONG_TASKS, 6, 20),
    "quadratic": Study(
        HorizonOptions(trend="quadratic", pooling="all", human_prior="half_normal_2"),
        AMONG_TASKS,
        *(6, 20),
    ),
    "logistic": Study(HorizonOptions(trend="logistic", residual="task"), AMONG_TASKS, 6, 20),
}
# Of vectors, which are exchangeable, the first entry is watched.
_VECTORS = ("mu_task", "residual_family", "residual", "log_discrimination")
_AGENT_VECTORS = ("group_horizon", "group_slope", "logit_lapse", "alpha", "beta")
_WORK_DAY_LOG2 = np.log2(480)


def ranks_of_one_fit(item: tuple[str, int]) -> dict[str, float]:
    """Draw a truth and data, fit them, and rank the truth among the draws."""
    name, seed = item
    study = STUDIES[name]
    options, priors = study.options, study.priors
    rng = np.random.default_rng([list(STUDIES).index(name), seed])
    truth = full_prior_truth(
        rng,
        options=options,
        priors=priors,
        n_agents=study.n_agents,
        n_tasks=study.n_tasks,
        n_families=4,
    )
    design = draw_full_design(truth, rng, runs_per_cell=study.runs_per_cell)
    fit = fit_horizon(design, options=options, priors=priors, sampler=SAMPLER, patient=False)
    ranks: dict[str, float] = {"converged": fit.diagnosis.divergences == 0}
    for name in (*scalar_names(options), *_VECTORS, *_AGENT_VECTORS):
        if name in truth.values:
            value, draws = np.asarray(truth.values[name]), getattr(fit.point, name)
            if value.ndim:
                name, value, draws = f"{name}[0]", value[0], draws[..., 0]
            ranks[name] = int(rank_among(draws, value, kept=KEPT))
    for name, (draws, value) in _derived(fit, truth).items():
        ranks[name] = int(rank_among(draws, np.asarray(value), kept=KEPT))
    return ranks


def _derived(fit: HorizonFit, truth: FullTruth) -> dict[str, tuple[np.ndarray, float]]:
    """Return draws (chain, draw) and truths of what people read off a fit, and the log likelihood.

    The log likelihood of all data [1]_ finds a posterior that leaves a part of them out.

    References
    ----------
    .. [1] Modrak and others (2023), Bayesian Analysis, doi:10.1214/23-BA1404.
    """
    shape, options = fit.point.mu_global.shape, fit.options
    estimate = estimate_of_fit(fit)
    found = {}
    for name, success, kind in (("p50", 0.5, "typical"), ("p80_marginal", 0.8, "marginal")):
        of = truth.log2_typical if kind == "typical" else truth.log2_marginal
        log2 = estimate.log2_horizons(success, kind=kind)[:, 0].reshape(shape)
        found[f"log2_{name}[0]"] = bounded(log2), float(bounded(of(success))[0])
    if options.trend == "linear":
        rate, level = fit.point.trend_rate, fit.point.trend_level
        assert rate is not None
        assert level is not None
        found["doublings_a_year"] = rate, truth.values["trend_rate"]
        of_truth = (_WORK_DAY_LOG2 - truth.values["trend_level"]) / truth.values["trend_rate"]
        found["years_to_8_hours"] = (_WORK_DAY_LOG2 - level) / rate, of_truth
    values = {name: np.asarray(value)[None, None] for name, value in truth.values.items()}
    likelihood = {
        of: np.sum(
            [part.sum(axis=-1) for part in log_likelihoods(fit.design, options, at).values()],
            axis=0,
        )
        for of, at in (("draws", fit.point), ("truth", Point(**values)))
    }
    found["log_likelihood"] = likelihood["draws"], float(likelihood["truth"][0, 0])
    return found


def run_study(study: str, *, fits: int = FITS) -> dict[str, np.ndarray]:
    """Return the ranks of every watched parameter, one entry a fit."""
    found = parallel_map(
        ranks_of_one_fit,
        [(study, seed) for seed in range(fits)],
        label=f"calibration fits, {study}",
        progress=LineProgress(),
    )
    return {name: np.array([row[name] for row in found]) for name in found[0]}


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or STUDIES:
        ranks = run_study(name)
        draw(ranks, target / f"sbc_full_{name}")
        share = float(ranks["converged"].mean())
        print(name, json.dumps({**p_values(ranks), "without divergences": share}), flush=True)
