"""One scan read, segmented, measured, drawn and written for a person to see."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegauge.fvc.scans.anatomy import field_of_view
from tidegauge.fvc.scans.dicom import read_scan
from tidegauge.fvc.scans.features import FEATURES, Measured, measure_lungs
from tidegauge.fvc.scans.grid import box_of
from tidegauge.fvc.scans.plausibility import Effect, Person, check_volume
from tidegauge.fvc.scans.segmentation import LEFT, RIGHT, Lungs, segment_lungs
from tidegauge.fvc.scans.series import Volume
from tidegauge.fvc.scans.workers import limit_cpu
from tidegauge.io import atomic_folder

Grey = NDArray[np.uint8]
_WINDOW_HU = (-1250.0, 250.0)
_OUTLINES_RGB = {RIGHT: (245, 158, 11), LEFT: (56, 189, 248)}  # orange and blue
_COLUMNS, _ROWS = 4, 3


@dataclass(frozen=True)
class Scan:
    """A measured scan.

    Attributes
    ----------
    volume : Volume
        Hounsfield units on the patient's axes.
    lungs : Lungs
    measured : Measured
        Features and what speaks against them.
    """

    volume: Volume
    lungs: Lungs
    measured: Measured

    @property
    def volumes_ml(self) -> dict[str, float | None]:
        """Volumes of both lungs, the right and the left, as far as the scan shows them.

        None where it cannot be trusted.
        """
        sides = {"": (RIGHT, LEFT), "right_": (RIGHT,), "left_": (LEFT,)}
        return {
            f"{name}lung_volume_ml": None
            if self.measured.is_refused
            else float(np.isin(self.lungs.side, of).sum()) * self.lungs.voxel_ml
            for name, of in sides.items()
        }

    def mask(self) -> NDArray[np.bool_]:
        """Return both lungs on the grid of the volume."""
        mask = self.lungs.mask
        for axis, block in enumerate(self.lungs.blocks):
            mask = mask.repeat(block, axis=axis)
        z, y, x = self.volume.hu.shape
        return mask[:z, :y, :x]

    def summary(self) -> dict[str, Any]:
        """Return what ``features.json`` holds."""
        values = self.measured.values
        return {
            "trusted": not self.measured.is_refused,
            **{k: None if v is None else round(v, 1) for k, v in self.volumes_ml.items()},
            "features": {k: v if np.isfinite(v) else None for k, v in values.items()},
            "units": {name: feature.unit for name, feature in FEATURES.items()},
            "warnings": [
                {"name": one.name, "text": one.text, "effect": one.effect.value}
                for one in self.measured.findings
            ],
            "notes": self.measured.notes,
        }


def scan(folder: Path | str, *, person: Person = Person()) -> Scan:  # noqa: B008 - frozen
    """Read, segment and measure one CT scan.

    Parameters
    ----------
    folder : path
        DICOM files of one scan, at any depth and of any name, or a single multi-frame file.
    person : Person, optional
        What is known of the patient, to hold the lung volume against.

    Raises
    ------
    ScanError
        It cannot be read, or shows no lungs.

    Examples
    --------
    >>> from tidegauge.fvc import scan
    >>> found = scan("cohort/train/ID1")  # doctest: +SKIP
    >>> found.measured.values["lung_volume_ml"]  # doctest: +SKIP
    """
    volume = read_scan(folder)
    lungs = segment_lungs(volume)
    measured = measure_lungs(volume, lungs)
    measured.findings.extend(check_volume(measured.values["lung_volume_ml"], person))
    return Scan(volume, lungs, measured)


def write_scan(one: Scan, out: Path) -> None:
    """Write ``features.json``, ``mask.npz`` and ``overlay.png``, replacing those of before."""
    with atomic_folder(out) as staging:
        text = json.dumps(one.summary(), indent=2, allow_nan=False)
        (staging / "features.json").write_text(text + "\n", encoding="utf-8")
        np.savez_compressed(
            staging / "mask.npz", mask=one.mask(), spacing_mm=np.array(one.volume.spacing_mm)
        )
        (staging / "overlay.png").write_bytes(overlay_png(one.volume, one.lungs))


def overlay_png(volume: Volume, lungs: Lungs, *, width_px: int = 240) -> bytes:
    """Return twelve slices from apex to base as PNG, the patient's right at the left."""
    volume, lungs = _within_frame(volume, lungs)
    shown = np.flatnonzero(lungs.mask.any(axis=(1, 2)))
    picked = np.rint(np.linspace(shown[0], shown[-1], _COLUMNS * _ROWS)).astype(int)
    tiles = [_tile(volume, lungs, index, width_px) for index in picked]
    rows = [np.hstack(tiles[k : k + _COLUMNS]) for k in range(0, len(tiles), _COLUMNS)]
    return _png(np.vstack(rows))


def slice_png(volume: Volume, lungs: Lungs, *, width_px: int = 240) -> bytes:
    """Return the slice that shows most of the lungs as PNG."""
    volume, lungs = _within_frame(volume, lungs)
    index = int(np.argmax(lungs.mask.sum(axis=(1, 2))))
    return _png(_tile(volume, lungs, index, width_px))


def _within_frame(volume: Volume, lungs: Lungs) -> tuple[Volume, Lungs]:
    """Leave the frame around what was scanned out of the picture."""
    field = field_of_view(lungs.hu)
    rows, columns = (
        slice(at.start * block, at.stop * block)
        for at, block in zip(box_of(field), lungs.blocks[1:], strict=True)
    )
    return replace(volume, hu=volume.hu[:, rows, columns]), lungs.within(field)


def _tile(volume: Volume, lungs: Lungs, index: int, width_px: int) -> Grey:
    """Draw one slice of the working grid, on the pixels of the scan."""
    from PIL import Image
    from skimage.segmentation import find_boundaries

    z = min(index * lungs.blocks[0] + lungs.blocks[0] // 2, len(volume.hu) - 1)
    _, y_mm, x_mm = volume.spacing_mm
    n_y, n_x = volume.hu.shape[1:]
    size = (width_px, max(1, round(width_px * n_y * y_mm / (n_x * x_mm))))
    darkest, brightest = _WINDOW_HU
    share = (volume.hu[z] - darkest) / (brightest - darkest)
    grey = Image.fromarray(np.rint(255 * np.clip(share, 0, 1)).astype(np.uint8))
    rgb = np.repeat(np.asarray(grey.resize(size))[:, :, None], 3, axis=2)
    side = lungs.side[index].repeat(lungs.blocks[1], axis=0).repeat(lungs.blocks[2], axis=1)
    side = np.asarray(Image.fromarray(side[:n_y, :n_x]).resize(size, Image.Resampling.NEAREST))
    for which, colour in _OUTLINES_RGB.items():
        rgb[find_boundaries(side == which, mode="inner")] = colour
    return rgb


def _png(rgb: Grey) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(rgb).save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


class ScanTask(NamedTuple):
    """What `scan_to_folder` is to do."""

    folder: Path
    out: Path
    person: Person


def scan_to_folder(task: ScanTask) -> tuple[list[str], list[str]]:
    """Measure a scan and write it; return a table in lines, and why it cannot be trusted."""
    limit_cpu(sum(1 for path in task.folder.rglob("*") if path.is_file()))
    one = scan(task.folder, person=task.person)
    write_scan(one, task.out)
    findings = one.measured.findings
    return _lines(one), [str(f) for f in findings if f.effect is Effect.REFUSED]


def _lines(one: Scan) -> list[str]:
    names = ("both lungs", "right lung", "left lung")
    rows = [
        (name, "missing" if ml is None else f"{ml:,.0f} ml")
        for name, ml in zip(names, one.volumes_ml.values(), strict=True)
    ]
    rows += [
        (name, f"{value:.4g} {FEATURES[name].unit}" if np.isfinite(value) else "missing")
        for name, value in one.measured.values.items()
    ]
    rows += [(f"{f.effect.value}: {f.name}", f.text) for f in one.measured.findings]
    rows += [("note", text) for text in one.measured.notes]
    width = max(len(name) for name, _ in rows)
    return [f"{name:<{width}}  {text}" for name, text in rows]
