"""The default multiverse, as a user runs it: wall seconds, and CPU seconds of its fits.

    python benchmarks/bench_multiverse.py                    published scale, simulated
    python benchmarks/bench_multiverse.py --runs runs.jsonl  another file

CPU seconds tell more than wall seconds where others use the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

RESULTS = Path(__file__).parent / "results"


def simulated(folder: Path) -> Path:
    command = [sys.executable, "-m", "tidegauge", "horizon", "simulate", "--out", str(folder)]
    subprocess.run([*command, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    return folder / "runs.jsonl"


def measure(runs: Path, out: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "tidegauge", "horizon", "multiverse", str(runs)]
    began = time.perf_counter()
    done = subprocess.run([*command, "--out", str(out)], stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - began
    assert done.returncode in (0, 1), "the command refused the file"
    table = pd.read_csv(out / "multiverse.csv").drop_duplicates("universe")
    by_method = table.groupby("method")["cpu_seconds"]
    return {
        "cores": len(os.sched_getaffinity(0)),
        "load_average": os.getloadavg()[0],
        "universes": len(table),
        "failed": int(table["reason"].notna().sum()),
        "not_converged": int((~table["converged"] & table["reason"].isna()).sum()),
        "wall_seconds": round(seconds, 1),
        "cpu_seconds": round(float(table["cpu_seconds"].sum()), 1),
        **{f"cpu_seconds_{name}": round(float(own.sum()), 1) for name, own in by_method},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = chosen.runs or simulated(Path(folder) / "simulated")
        found = measure(runs, Path(folder) / "out")
    print(json.dumps(found, indent=2))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "multiverse.json").write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
