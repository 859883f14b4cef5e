"""What each layer of the sampler's coordinates gives: an ablation.

    python benchmarks/bench_coordinates.py --runs runs.jsonl --release-dates dates.yaml
    python benchmarks/bench_coordinates.py ... --write   # also into docs/coordinates.md

Every row samples the same posterior: in the model's own (centred) coordinates with a diagonal or a
low-rank metric, then in coordinates with one more layer each. Cases: the file with core, the file
with full, the file with core pooled by lab and on a linear trend, and simulated runs of the
published scale with core. Layers are taken away by their constants, so all rows run the same code;
the partial centring of groups' levels has none and stays on in all but the centred rows.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import math
import re
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
from numba import types

from tidegauge.engine.config import SamplerConfig
from tidegauge.engine.diagnostics import diagnose
from tidegauge.engine.sampling import LogDensity, sample_density
from tidegauge.horizon.data.agents import with_agent_facts
from tidegauge.horizon.data.counts import read_tally
from tidegauge.horizon.data.design import Design, build_design
from tidegauge.horizon.density.buffer import length_of, pack_data
from tidegauge.horizon.density.joint import log_density
from tidegauge.horizon.model.options import CORE, FULL, HorizonOptions
from tidegauge.horizon.model.parameters import layout_of, unpack
from tidegauge.horizon.result import posterior_of
from tidegauge.horizon.sampler.expansion import Reference
from tidegauge.horizon.sampler.target import Problem, middle_of, to_centred, whitened_density
from tidegauge.horizon.store.fit_folder import read_release_dates
from tidegauge.simulate.records import write_simulation
from tidegauge.simulate.runs import PUBLISHED, simulate_runs

warnings.simplefilter("ignore")

PAGE = Path(__file__).parents[1] / "docs" / "coordinates.md"
BEGIN, END = "<!-- ablation -->\n", "<!-- end of ablation -->\n"
LOW_RANK, DIAGONAL = True, False


def without_levels(reference: Reference) -> Reference:
    """Leave the logits of agents with a shared prior where the agents' matrix puts them."""
    nothing = np.zeros_like(reference.expansion.runs_variance)
    return reference._replace(expansion=reference.expansion._replace(runs_variance=nothing))


def without_agents(problem: Problem, reference: Reference) -> Reference:
    """Let an agent be its intercept and s of its slope, each by itself, about the same point."""
    point = unpack(reference.x, layout_of(problem.design, problem.options))
    plain = without_levels(reference).expansion
    n = plain.pivot.size
    alone = plain._replace(
        pivot=np.zeros(n),
        center=np.concatenate([point.alpha, plain.center[n:]]),
        root=np.eye(2 * n),
        shared_pull=np.zeros_like(plain.shared_pull),
        shared_root=np.eye(plain.shared.size),
    )
    return reference._replace(expansion=alone)


def _centred_for_nutpie(n, x_, gradient_, logp_, data_):  # type: ignore[no-untyped-def]
    x, gradient = numba.carray(x_, (n,)), numba.carray(gradient_, (n,))
    logp_[0] = log_density(x, gradient, numba.carray(data_, (length_of(data_),)))
    return 0 if math.isfinite(logp_[0]) else 1


@functools.cache
def _centred_function() -> object:
    pointer = types.CPointer(types.float64)
    return numba.cfunc(types.int64(types.uint64, *[pointer] * 4))(_centred_for_nutpie)


def centred_density(problem: Problem, whitened: LogDensity, x: np.ndarray) -> LogDensity:
    """Return the density in the model's own unconstrained coordinates, begun about a point."""
    return LogDensity(
        function=_centred_function(),
        identity=whitened.identity,
        data=pack_data(problem.design, problem.priors, problem.options),
        size=x.size,
        initial=lambda seed: x + np.random.default_rng(seed).normal(0, 0.1, x.size),
    )


def measure(problem: Problem, sampler: SamplerConfig) -> list[dict[str, object]]:
    """Sample one case in all coordinates."""
    _, pilot = problem.expanded_at(problem.start())
    quick = dataclasses.replace(sampler, draws=100, tune=200, target_accept=0.8)
    reference, full = problem.expanded_at(middle_of(pilot, sample_density(pilot, quick)))
    centred = centred_density(problem, full, reference.x)
    whitened = functools.partial(whitened_density, problem.design, problem.priors, problem.options)
    rows: list[tuple[str, LogDensity, bool, Callable[[np.ndarray], np.ndarray]]] = [
        ("centred, diagonal metric", centred, DIAGONAL, lambda z: z),
        ("centred, low-rank metric", centred, LOW_RANK, lambda z: z),
    ]
    for name, shaped, metric in (
        ("+ tree, diagonal metric", without_agents(problem, reference), DIAGONAL),
        ("+ tree, low-rank metric", without_agents(problem, reference), LOW_RANK),
        ("+ agents, diagonal metric", without_levels(reference), DIAGONAL),
        ("+ scatter, diagonal metric", reference, DIAGONAL),
    ):
        density = whitened(shaped)
        rows.append((name, density, metric, functools.partial(to_centred, density)))
    found = []
    for name, density, low_rank, to_own in rows:
        began = time.process_time()  # of all chains' threads: other load does not count
        draws = sample_density(density, sampler, low_rank=low_rank)
        seconds = time.process_time() - began
        point = unpack(to_own(draws.position), layout_of(problem.design, problem.options))
        diagnosis = diagnose(posterior_of(problem.design, problem.options, point, draws))
        ess = float(diagnosis.parameters["ess_bulk"].fillna(0).min())
        found.append(
            {
                "coordinates": name,
                "min ESS": f"{ess:.0f}",
                "CPU seconds": f"{seconds:.1f}",
                "ESS/CPU s": f"{ess / seconds:.3g}",
                "steps a draw": f"{draws.statistics['n_steps'].mean():.0f}",
                "divergences": str(diagnosis.divergences),
                "R-hat": f"{diagnosis.parameters['r_hat'].fillna(np.inf).max():.3f}",
            }
        )
        print(found[-1], flush=True)
    return found


def cases(runs: Path, dates: Path, work: Path) -> dict[str, tuple[Design, HorizonOptions]]:
    """Return the designs and models that are sampled."""
    design = build_design(read_tally([runs]))
    dated = with_agent_facts(design, dates=read_release_dates(dates))
    write_simulation(simulate_runs(PUBLISHED, seed=7), work / "data")
    simulated = build_design(read_tally([work / "data" / "runs.jsonl"]))
    pooled = dataclasses.replace(CORE, pooling="lab", trend="linear")
    return {
        f"{runs.name}, core": (design, CORE),
        "simulated at the published scale, core": (simulated, CORE),
        f"{runs.name}, full": (design, FULL),
        f"{runs.name}, core pooled by lab on a linear trend": (dated, pooled),
    }


def markdown(case: str, rows: list[dict[str, object]]) -> str:
    """Return one case as a table."""
    names = list(rows[0])
    lines = [f"**{case}**", "", f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    lines += [f"| {' | '.join(str(row[name]) for name in names)} |" for row in rows]
    return "\n".join(lines) + "\n"


def write_page(text: str) -> None:
    """Replace the table in docs/coordinates.md."""
    page = PAGE.read_text()
    assert BEGIN in page, f"{PAGE}: no {BEGIN.strip()}"
    found = re.sub(f"{BEGIN}.*?{END}", lambda _: f"{BEGIN}\n{text}\n{END}", page, flags=re.S)
    PAGE.write_text(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, required=True, help="a file of run records")
    parser.add_argument("--release-dates", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=500, help="a chain, and as many for tuning")
    parser.add_argument("--write", action="store_true", help="also into docs/coordinates.md")
    given = parser.parse_args()
    sampler = SamplerConfig(
        draws=given.draws, tune=given.draws, chains=4, seed=1, target_accept=0.9
    )
    with tempfile.TemporaryDirectory() as folder:
        chosen = cases(given.runs, given.release_dates, Path(folder))
    tables = []
    for case, (design, options) in chosen.items():
        print(case, flush=True)
        tables.append(markdown(case, measure(Problem(design, options=options), sampler)))
        print(tables[-1])
        if given.write:
            write_page("\n".join(tables))


if __name__ == "__main__":
    main()
