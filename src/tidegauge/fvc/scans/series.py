"""The geometry of a CT series: which slices belong together, in what order, on what grid.

Slices arrive as a scanner, an archive and an anonymiser left them; a `Volume` leaves: one regular
grid in Hounsfield units, from head to feet, front to back, the patient's right to left.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from tidegauge.arrays import FloatArray
from tidegauge.errors import InputError

Image = NDArray[np.int16]

AIR_HU = -1024
MOST_SLICES = 320  # more adds memory, not accuracy: neighbours are averaged instead
_PARALLEL_COSINE = 0.95
_UNEVEN_SHARE = 0.05  # gaps that differ more than this from the median are put on a regular grid
# A gap this many times the median and this long is not filled: lungs change shape over less.
_TORN_GAPS, _TORN_MM = 2.5, 24.0
_MOST_COPIES = 4  # of one series, in several kernels or stored again
_STRAY_SLICES = 2  # so few beyond such a gap are no part of the scan


class ScanError(InputError):
    """A scan that cannot be measured; the message names the file and the remedy."""


class NoLungsError(ScanError):
    """A scan that was read and shows no lungs."""

    exit_code = 1


@dataclass(frozen=True)
class Volume:
    """A CT scan on a regular grid.

    Attributes
    ----------
    hu : int16 array
        Hounsfield units, ``[z, y, x]``: head to feet, front to back, the patient's right to left.
    spacing_mm : tuple of float
        Between voxel centres, in the order of the axes.
    warnings : list of str
        What was left out or assumed.
    missing_mm : float
        Length of the gaps, too long to be filled, that were left out of the grid.
    is_spaced : bool
        Whether the distance between slices is known; if not, they are taken to touch.
    """

    hu: Image
    spacing_mm: tuple[float, float, float]
    warnings: list[str] = field(default_factory=list)
    missing_mm: float = 0.0
    is_spaced: bool = True


@dataclass(frozen=True)
class SliceInfo:
    """What one image says of itself; None where it is silent. Lengths in mm."""

    path: Path
    frame: int | None
    shape: tuple[int, int]
    pixel_mm: tuple[float, float] | None
    position: FloatArray | None
    orientation: FloatArray | None
    location_mm: float | None
    instance: int | None
    distance_mm: float | None
    thickness_mm: float | None
    series: str
    is_localizer: bool

    @property
    def natural_key(self) -> tuple[list[tuple[int, int | str]], int]:
        """Sort 2.dcm before 10.dcm, and frames of one file by number."""
        parts = re.findall(r"\d+|\D+", self.path.name)
        key = [(0, int(p)) if p.isdecimal() else (1, p.lower()) for p in parts]
        return key, self.frame or 0


@dataclass(frozen=True)
class Stack:
    """Slices in order from the head, with their heights along the slice normal."""

    slices: list[SliceInfo]
    heights_mm: FloatArray
    warnings: list[str]
    is_spaced: bool = True


def arrange(slices: Sequence[SliceInfo]) -> Stack:
    """Choose the images of one series, order them from the head, and drop repeats.

    Raises
    ------
    ScanError
        Nothing says how far apart the slices are.
    """
    warnings: list[str] = []
    kept = _one_series(sorted(slices, key=lambda s: s.natural_key), warnings)
    kept, heights, is_spaced = _heights_mm(kept, warnings)
    order = np.argsort(-heights, kind="stable")
    kept, heights = [kept[i] for i in order], heights[order]

    gaps = -np.diff(heights)
    positive = gaps[gaps > 1e-3]
    nearest = 0.02 * float(np.median(positive)) if len(positive) else 1e-3
    is_first = np.concatenate([[True], gaps > nearest])
    if n_repeats := int((~is_first).sum()):
        warnings.append(f"{n_repeats} of {len(kept)} slices repeat a position and are left out")
    kept, heights = list(itertools.compress(kept, is_first)), heights[is_first]
    return Stack(kept, heights, warnings, is_spaced)


def _one_series(slices: list[SliceInfo], warnings: list[str]) -> list[SliceInfo]:
    """Leave out scouts, other series of the same folder, and other planes."""
    kept = [s for s in slices if not s.is_localizer] or slices
    if n_scouts := len(slices) - len(kept):
        warnings.append(f"{n_scouts} localizer images are left out")
    series, n_largest = Counter(s.series for s in kept).most_common(1)[0]
    if 1 < n_largest < len(kept):  # one id for each file says nothing about what belongs together
        warnings.append(f"{len(kept) - n_largest} images of other series are left out")
        kept = [s for s in kept if s.series == series]
    same = _one_plane(kept)
    if n_others := len(kept) - len(same):
        warnings.append(f"{n_others} images of another plane are left out")
    return same


def _one_plane(slices: list[SliceInfo]) -> list[SliceInfo]:
    """Keep the images whose normal is, within the jitter of headers, that of most others."""
    known = [(s, s.orientation) for s in slices if s.orientation is not None]
    if not known:
        return slices
    normals = np.array([np.cross(o[:3], o[3:]) for _, o in known])
    # Signs differ between exports of one plane: compare with the axis that most normals follow.
    axis = np.linalg.eigh(normals.T @ normals)[1][:, -1]
    nearest = normals[np.argmax(np.abs(normals @ axis))]
    of_most = np.abs(normals @ nearest) > _PARALLEL_COSINE
    others = {id(s) for (s, _), same in zip(known, of_most, strict=True) if not same}
    return [s for s in slices if id(s) not in others]


def _heights_mm(
    slices: list[SliceInfo], warnings: list[str]
) -> tuple[list[SliceInfo], FloatArray, bool]:
    """Return the slices that can be placed, where along the normal (towards the head), how surely.

    The last is whether their distance is known.
    """
    placed = [s for s in slices if s.position is not None]
    if 2 * len(placed) > len(slices):
        oriented = [s.orientation for s in placed if s.orientation is not None]
        normal = np.cross(oriented[0][:3], oriented[0][3:]) if oriented else np.array([0.0, 0, 1])
        heights = np.array([s.position @ normal for s in placed if s.position is not None])
        if _tells_apart(heights):
            if n_lost := len(slices) - len(placed):
                warnings.append(f"{n_lost} slices without ImagePositionPatient are left out")
            return placed, heights, True
    located = [s.location_mm for s in slices if s.location_mm is not None]
    if len(located) == len(slices) and _tells_apart(np.array(located)):
        warnings.append("no usable ImagePositionPatient: ordered by SliceLocation")
        return slices, np.array(located), True
    distances_mm = [s.distance_mm for s in slices if s.distance_mm is not None]
    steps_mm = distances_mm or [s.thickness_mm for s in slices if s.thickness_mm is not None]
    is_spaced = bool(distances_mm) or len(slices) == 1
    return slices, _counted_heights_mm(slices, steps_mm, warnings), is_spaced


def _tells_apart(heights: FloatArray) -> bool:
    """Whether heights differ, though a series may be in the folder several times."""
    distinct = len(np.unique(np.round(heights, 3)))
    is_known = distinct > 1 and _MOST_COPIES * distinct >= len(heights)
    return bool(np.isfinite(heights).all() and (is_known or len(heights) == 1))


def _counted_heights_mm(
    slices: list[SliceInfo], steps_mm: list[float], warnings: list[str]
) -> FloatArray:
    """Heights from numbers or names alone, head first, spaced as the headers say."""
    if len(slices) == 1:
        return np.zeros(1)
    if not steps_mm:
        raise ScanError(
            f"{slices[0].path}: no ImagePositionPatient, SliceLocation, SpacingBetweenSlices or "
            "SliceThickness, so the distance between slices is unknown; export the series again "
            "with its geometry"
        )
    numbers = [s.instance for s in slices if s.instance is not None]
    if len(numbers) == len(slices) and _tells_apart(np.array(numbers, dtype=float)):
        by, ranks = "InstanceNumber", np.array(numbers, dtype=float)
        ranks = (ranks - ranks.min()) / np.median(np.diff(np.unique(ranks)))
    else:
        by, ranks = "file name", np.arange(len(slices), dtype=float)
    warnings.append(f"no slice positions: ordered by {by}, head first")
    return -ranks * float(np.median(steps_mm))


def assemble(stack: Stack, images: list[Image]) -> Volume:
    """Put decoded images (one for each slice of the stack) on one regular grid.

    The list is emptied as the grid is filled, so that a scan is in memory once.

    Raises
    ------
    ScanError
        No image says how large its pixels are.
    """
    warnings = list(stack.warnings)
    hu, pixel_mm = _same_grid(stack.slices, images, warnings)
    hu, slice_mm, missing_mm = _regular_heights(hu, stack, warnings)
    first = next((s.orientation for s in stack.slices if s.orientation is not None), None)
    hu, spacing_mm = _to_patient_axes(hu, (slice_mm, *pixel_mm), first)
    return Volume(hu, spacing_mm, warnings, missing_mm, stack.is_spaced)


def _same_grid(
    slices: Sequence[SliceInfo], images: list[Image], warnings: list[str]
) -> tuple[Image, tuple[float, float]]:
    """Stack images; those of another size or pixel spacing are resampled to the commonest."""
    grids = [
        (image.shape, _pixel_mm_after(info, image))
        for info, image in zip(slices, images, strict=True)
    ]
    known = Counter(grid for grid in grids if grid[1] is not None)
    if not known:
        raise ScanError(
            f"{slices[0].path}: no PixelSpacing, so volumes are unknown; "
            "export the series again with its geometry"
        )
    (shape, pixel_mm), _ = known.most_common(1)[0]
    assert pixel_mm is not None  # for the type checker: `known` has no others
    if n_odd := sum(grid != (shape, pixel_mm) for grid in grids):
        warnings.append(f"{n_odd} slices of another size or pixel spacing are resampled")
    main = slices[grids.index((shape, pixel_mm))]
    hu = np.empty((len(images), *shape), dtype=np.int16)
    images.reverse()
    for index, (info, grid) in enumerate(zip(slices, grids, strict=True)):
        image = images.pop()
        if grid == (shape, pixel_mm):
            hu[index] = image
            continue
        own_mm = grid[1] or pixel_mm
        scale = np.array(pixel_mm) / own_mm
        offset = _offset_px(main, info, np.array(pixel_mm), np.array(own_mm), shape, image.shape)
        ndimage.affine_transform(
            image, scale, offset, output=hu[index], order=1, mode="constant", cval=AIR_HU
        )
    return hu, pixel_mm


def _pixel_mm_after(info: SliceInfo, image: Image) -> tuple[float, float] | None:
    """Pixel size of a decoded image, which may have been shrunk; rounded against header jitter."""
    if info.pixel_mm is None:
        return None
    rows_mm, columns_mm = np.array(info.pixel_mm) * info.shape / image.shape
    return round(float(rows_mm), 4), round(float(columns_mm), 4)


def _offset_px(
    main: SliceInfo,
    other: SliceInfo,
    main_mm: FloatArray,
    other_mm: FloatArray,
    main_shape: tuple[int, ...],
    other_shape: tuple[int, ...],
) -> FloatArray:
    """Return where the main grid begins in the other image, in its pixels (row, column)."""
    if main.position is None or other.position is None or main.orientation is None:
        half = (np.array(main_shape) - 1) / 2 * main_mm
        centred: FloatArray = (np.array(other_shape) - 1) / 2 - half / other_mm
        return centred
    shift = main.position - other.position
    along = np.array([shift @ main.orientation[3:], shift @ main.orientation[:3]])
    offset: FloatArray = along / other_mm
    return offset


def _regular_heights(hu: Image, stack: Stack, warnings: list[str]) -> tuple[Image, float, float]:
    """Return slices one step apart, the step, and how long a stretch has none at all.

    Where spacing varies, each place takes the nearest slice: a mean of two would show lungs that
    are half there. A long gap is left out, so that the slices on both sides become neighbours.
    """
    heights = stack.heights_mm
    if len(heights) == 1:
        warnings.append("a single slice: lung volume cannot be measured")
        return hu, stack.slices[0].thickness_mm or 1.0, 0.0
    gaps = -np.diff(heights)
    step_mm = float(np.median(gaps))
    is_torn = (gaps > _TORN_GAPS * step_mm) & (gaps > _TORN_MM)
    runs = np.split(np.arange(len(heights)), np.flatnonzero(is_torn) + 1)
    fewest = min(_STRAY_SLICES + 1, max(map(len, runs)))
    kept = np.concatenate([run for run in runs if len(run) >= fewest])
    if n_lost := len(heights) - len(kept):
        warnings.append(f"{n_lost} slices far from the others are left out")
        hu, heights = hu[kept], heights[kept]
        gaps = -np.diff(heights)
        is_torn = (gaps > _TORN_GAPS * step_mm) & (gaps > _TORN_MM)
    missing_mm = float((gaps[is_torn] - step_mm).sum())
    if missing_mm > 0:
        warnings.append(f"{missing_mm:.0f} mm of the patient have no slice")
        gaps = np.where(is_torn, step_mm, gaps)
    if len(gaps) == 0 or np.all(np.abs(gaps / step_mm - 1) <= _UNEVEN_SHARE):
        return hu, step_mm if len(gaps) == 0 else float(gaps.mean()), missing_mm
    steps = np.rint(gaps / step_mm)
    if np.all(np.abs(gaps - steps * step_mm) <= 0.1 * step_mm) and np.mean(steps > 1) < 0.5:
        warnings.append(f"{int((steps - 1).sum())} missing slices: their neighbours stand in")
    else:
        span = f"{gaps.min():.2f} to {gaps.max():.2f} mm"
        warnings.append(f"uneven slice spacing, {span}: set {step_mm:.2f} mm apart")
    depth = np.concatenate([[0.0], np.cumsum(gaps)])
    n = min(round(depth[-1] / step_mm) + 1, 2 * MOST_SLICES)
    at = np.interp(np.linspace(0, depth[-1], n), depth, np.arange(len(depth)))
    return hu[np.rint(at).astype(int)], float(depth[-1] / (n - 1)), missing_mm


def _to_patient_axes(
    hu: Image, spacing_mm: tuple[float, float, float], orientation: FloatArray | None
) -> tuple[Image, tuple[float, float, float]]:
    """Turn and flip the array so that its axes follow the patient, whatever plane was scanned."""
    if orientation is None:
        return hu, spacing_mm
    row, column = orientation[:3], orientation[3:]
    directions = np.array([-np.cross(row, column), column, row])[:, ::-1]  # columns: z, y, x
    wanted = np.array([-1.0, 1.0, 1.0])  # to the feet, to the back, to the left
    best = max(
        itertools.permutations(range(3)),
        key=lambda axes: sum(abs(directions[axis, k]) for k, axis in enumerate(axes)),
    )
    turned = hu.transpose(best)
    flips = tuple(k for k, axis in enumerate(best) if directions[axis, k] * wanted[k] < 0)
    z, y, x = (spacing_mm[axis] for axis in best)
    return np.flip(turned, flips), (z, y, x)  # a view: a scan is in memory once
