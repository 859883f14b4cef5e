"""Mutated DICOM series against the reader: no crash, no hang, little memory, faults named.

Each series is measured as `fvc` measures scans: in a process with limits, which may die. The
process itself says its largest memory and the CPU time of a series; of one that dies the limit it
had set itself holds (tests/unit/fvc/scans/test_workers.py).

Usage: python benchmarks/fuzz_dicom.py [N] [SEED]; `make fuzz-dicom` runs 1,000. Ends with exit
code 1 if a series was neither measured nor refused with a reason, or cost too much.
"""

from __future__ import annotations

import collections
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
BATCH = 20  # series for one process after another
MOST_SECONDS, MOST_MEMORY_MIB = 30.0, 1024.0


class Outcome(NamedTuple):
    """What became of one series, and what its process had cost by then."""

    features: int
    reason: str
    cpu_seconds: float
    peak_memory_mib: float


def measure(folder: Path) -> Outcome:
    """Measure one series in this process."""
    from tidegauge.fvc.scans.scan import scan
    from tidegauge.fvc.scans.series import ScanError
    from tidegauge.fvc.scans.workers import limit_cpu

    limit_cpu(sum(1 for path in folder.rglob("*") if path.is_file()))
    began = time.process_time()
    try:
        measured = scan(folder).measured
        values = np.array(list(measured.values.values()))
        features, reason = int(np.isfinite(values).sum()), "; ".join(measured.warnings)
    except ScanError as error:
        features, reason = 0, str(error)
    return Outcome(features, reason, time.process_time() - began, peak_memory_mib())


def peak_memory_mib() -> float:
    """Of this process since it began; getrusage would count what its parent held."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main(n: int, seed: int) -> int:
    from dicom_mutations import mutate_series
    from tidegauge.fvc.scans.series import ScanError
    from tidegauge.fvc.scans.workers import map_in_workers
    from tidegauge.simulate.phantoms import write_phantom

    outcomes: collections.Counter[str] = collections.Counter()
    told: list[Outcome] = []
    slowest_seconds = 0.0
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "source"
        rng = np.random.default_rng(seed)
        write_phantom(
            source, lung_volume_ml=3000, fibrosis_fraction=0.2, rng=rng, slices=8, size=64
        )
        for start in range(0, n, BATCH):
            folder = Path(place) / f"batch{start}"
            folders = [folder / f"S{k}" for k in range(min(BATCH, n - start))]
            mutations = [mutate_series(source, one, rng)[0] for one in folders]
            began = time.monotonic()
            for index, found in map_in_workers(measure, folders, workers=1):
                if isinstance(found, ScanError):
                    outcome = f"stopped, named ({str(found)[:60]})"
                else:
                    told.append(found)
                    outcome = "measured" if found.features else "refused"
                    outcome = outcome if found.features or found.reason else "SILENT"
                outcomes[f"{mutations[index]}: {outcome}"] += 1
            slowest_seconds = max(slowest_seconds, time.monotonic() - began)
            shutil.rmtree(folder)
    for name, count in sorted(outcomes.items()):
        print(f"{name:60s} {count}")
    peak_mib = max(one.peak_memory_mib for one in told)
    seconds = max(one.cpu_seconds for one in told)
    n_stopped = sum(count for name, count in outcomes.items() if "stopped" in name)
    n_silent = sum(count for name, count in outcomes.items() if "SILENT" in name)
    print(f"{sum(outcomes.values())} series; {n_silent} neither measured nor refused with a reason")
    print(f"largest memory of a process {peak_mib:.0f} MiB; {n_stopped} stopped or out of memory")
    print(f"slowest series {seconds:.1f} s of CPU; slowest {BATCH} {slowest_seconds:.1f} s in all")
    return int(n_silent > 0 or seconds > MOST_SECONDS or peak_mib > MOST_MEMORY_MIB)


if __name__ == "__main__":
    arguments = [int(text) for text in sys.argv[1:]]
    raise SystemExit(main(*(arguments + [1000, 1][len(arguments) :])))
