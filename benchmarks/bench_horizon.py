"""The fit against the same model in plain PyMC: one run, side by side, as ratios.

    python benchmarks/bench_horizon.py                    published scale, about an hour
    python benchmarks/bench_horizon.py --runs runs.jsonl  another file, with p50 compared
    python benchmarks/bench_horizon.py --rows 4000000     a long file: time and memory of our fit
    python benchmarks/bench_horizon.py --model full       the full model's default, both ways

Plain PyMC is one Bernoulli per run and default NUTS: 1,000 tune, 1,000 draws, 2 chains (--draws
takes fewer of both). Data for the full model are simulated from the full model.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pymc as pm

    from tidegauge.horizon.data.design import Design
    from tidegauge.horizon.model.options import HorizonOptions

warnings.simplefilter("ignore")

RESULTS = Path(__file__).parent / "results"


def our_fit(runs: Path, out: Path, cache: Path, model: str) -> dict[str, float]:
    """Run the command in a process of its own, numba's cache empty or not as `cache` is."""
    command = [sys.executable, "-m", "tidegauge", "horizon", "fit", str(runs), "--out", str(out)]
    command += ["--model", model]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    began = time.perf_counter()
    process = subprocess.Popen([*command, "--quiet"], env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    assert os.waitstatus_to_exitcode(status) == 0, "the fit did not converge"
    diagnostics = json.loads((out / "diagnostics.json").read_text())
    return {
        "seconds": seconds,
        "sample_seconds": diagnostics["seconds"]["sample"],
        "ess": diagnostics["ess_bulk_min"],
        "peak_mib": usage.ru_maxrss / 1024,
    }


def plain_model(design: Design, options: HorizonOptions) -> pm.Model:
    """Specify the model the textbook way: one term for every run of an agent."""
    import pymc as pm
    import pytensor.tensor as pt

    from tidegauge.horizon.model.observations import scored_successes
    from tidegauge.horizon.model.specification import build_model

    agent, task = np.nonzero(design.attempts)
    attempts = design.attempts[agent, task].astype(int)
    # A run's share of its cell's score: runs of one cell are alike to the model.
    score = scored_successes(design, options)[agent, task] / attempts
    agent, task, score = (np.repeat(of_cell, attempts) for of_cell in (agent, task, score))
    nothing = np.zeros_like(design.attempts)
    untried = dataclasses.replace(design, attempts=nothing, successes=nothing, score_sum=nothing)
    model = build_model(untried, options=options)
    with model:
        logit = model["alpha"][agent] + model["beta"][agent] * model["mu_task"][task]
        if options.has_residual:
            logit = logit + model["residual"][task]
        pm.Potential("runs", (score * logit - pt.softplus(logit)).sum())
    return model


def plain_pymc(
    runs: Path, model: str, draws: int
) -> tuple[dict[str, float], np.ndarray, list[str]]:
    """Sample the textbook way; return timings and the draws of each agent's log2 p50."""
    import arviz as az
    import pymc as pm

    from tidegauge.horizon.data.counts import read_tally
    from tidegauge.horizon.data.design import build_design
    from tidegauge.horizon.model.options import CORE, FULL

    design = build_design(read_tally([runs]))
    began = time.perf_counter()
    with plain_model(design, FULL if model == "full" else CORE):
        trace = pm.sample(draws, tune=draws, chains=2, cores=2, random_seed=1, progressbar=False)
    seconds = time.perf_counter() - began
    ess = az.ess(trace)
    least = min(float(np.min(ess[name])) for name in ess.data_vars)
    r_hat = az.rhat(trace)
    result = {
        "seconds": seconds,
        "sample_seconds": float(trace.posterior.attrs.get("sampling_time", seconds)),
        "ess": least,
        "r_hat": max(float(np.max(r_hat[name])) for name in r_hat.data_vars),
        "divergences": int(trace.sample_stats["diverging"].sum()),
    }
    log2 = -np.asarray(trace.posterior["alpha"]) / np.asarray(trace.posterior["beta"])
    return result, log2, list(design.agents)


def compare_medians(out: Path, log2: np.ndarray, agents: list[str]) -> list[dict[str, object]]:
    """Return each agent's p50 median by both, and their distance in Monte Carlo errors."""
    import arviz as az

    ours = az.from_netcdf(out / "posterior.nc").posterior
    mine = -np.asarray(ours["alpha"]) / np.asarray(ours["beta"])
    rows: list[dict[str, object]] = []
    for a, agent in enumerate(agents):
        errors = [az.mcse(x[:, :, a], method="quantile", prob=0.5) for x in (mine, log2)]
        medians = [float(np.median(x[:, :, a])) for x in (mine, log2)]
        distance = (medians[0] - medians[1]) / np.hypot(*errors)
        p50 = [2**m for m in medians]
        rows.append({"agent": agent, "ours": p50[0], "pymc": p50[1], "z": float(distance)})
    return rows


def measure(
    runs: Path, work: Path, *, model: str = "core", draws: int | None = 1000
) -> dict[str, object]:
    """Fit ours, plain PyMC (unless `draws` is None), ours again."""
    cache, with_pymc = work / "numba", draws is not None
    cold = our_fit(runs, work / "cold", cache, model)
    found: dict[str, object] = {"machine": platform.processor(), "cold": cold}
    if with_pymc:
        plain, log2, agents = plain_pymc(runs, model, draws)
        found["plain_pymc"] = plain
        found["p50"] = compare_medians(work / "cold", log2, agents)
    warm = our_fit(
        runs, work / "warm", cache, model
    )  # after the long run too: the machine is noisy
    found["warm"] = warm
    if with_pymc:
        rate = np.mean([fit["ess"] / fit["sample_seconds"] for fit in (cold, warm)])
        plain_rate = plain["ess"] / plain["sample_seconds"]
        found["ess_per_second_ratio"] = float(rate / plain_rate)
        found["cold_start_ratio"] = plain["seconds"] * cold["ess"] / plain["ess"] / cold["seconds"]
    return found


def markdown(found: dict[str, object]) -> str:
    """Return the table kept in docs/performance.md."""
    lines = [
        "| | wall s | sampling s | min bulk ESS | ESS/s | peak MiB |",
        "|---|---|---|---|---|---|",
    ]
    names = {"plain_pymc": "plain PyMC", "cold": "horizon fit, cold", "warm": "horizon fit, warm"}
    for key, name in names.items():
        row = found.get(key)
        if isinstance(row, dict):
            peak = f"{row['peak_mib']:.0f}" if "peak_mib" in row else ""
            lines.append(
                f"| {name} | {row['seconds']:.1f} | {row['sample_seconds']:.1f} | "
                f"{row['ess']:.0f} | {row['ess'] / row['sample_seconds']:.3g} | {peak} |"
            )
    for key, text in (
        ("ess_per_second_ratio", "minimum bulk ESS per second, ours over plain PyMC"),
        ("cold_start_ratio", "time to the same ESS, plain PyMC over ours from a cold start"),
    ):
        if key in found:
            lines.append(f"\n{text}: **{found[key]:.0f}**")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, help="a file of run records; simulated otherwise")
    parser.add_argument("--rows", type=int, help="rows to simulate; without plain PyMC if given")
    parser.add_argument("--model", choices=["core", "full"], default="core")
    parser.add_argument("--draws", type=int, default=1000, help="of plain PyMC, and its tuning")
    options = parser.parse_args()
    from tidegauge.simulate.records import write_simulation
    from tidegauge.simulate.runs import PUBLISHED, scaled_shape, simulate_runs

    with tempfile.TemporaryDirectory() as folder:
        runs = options.runs
        if runs is None:
            shape = scaled_shape(rows=options.rows) if options.rows else PUBLISHED
            write_simulation(
                simulate_runs(shape, seed=7, full=options.model == "full"), Path(folder) / "data"
            )
            runs = Path(folder) / "data" / "runs.jsonl"
        draws = options.draws if options.rows is None else None
        found = measure(runs, Path(folder), model=options.model, draws=draws)
    RESULTS.mkdir(exist_ok=True)
    name = "file" if options.runs else f"{options.rows or 'published'}"
    name += "_full" if options.model == "full" else ""
    (RESULTS / f"horizon_{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    print(markdown(found))
    for row in found.get("p50", []):  # type: ignore[attr-defined]
        both = f"ours {row['ours']:>10.4g}  PyMC {row['pymc']:>10.4g}"
        print(f"{row['agent']:<28} {both}  z {row['z']:+.2f}")


if __name__ == "__main__":
    main()
