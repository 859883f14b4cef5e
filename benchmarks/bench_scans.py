"""Seconds and memory of CT scans that are read, segmented and measured.

A phantom of 100 slices of 512 x 512 in three storage formats, each in a process of its own on one
core, several times; the run with the least CPU time counts, for whatever else the machine does can
only add to it. With ``--before SRC``, the ``src`` folder of an older version, real scans below
TIDEGAUGE_REALDATA are measured by that version and this one in turn.

Writes benchmarks/results/scans.json and docs/performance-scans.md; what was not measured stays on
the page as it was.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "performance-scans.md"
SEED = 90  # of a phantom that happens to have exactly 100 slices of 512 x 512
FORMATS = ("plain", "RLE", "JPEG 2000")
REPEATS, REAL_REPEATS = 5, 3
MOST_SECONDS, MOST_MEMORY_MIB = 4.0, 1024.0
REAL = {
    "a0001_1mm": "Lung-PET-CT-Dx a0001, interpolated to 1 mm",
    "a0001_soft": "a0001, soft kernel",
    "a0001_sharp": "a0001, sharp kernel",
    "ID00419637202311204720264": "OSIC ID00419, part, in a frame",
    "ID00007637202177411956430": "OSIC ID00007, part, with a gap",
}


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
    assert len(list((folder / "plain").iterdir())) == 100
    for name, syntax in (("RLE", RLELossless), ("JPEG 2000", JPEG2000Lossless)):
        (folder / name).mkdir()
        for path in (folder / "plain").iterdir():
            dataset = pydicom.dcmread(path)
            dataset.compress(syntax, generate_instance_uid=False)
            dataset.save_as(folder / name / path.name)
    return volume_ml


def write_millimetres(source: Path, folder: Path) -> None:
    """Write a scan again with slices 1 mm apart, interpolated."""
    import pydicom

    slices = sorted(
        (pydicom.dcmread(path) for path in source.iterdir()),
        key=lambda one: -float(one.ImagePositionPatient[2]),
    )
    heights = np.array([float(one.ImagePositionPatient[2]) for one in slices])
    folder.mkdir()
    for number, height in enumerate(np.arange(heights[0], heights[-1] - 4.5, -1.0)):
        place = float(np.interp(-height, -heights, np.arange(len(heights))))
        low, share = int(place), place - int(place)
        images = [slices[min(k, len(slices) - 1)].pixel_array for k in (low, low + 1)]
        one = copy.deepcopy(slices[low])
        mixed = np.rint((1 - share) * images[0] + share * images[1])
        one.PixelData = mixed.astype(images[0].dtype).tobytes()
        x, y, _ = one.ImagePositionPatient
        one.ImagePositionPatient, one.SliceThickness = [x, y, round(float(height), 3)], 1
        one.SliceLocation, one.InstanceNumber = round(float(height), 3), number + 1
        one.save_as(folder / f"{number:03d}.dcm")


def measure(folder: Path) -> dict[str, float]:
    """Measure one scan in this process, stage by stage."""
    try:
        from tidegauge.fvc.scans.dicom import read_scan
        from tidegauge.fvc.scans.features import measure_lungs
        from tidegauge.fvc.scans.segmentation import segment_lungs
    except ImportError:  # a version from before these had a room of their own
        from tidegauge.fvc.lung_features import measure_lungs
        from tidegauge.fvc.segmentation import segment_lungs

        from tidegauge.fvc.scans import read_scan

    wall, cpu = [time.perf_counter()], [time.process_time()]

    def lap() -> None:
        wall.append(time.perf_counter())
        cpu.append(time.process_time())

    volume = read_scan(folder)
    lap()
    lungs = segment_lungs(volume)
    lap()
    measure_lungs(volume, lungs)
    lap()
    names = ("read", "segment", "measure")
    stages = {f"{k}_seconds": cpu[i + 1] - cpu[i] for i, k in enumerate(names)}
    return stages | {
        "slices": len(volume.hu),
        "wall_seconds": wall[-1] - wall[0],
        "cpu_seconds": cpu[-1] - cpu[0],
        "peak_memory_mib": peak_memory_mib(),
        "lung_volume_ml": lungs.volume_ml,
    }


def peak_memory_mib() -> float:
    """Of this process since it began; getrusage would count what its parent held at the fork."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def measure_apart(folder: Path, source: Path = ROOT / "src") -> dict[str, float]:
    """Measure in a fresh process on one core, so that memory is the scan's own."""
    one_core = dict(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", PYTHONPATH=str(source))
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
    fastest = min(runs, key=lambda run: run["cpu_seconds"])
    peak_mib = max(run["peak_memory_mib"] for run in runs)
    return {name: round(value, 4) for name, value in fastest.items()} | {
        "peak_memory_mib": round(peak_mib, 1)
    }


def measure_formats() -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory() as place:
        true_ml = write_scan(Path(place))
        results = {
            name: best_of([measure_apart(Path(place) / name) for _ in range(REPEATS)])
            for name in FORMATS
        }
    for result in results.values():
        result["volume_error"] = round(result["lung_volume_ml"] / true_ml - 1, 5)
    return results


def measure_real(ct: Path, before: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Measure each real scan by both versions, one after the other."""
    results = {}
    with tempfile.TemporaryDirectory() as place:
        write_millimetres(ct / "a0001_soft", Path(place) / "a0001_1mm")
        for name in REAL:
            folder = next(at / name for at in (Path(place), ct) if (at / name).is_dir())
            pairs = [
                (measure_apart(folder, before), measure_apart(folder)) for _ in range(REAL_REPEATS)
            ]
            old, new = (best_of(list(runs)) for runs in zip(*pairs, strict=True))
            results[name] = {"before": old, "after": new}
    return results


def format_table(results: dict[str, dict[str, float]]) -> str:
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


def real_table(results: dict[str, dict[str, dict[str, float]]]) -> str:
    lines = [
        "| scan | slices | CPU s before | after | MiB before | after | ml before | after |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, pair in results.items():
        old, new = pair["before"], pair["after"]
        read = "" if old["slices"] == new["slices"] else f" ({old['slices']:.0f} slices)"
        lines.append(
            f"| {REAL[name]} | {new['slices']:.0f} | {old['cpu_seconds']:.1f} | "
            f"{new['cpu_seconds']:.1f} | {old['peak_memory_mib']:.0f} | "
            f"{new['peak_memory_mib']:.0f} | {old['lung_volume_ml']:,.0f}{read} | "
            f"{new['lung_volume_ml']:,.0f} |"
        )
    return "\n".join(lines)


def kept_section() -> str:
    """Return what the page says of real scans already."""
    found = re.search(r"<!-- real -->\n(.*)<!-- /real -->", PAGE.read_text(), re.DOTALL)
    return found[1] if found else ""


def write_page(results: dict[str, dict[str, float]], real: str, day: str) -> str:
    page = f"""\
# Performance of scan features

One CT scan of 100 slices of 512 x 512 pixels (a phantom with 30 % fibrosis) on one core:
the run of {REPEATS} with the least CPU time, each in a fresh process; memory is the largest of all.
Stages and their sum are seconds of CPU; wall seconds hold whatever else was running.
The aim for plain files is under {MOST_SECONDS:g} s and {MOST_MEMORY_MIB:g} MiB.

{format_table(results)}

Compressed scans cost what their decoder costs.

<!-- real -->
{real}<!-- /real -->

Measured on {day} with Python {platform.python_version()} by `python benchmarks/bench_scans.py`.
"""
    PAGE.write_text(page)
    return page


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", type=Path, help="measure one scan and print it as JSON")
    parser.add_argument("--before", type=Path, help="the src folder of an older version")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return 0
    when = datetime.now(UTC).isoformat(timespec="seconds")
    real_data = os.environ.get("TIDEGAUGE_REALDATA")
    real, section = {}, kept_section()
    if options.before and real_data:
        real = measure_real(Path(real_data) / "ct", options.before)
        section = (
            "Real scans, before and after the segmentation was regrown on people (the run of "
            f"{REAL_REPEATS} with the\nleast CPU time, the two versions in turn, {when[:10]}; the "
            f"scans are not part of the project):\n\n{real_table(real)}\n"
        )
    results = measure_formats()
    plain = results["plain"]
    passed = plain["cpu_seconds"] < MOST_SECONDS and plain["peak_memory_mib"] < MOST_MEMORY_MIB
    record = {
        "when": when,
        "python": platform.python_version(),
        "slices": 100,
        "size": 512,
        "repeats": REPEATS,
        "limits": {"cpu_seconds": MOST_SECONDS, "peak_memory_mib": MOST_MEMORY_MIB},
        "passed": passed,
        "results": results,
        "real": real,
    }
    out = ROOT / "benchmarks" / "results" / "scans.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(record, indent=2) + "\n")
    print(write_page(results, section, when[:10]))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
