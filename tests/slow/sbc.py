"""Simulation-based calibration of the core model: 500 truths from the prior, 500 fits.

Run as a script it draws the rank histograms: ``python tests/slow/sbc.py docs/figures``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from designs import draw_design, prior_truth
from ranks import rank_among, uniformity_p_value
from tidegauge.engine.config import SamplerConfig
from tidegauge.engine.parallel import parallel_map
from tidegauge.horizon.sampler.fit import fit_horizon
from tidegauge.progress import LineProgress

FITS, KEPT = 500, 99
SCALARS = ("mu_global", "sigma_global", "sigma_family", "sigma_human", "sigma_estimate")
SAMPLER = SamplerConfig(draws=1000, tune=500, chains=2, target_accept=0.95, cores=1)


def ranks_of_one_fit(seed: int) -> dict[str, float]:
    """Draw a truth and data, fit them, and rank the truth among the draws."""
    rng = np.random.default_rng([4, seed])
    truth = prior_truth(rng, n_agents=3, n_tasks=10, n_families=4)
    design = draw_design(truth, rng, runs_per_cell=5, human_runs=3)
    fit = fit_horizon(design, sampler=SAMPLER, patient=False)
    names = {name: (getattr(fit.point, name), getattr(truth, name)) for name in SCALARS}
    for a in range(2):  # exchangeable: two of the three agents
        names[f"alpha[{a}]"] = (fit.point.alpha[..., a], truth.alpha[a])
        names[f"beta[{a}]"] = (fit.point.beta[..., a], truth.beta[a])
    names["mu_task[0]"] = (fit.point.mu_task[..., 0], truth.mu_task[0])
    ranks = {
        name: int(rank_among(draws, np.asarray(value), kept=KEPT))
        for name, (draws, value) in names.items()
    }
    return {**ranks, "converged": fit.diagnosis.divergences == 0}


def run_study() -> dict[str, np.ndarray]:
    """Return the ranks of every watched parameter, one entry a fit."""
    found = parallel_map(
        ranks_of_one_fit, range(FITS), label="calibration fits", progress=LineProgress()
    )
    return {name: np.array([row[name] for row in found]) for name in found[0]}


def p_values(ranks: dict[str, np.ndarray]) -> dict[str, float]:
    return {
        name: uniformity_p_value(values, kept=KEPT)
        for name, values in ranks.items()
        if name != "converged"
    }


def draw(ranks: dict[str, np.ndarray], path: Path) -> None:
    """Save the rank histograms with the band that 99 % of right ones stay in, and the p-values."""
    import altair as alt
    import pandas as pd
    from scipy.stats import binom

    from tidegauge.report.charts import ACCENT, MUTED, save_chart

    bins, blocks, values = 20, [], p_values(ranks)
    fits = ranks["converged"].size
    low, high = binom.ppf([0.005, 0.995], fits, 1 / bins)
    for name, p in values.items():
        counts = np.bincount(ranks[name] * bins // (KEPT + 1), minlength=bins)
        title = f"{name}, p = {p:.2f}"
        blocks.append(pd.DataFrame({"name": title, "bin": range(bins), "fits": counts}))
    data = pd.concat(blocks).assign(low=low, high=high)
    base = alt.Chart(data).encode(x=alt.X("bin:O", title="rank of the truth", axis=None))
    band = base.mark_area(color=MUTED, opacity=0.3).encode(
        y=alt.Y("low:Q", title="fits"), y2="high:Q"
    )
    bars = base.mark_bar(color=ACCENT, opacity=0.8).encode(y="fits:Q")
    chart = (
        (bars + band)
        .properties(width=200, height=90)
        .facet(
            facet=alt.Facet("name:N", title=None), columns=4, title=f"{fits} fits of prior draws"
        )
    )
    save_chart(chart, path)
    path.with_suffix(".json").write_text(json.dumps(values, indent=1) + "\n")


if __name__ == "__main__":
    study = run_study()
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    draw(study, target / "sbc_core")
    print(json.dumps({**p_values(study), "without divergences": float(study["converged"].mean())}))
