"""The segmentation on people: every figure that docs/scans.md gives, from the real scans.

Reads ``ct`` below TIDEGAUGE_REALDATA: two scans with masks drawn by others (masked/*.npz), one
patient in two kernels (a0001_soft, a0001_sharp), parts of two OSIC scans. With ``--before SRC``,
the ``src`` folder of an older version, its masks are held against the plausibility checks.
Prints one line a figure with its limit, and exits 1 if one is missed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tidegauge.fvc.scans.dicom import read_scan
from tidegauge.fvc.scans.features import measure_lungs
from tidegauge.fvc.scans.hounsfield import clear_frame
from tidegauge.fvc.scans.plausibility import Effect, check_lungs
from tidegauge.fvc.scans.segmentation import LEFT, RIGHT, Lungs, segment_lungs
from tidegauge.fvc.scans.series import ScanError, Volume
from tidegauge.simulate.thorax import draw_phantom

Mask = NDArray[np.bool_]
MASKED = ("id001", "id002")
KERNELS = ("a0001_soft", "a0001_sharp")
SCANS = (*MASKED, *KERNELS, "ID00419", "ID00007")
PARTS = {"cut_off": "ID00419", "gap": "ID00007"}  # what is true of scans that are parts

# Run by the older version, whose modules have other names.
DUMP = """
import sys
import numpy as np
from tidegauge.fvc.scans import read_scan
from tidegauge.fvc.segmentation import segment_lungs
from tidegauge.fvc.series import Volume

source, out = sys.argv[1:]
if source.endswith(".npz"):
    with np.load(source) as kept:
        volume = Volume(kept["hu"], tuple(map(float, kept["spacing"])), [])
else:
    volume = read_scan(source)
lungs = segment_lungs(volume)
mask = lungs.mask
for axis, block in enumerate(lungs.blocks):
    mask = mask.repeat(block, axis=axis)
z, y, x = volume.hu.shape
np.savez(out, hu=volume.hu, spacing=volume.spacing_mm, mask=mask[:z, :y, :x])
"""
missed: list[str] = []


@dataclass(frozen=True)
class Scan:
    """One scan, its lungs, and the mask that others drew."""

    name: str
    volume: Volume
    lungs: Lungs
    truth: Mask | None = None


def show(what: str, value: float, passed: bool, limit: str, form: str = ".4f") -> None:
    print(f"{'ok    ' if passed else 'MISSED'} {what}: {value:{form}} ({limit})", flush=True)
    if not passed:
        missed.append(what)


def dice(one: Mask, other: Mask) -> float:
    return float(2 * (one & other).sum() / (one.sum() + other.sum()))


def place(ct: Path, name: str) -> Path:
    return ct / "masked" / f"{name}.npz" if name in MASKED else next(ct.glob(f"{name}*"))


def load(ct: Path, name: str) -> Scan:
    truth = None
    if name in MASKED:
        with np.load(place(ct, name)) as kept:
            volume = Volume(kept["hu"], tuple(map(float, kept["spacing"])))
            truth = kept["mask"]
    else:
        volume = read_scan(place(ct, name))
    return Scan(name, volume, segment_lungs(volume), truth)


def show_masks(scans: dict[str, Scan]) -> None:
    values = []
    for name in MASKED:
        truth = scans[name].truth
        assert truth is not None
        values.append(dice(scans[name].lungs.mask, truth))
        show(f"Dice of {name}", values[-1], values[-1] >= 0.97, "at least 0.97")
    mean = float(np.mean(values))
    show("mean Dice", mean, mean >= 0.98, "at least 0.98")


def show_kernels(scans: dict[str, Scan]) -> None:
    soft, sharp = (scans[name] for name in KERNELS)
    for scan in (soft, sharp):
        ml = scan.lungs.volume_ml
        show(f"{scan.name}, ml", ml, abs(ml / 5600 - 1) < 0.01, "about 5,600", ",.0f")
    apart = sharp.lungs.volume_ml / soft.lungs.volume_ml - 1
    show("sharp against soft", apart, abs(apart) <= 0.01, "within 1 %", "+.2%")
    between = dice(soft.lungs.mask, sharp.lungs.mask)
    show("Dice between kernels", between, between >= 0.985, "at least 0.985")
    one, other = (measure_lungs(scan.volume, scan.lungs).values for scan in (soft, sharp))
    for key in ("low_attenuation_share", "high_attenuation_share", "dense_share"):
        apart = other[key] - one[key]
        show(f"{key}, sharp less soft", apart, abs(apart) <= 0.02, "2 % points", "+.2%")


def show_frame(framed: Scan) -> None:
    hu = framed.volume.hu
    rows, columns = (np.flatnonzero((hu > -1024).any(axis=axes)) for axes in ((0, 2), (0, 1)))
    inner = np.s_[:, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    cropped = segment_lungs(replace(framed.volume, hu=hu[inner].copy()))
    for how, lungs in (("in its frame", framed.lungs), ("cropped", cropped)):
        ml = lungs.volume_ml
        show(f"ID00419 {how}, ml", ml, abs(ml / 1040 - 1) <= 0.05, "1,040 within 5 %", ",.0f")
        share = float((lungs.side == RIGHT).sum() / lungs.mask.sum())
        show(f"ID00419 {how}, share of the right", share, 0.3 < share < 0.7, "both lungs", ".0%")


def changes(volume: Volume) -> dict[str, tuple[Volume, float]]:
    """Return one patient scanned in other ways, and how far the volume may move."""

    def shifted(by: NDArray[np.floating] | float) -> Volume:
        return replace(volume, hu=np.clip(np.rint(volume.hu + by), -1024, 3071).astype(np.int16))

    framed = np.pad(volume.hu, ((0, 0), (20, 20), (20, 20)), constant_values=0)
    for image in framed:
        clear_frame(image)
    z, y, x = volume.spacing_mm
    noise = np.random.default_rng(0).normal(0, 150, volume.hu.shape)
    return {
        "10 mm": (Volume(volume.hu[::2].copy(), (2 * z, y, x)), 0.02),
        "mirrored": (replace(volume, hu=volume.hu[:, :, ::-1].copy()), 0.005),
        "prone": (replace(volume, hu=volume.hu[:, ::-1, ::-1].copy()), 0.005),
        "framed": (replace(volume, hu=framed), 0.005),
        "+40 HU": (shifted(40), 0.02),
        "-40 HU": (shifted(-40), 0.02),
        "noise SD 150": (shifted(noise), 0.02),
    }


def show_changes(scans: dict[str, Scan]) -> list[Scan]:
    """Return the scans that were made, whose masks are right too."""
    made = []
    for name in (*KERNELS, *MASKED):
        for how, (volume, most) in changes(scans[name].volume).items():
            made.append(Scan(f"{name} {how}", volume, segment_lungs(volume)))
            error = made[-1].lungs.volume_ml / scans[name].lungs.volume_ml - 1
            show(f"{name} {how}", error, abs(error) <= most, f"within {most:.1%}", "+.2%")
    return made


def is_refused(volume: Volume) -> bool:
    try:
        return measure_lungs(volume, segment_lungs(volume)).is_refused
    except ScanError:
        return True


def show_abdomens(scans: dict[str, Scan]) -> None:
    for name in (*MASKED, *KERNELS, "ID00007"):
        volume, lungs = scans[name].volume, scans[name].lungs
        areas = lungs.mask.repeat(lungs.blocks[0], axis=0)[: len(volume.hu)].sum(axis=(1, 2))
        below = areas[::-1].cumsum()[::-1] / areas.sum()
        for share in (0.0, 0.02, 0.05, 0.1, 0.2, 0.3):
            first = int(np.argmax(below <= share))
            part = replace(volume, hu=volume.hu[first:], missing_mm=0.0)
            what = f"{name}, last {len(part.hu)} slices, with so much of the lungs"
            show(what, float(below[first]), is_refused(part), "refused", ".1%")


def show_right_masks(scans: list[Scan]) -> None:
    n_flagged = 0
    for scan in scans:
        names = {one.name for one in check_lungs(scan.volume, scan.lungs)}
        if wrong := {name for name in names if PARTS.get(name) != scan.name}:
            print(f"       {scan.name}: {sorted(wrong)}")
            n_flagged += 1
    show(f"right masks flagged, of {len(scans)}", n_flagged, n_flagged == 0, "none", "d")


def show_masks_before(ct: Path, before: Path) -> None:
    for name in SCANS:
        with tempfile.NamedTemporaryFile(suffix=".npz") as kept:
            subprocess.run(
                [sys.executable, "-c", DUMP, str(place(ct, name)), kept.name],
                env={**os.environ, "PYTHONPATH": str(before)},
                check=True,
            )
            with np.load(kept.name) as old:
                hu, spacing, mask = old["hu"].copy(), old["spacing"], old["mask"]
        for image in hu:
            clear_frame(image)
        volume = Volume(hu, tuple(map(float, spacing)))
        lungs = segment_lungs(volume)
        z, y, x = lungs.blocks
        mask = mask[z // 2 :: z, y // 2 :: y, x // 2 :: x]
        room = [(0, n - k) for n, k in zip(lungs.side.shape, mask.shape, strict=True)]
        mask = np.pad(mask, room)
        middle = np.flatnonzero(lungs.body.any(axis=(0, 1))).mean()
        halves = np.where(np.arange(mask.shape[2]) < middle, RIGHT, LEFT)
        side = np.where(mask, halves, 0).astype(np.uint8)
        findings = check_lungs(volume, replace(lungs, side=side))
        refusals = [str(one) for one in findings if one.effect is Effect.REFUSED]
        agreement = dice(mask, lungs.mask)
        print(f"       {name} before: {mask.sum() * lungs.voxel_ml:,.0f} ml, {refusals}")
        if agreement < 0.95:
            show(f"{name}: wrong mask, Dice with ours", agreement, bool(refusals), "refused")


def show_phantoms() -> None:
    errors = []
    for index, fibrosis in enumerate(np.linspace(0.0, 0.65, 60)):
        phantom = draw_phantom(
            lung_volume_ml=1500 + 75 * index,
            fibrosis_fraction=fibrosis,
            rng=np.random.default_rng([7, index]),
            slices=20,
            size=144,
        )
        volume = Volume(np.maximum(phantom.hu, -1024), phantom.spacing_mm)
        errors.append(segment_lungs(volume).volume_ml / phantom.lung_volume_ml - 1)
    share = float(np.mean(np.abs(errors) < 0.05))
    show("phantoms within 5 %", share, share >= 0.95, "at least 95 %", ".1%")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="the src folder of an older version")
    before = parser.parse_args().before
    if not os.environ.get("TIDEGAUGE_REALDATA"):
        print("TIDEGAUGE_REALDATA is not set: there are no real scans to measure")
        return 0
    ct = Path(os.environ["TIDEGAUGE_REALDATA"]) / "ct"
    scans = {name: load(ct, name) for name in SCANS}
    show_masks(scans)
    show_kernels(scans)
    show_frame(scans["ID00419"])
    made = show_changes(scans)
    show_abdomens(scans)
    show_right_masks([*scans.values(), *made])
    if before:
        show_masks_before(ct, before)
    show_phantoms()
    print(f"{len(missed)} missed")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
