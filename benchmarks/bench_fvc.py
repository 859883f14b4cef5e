"""How long `fvc solve` takes on the OSIC table, and how fast the kernel is.

    TIDEGAUGE_REALDATA=folder python benchmarks/bench_fvc.py

Without the real table a simulated one of the same size is used. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from tidegauge.fvc.data.covariates import FeatureScaling
from tidegauge.fvc.data.folder import read_training
from tidegauge.fvc.forecasters.hierarchical import Hierarchical
from tidegauge.fvc.model.density import log_density, make_density
from tidegauge.fvc.model.design import DEFAULT_PRIORS, design_cohort
from tidegauge.fvc.solver import solve
from tidegauge.simulate.osic import simulate_cohort, write_input

CALLS = 2000


def input_folder(scratch: Path) -> tuple[Path, str]:
    real = os.environ.get("TIDEGAUGE_REALDATA")
    if real and (Path(real) / "osic" / "train.csv").is_file():
        return Path(real) / "osic", "osic"
    write_input(simulate_cohort(seed=1), scratch / "input", seed=1)
    return scratch / "input", "simulated"


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder, name = input_folder(Path(place))
        cohort = read_training(folder)
        scaling = FeatureScaling.of(cohort.baselines.features)
        density = make_density(design_cohort(cohort, np.arange(8), scaling), DEFAULT_PRIORS)
        x = density.initial(1)
        gradient = np.empty_like(x)
        log_density(x, gradient, density.data)
        began = time.process_time()
        for _ in range(CALLS):
            log_density(x, gradient, density.data)
        microseconds = (time.process_time() - began) / CALLS * 1e6
        began = time.perf_counter()
        fit = Hierarchical().fit(cohort, seed=1)
        fit_seconds = time.perf_counter() - began
        solution = solve(folder, Path(place) / "submission.csv", seed=1)
    assert solution.standing is not None
    print(
        json.dumps(
            {
                "table": name,
                "cores": os.cpu_count(),
                "load_at_end": os.getloadavg()[0],
                "gradient_microseconds": round(microseconds, 1),
                "hierarchical_fit_seconds": round(fit_seconds, 2),
                "hierarchical_r_hat": round(fit.r_hat, 4),
                "solve_seconds": round(solution.seconds, 1),
                "rows": solution.n_rows,
                "chosen": solution.chosen,
                "nested_score": round(solution.standing.score, 4),
                "nested_score_se": round(solution.standing.score_se, 4),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
