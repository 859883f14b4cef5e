"""Seconds and memory of one CT scan: 100 slices of 512 x 512 read, segmented and measured.

Each storage format is measured in a process of its own on one core, five times. The fastest run
counts, for whatever else the machine does can only add to it.
Writes benchmarks/results/scans.json and docs/performance-scans.md.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
SEED = 90  # of a phantom that happens to have exactly 100 slices of 512 x 512
FORMATS = ("plain", "RLE", "JPEG 2000")
REPEATS = 5
MOST_SECONDS, MOST_MEMORY_MIB = 4.0, 1024.0


def write_scan(folder: Path) -> float:
    """Write the scan in every format; return its true lung volume."""
    import pydicom
    from pydicom.uid import JPEG2000Lossless, RLELossless

    from tidegauge.simulate.phantoms import write_phantom

    volume_ml = write_phantom(
        folder / "plain",
        lung_volume_ml=4000,
        fibrosis_fraction=0.3,
        rng=np.random.default_rng(SEED),
        slices=100,
        size=512,
    )
    for name, syntax in (("RLE", RLELossless), ("JPEG 2000", JPEG2000Lossless)):
        (folder / name).mkdir()
        for path in (folder / "plain").iterdir():
            dataset = pydicom.dcmread(path)
            dataset.compress(syntax, generate_instance_uid=False)
            dataset.save_as(folder / name / path.name)
    return volume_ml


def measure(folder: Path) -> dict[str, float]:
    """Measure one scan in this process, stage by stage."""
    from tidegauge.fvc.scans.dicom import read_scan
    from tidegauge.fvc.scans.features import measure_lungs
    from tidegauge.fvc.scans.segmentation import segment_lungs

    wall, cpu = [time.perf_counter()], [time.process_time()]

    def lap() -> None:
        wall.append(time.perf_counter())
        cpu.append(time.process_time())

    volume = read_scan(folder)
    lap()
    lungs = segment_lungs(volume)
    lap()
    values = measure_lungs(volume, lungs).values
    lap()
    n_slices, rows, columns = volume.hu.shape
    assert (n_slices, rows, columns) == (100, 512, 512), volume.hu.shape
    names = ("read", "segment", "measure")
    stages = {f"{k}_seconds": cpu[i + 1] - cpu[i] for i, k in enumerate(names)}
    return stages | {
        "wall_seconds": wall[-1] - wall[0],
        "cpu_seconds": cpu[-1] - cpu[0],
        "peak_memory_mib": peak_memory_mib(),
        "lung_volume_ml": values["lung_volume_ml"],
    }


def peak_memory_mib() -> float:
    """Of this process since it began; getrusage would count what its parent held at the fork."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def measure_apart(folder: Path) -> dict[str, float]:
    """Measure in a fresh process on one core, so that memory is the scan's own."""
    one_core = dict(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    done = subprocess.run(
        [sys.executable, __file__, "--measure", str(folder)],
        env={**os.environ, **one_core},
        capture_output=True,
        text=True,
        check=True,
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def best_of(runs: list[dict[str, float]]) -> dict[str, float]:
    fastest = min(runs, key=lambda run: run["wall_seconds"])
    peak_mib = max(run["peak_memory_mib"] for run in runs)
    return {name: round(value, 4) for name, value in fastest.items()} | {
        "peak_memory_mib": round(peak_mib, 1)
    }


def table(results: dict[str, dict[str, float]]) -> str:
    lines = [
        "| stored as | read | segment | measure | all | wall | peak memory | volume error |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, r in results.items():
        lines.append(
            f"| {name} | {r['read_seconds']:.2f} | {r['segment_seconds']:.2f} | "
            f"{r['measure_seconds']:.2f} | {r['cpu_seconds']:.2f} | {r['wall_seconds']:.2f} | "
            f"{r['peak_memory_mib']:.0f} MiB | {100 * r['volume_error']:+.2f} % |"
        )
    return "\n".join(lines)


# One run each of the program before and after its segmentation was regrown on real scans, same
# machine and files; CPU seconds of reading, finding and measuring.
BEFORE = """\
Real scans, before and after the segmentation was regrown on people (one run each; the scans are
not part of the project):

| scan | slices | CPU s before | after | MiB before | after | ml before | after |
|---|---|---|---|---|---|---|---|
| Lung-PET-CT-Dx a0001, interpolated to 1 mm | 320 | 4.0 | 5.8 | 506 | 589 | 7,003 | 5,710 |
| a0001, soft kernel | 64 | 1.4 | 1.8 | 221 | 241 | 8,699 | 5,606 |
| a0001, sharp kernel | 64 | 1.5 | 2.3 | 221 | 275 | 6,771 | 5,588 |
| OSIC ID00419, part, in a frame | 10 | 0.7 | 0.9 | 149 | 198 | 4,992 | 1,041 |
| OSIC ID00007, part, with a gap | 20 | 0.2 | 0.4 | 112 | 147 | 1,041 (10 slices) | 1,507 |
"""


def write_page(results: dict[str, dict[str, float]], day: str) -> str:
    page = f"""\
# Performance of scan features

One CT scan of 100 slices of 512 x 512 pixels (a phantom with 30 % fibrosis) on one core:
the fastest of {REPEATS} runs, each in a fresh process; memory is the largest of them.
Stages and their sum are seconds of CPU; wall seconds hold whatever else was running.
The aim for plain files is under {MOST_SECONDS:g} s and {MOST_MEMORY_MIB:g} MiB.

{table(results)}

{BEFORE}
Compressed scans cost what their decoder costs. Measured on {day} with
Python {platform.python_version()} by `python benchmarks/bench_scans.py`.
"""
    (ROOT / "docs").mkdir(exist_ok=True)
    (ROOT / "docs" / "performance-scans.md").write_text(page)
    return page


def main() -> int:
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(Path(sys.argv[2]))))
        return 0
    with tempfile.TemporaryDirectory() as place:
        true_ml = write_scan(Path(place))
        results = {
            name: best_of([measure_apart(Path(place) / name) for _ in range(REPEATS)])
            for name in FORMATS
        }
    for result in results.values():
        result["volume_error"] = round(result["lung_volume_ml"] / true_ml - 1, 5)
    plain = results["plain"]
    passed = plain["cpu_seconds"] < MOST_SECONDS and plain["peak_memory_mib"] < MOST_MEMORY_MIB
    record = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "slices": 100,
        "size": 512,
        "repeats": REPEATS,
        "limits": {"cpu_seconds": MOST_SECONDS, "peak_memory_mib": MOST_MEMORY_MIB},
        "passed": passed,
        "results": results,
    }
    out = ROOT / "benchmarks" / "results" / "scans.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(record, indent=2) + "\n")
    page = write_page(results, record["when"][:10])
    print(page)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
