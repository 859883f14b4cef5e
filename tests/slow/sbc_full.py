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

from full_designs import draw_full_design, full_prior_truth, scalar_names
from ranks import rank_among
from tidegauge.engine.config import SamplerConfig
from tidegauge.engine.parallel import parallel_map
from tidegauge.engine.priors import gamma, normal
from tidegauge.horizon.model.options import DEFAULT_PRIORS, HorizonOptions, HorizonPriors
from tidegauge.horizon.sampler.fit import fit_horizon
from tidegauge.progress import LineProgress

FITS = 300
SAMPLER = SamplerConfig(draws=500, tune=300, chains=2, target_accept=0.95, cores=1)

# A few agents far beyond all tasks say nothing of what they share: under these priors they do not
# lie there, and they do differ. Calibration holds for any prior that truth and fit have in common.
AMONG_TASKS = dataclasses.replace(
    DEFAULT_PRIORS,
    mu_global=normal(5, 1),
    sigma_horizon=gamma(mean=1, sd=0.4),
    sigma_group_horizon=gamma(mean=1, sd=0.4),
    mu_slope=normal(-0.4, 0.3),
    sigma_slope=gamma(mean=0.4, sd=0.15),
    sigma_group_slope=gamma(mean=0.4, sd=0.15),
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


# Every option in one of them. Continuous scores have a likelihood but no way to be drawn from it,
# so they are not here.
STUDIES = {
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
_AGENT_VECTORS = ("group_horizon", "group_slope", "alpha", "beta")


def ranks_of_one_fit(item: tuple[str, int]) -> dict[str, float]:
    """Draw a truth and data, fit them, and rank the truth among the draws."""
    name, seed = item
    study = STUDIES[name]
    options, priors = study.options, study.priors
    rng = np.random.default_rng([list(STUDIES).index(name), seed])
    truth = full_prior_truth(
        rng, options=options, priors=priors, n_agents=study.n_agents, n_tasks=8, n_families=3
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
    return ranks


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
