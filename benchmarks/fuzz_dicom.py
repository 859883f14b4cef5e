"""Mutated DICOM series against the reader: no crash, no hang, faults named.

Memory is bounded by the limit that each process sets itself; tests/unit/fvc/scans/test_workers.py
holds it to that.

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

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
BATCH = 20  # measured by one process after another, so their time bounds that of each
MOST_SECONDS = 30.0


def main(n: int, seed: int) -> int:
    from dicom_mutations import mutate_series
    from tidegauge.fvc.scans.cache import scan_features
    from tidegauge.simulate.phantoms import write_phantom

    outcomes: collections.Counter[str] = collections.Counter()
    worst_seconds = 0.0
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "source"
        rng = np.random.default_rng(seed)
        write_phantom(
            source, lung_volume_ml=3000, fibrosis_fraction=0.2, rng=rng, slices=8, size=64
        )
        for start in range(0, n, BATCH):
            folder = Path(place) / f"batch{start}"
            how = {f"S{k}": mutate_series(source, folder / f"S{k}", rng) for k in range(BATCH)}
            began = time.monotonic()
            found = scan_features(folder, list(how), workers=1)
            worst_seconds = max(worst_seconds, time.monotonic() - began)
            told = {text.partition(":")[0]: text for text in found.warnings}
            for name, (mutation, _) in how.items():
                is_known = bool(found.table.loc[name].notna().any())
                outcome = "measured" if is_known else "refused" if name in told else "SILENT"
                if "process that read it died" in told.get(name, ""):
                    outcome = "process died, named"
                outcomes[f"{mutation}: {outcome}"] += 1
            shutil.rmtree(folder)
    for name, count in sorted(outcomes.items()):
        print(f"{name:45s} {count}")
    print(f"slowest {BATCH} series {worst_seconds:.1f} s")
    silent = sum(count for name, count in outcomes.items() if "SILENT" in name)
    return int(silent > 0 or worst_seconds > MOST_SECONDS)


if __name__ == "__main__":
    arguments = [int(text) for text in sys.argv[1:]]
    raise SystemExit(main(*(arguments + [1000, 1][len(arguments) :])))
