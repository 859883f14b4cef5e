"""Coverage of horizons under eight truths: a residual or none, cells alike or not, lapses or none.

Run as a script it prints the table of the docs: ``python tests/slow/coverage_truths.py 200``.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from full_designs import draw_full_design, full_usual_truth
from tidegauge.engine.config import SamplerConfig
from tidegauge.engine.parallel import parallel_map
from tidegauge.horizon.horizons.estimate import estimate_of_fit
from tidegauge.horizon.horizons.quantities import bounded
from tidegauge.horizon.model.options import CORE, FULL, HorizonOptions
from tidegauge.horizon.sampler.fit import fit_horizon
from tidegauge.progress import LineProgress

SAMPLER = SamplerConfig(draws=500, tune=300, chains=2, target_accept=0.9, cores=1)
TRUTHS = tuple(product(("none", "family"), ("binomial", "beta_binomial"), (False, True)))
FITTED = {"full": FULL, "core": CORE}
HORIZONS = tuple(product((0.5, 0.8), ("typical", "marginal")))
LEVELS = (0.8, 0.95)


def truth_options(truth: tuple[str, str, bool]) -> HorizonOptions:
    residual, cells, lapses = truth
    return replace(FULL, residual=residual, cells=cells, lapses=lapses)


def covered(item: tuple[tuple[str, str, bool], int]) -> dict[str, np.ndarray]:
    """Return, by method, the share of agents whose interval holds the truth (horizon, level)."""
    truth_of, seed = item
    rng = np.random.default_rng([TRUTHS.index(truth_of), seed])
    truth = full_usual_truth(
        rng, options=truth_options(truth_of), n_agents=6, n_tasks=40, n_families=15
    )
    design = draw_full_design(truth, rng, runs_per_cell=8)
    found = {}
    for name, options in FITTED.items():
        estimate = estimate_of_fit(
            fit_horizon(design, options=options, sampler=SAMPLER, patient=False)
        )
        shares = np.empty((len(HORIZONS), len(LEVELS)))
        for h, (success, kind) in enumerate(HORIZONS):
            of = truth.log2_typical if kind == "typical" else truth.log2_marginal
            draws, true = bounded(estimate.log2_horizons(success, kind=kind)), bounded(of(success))
            for k, level in enumerate(LEVELS):
                low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
                shares[h, k] = np.mean((low <= true) & (true <= high))
        found[name] = shares
    return found


def coverage_table(data_sets: int) -> str:
    """Return the table in Markdown: shares in %, with the standard error over data sets."""
    heads = [f"p{100 * s:g} {kind}, {level:.0%}" for s, kind in HORIZONS for level in LEVELS]
    lines = ["| residual, cells, lapses | method | " + " | ".join(heads) + " |"]
    lines.append("|" + "---|" * (2 + len(heads)))
    items = [(truth, seed) for truth in TRUTHS for seed in range(data_sets)]
    found = parallel_map(covered, items, label="coverage fits", progress=LineProgress())
    for t, truth in enumerate(TRUTHS):
        own = found[t * data_sets : (t + 1) * data_sets]
        for name in FITTED:
            shares = 100 * np.array([one[name].ravel() for one in own])
            errors = shares.std(axis=0, ddof=1) / np.sqrt(data_sets)
            cells = [f"{m:.0f} ± {e:.0f}" for m, e in zip(shares.mean(axis=0), errors, strict=True)]
            said = f"{truth[0]}, {truth[1]}, {'yes' if truth[2] else 'no'}"
            lines.append(f"| {said} | {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(coverage_table(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
