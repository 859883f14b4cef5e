"""The working grid of the segmentation, and morphology on it in millimetres."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from tidegauge.fvc.scans.series import Volume

FloatArray = NDArray[np.float32]
Labels = NDArray[np.signedinteger]
Mask = NDArray[np.bool_]
Spacing = tuple[float, float, float]

_LARGEST_VOXEL_MM = (2.6, 2.2, 2.2)  # voxels are averaged up to, never beyond, this size
# Standard deviation of the point spread that images are brought to within a slice: wider than that
# of soft and sharp kernels alike (0.5 to 1 mm), so that what is left does not tell which it was.
_SMOOTHING_MM = 1.7


def block_means(volume: Volume) -> tuple[FloatArray, tuple[int, int, int]]:
    """Average blocks of voxels; the last block of an axis may be smaller, and none is left out.

    Returns
    -------
    hu : float32 array
    blocks : tuple of int
        How many voxels one block holds along each axis.
    """
    wanted = zip(_LARGEST_VOXEL_MM, volume.spacing_mm, volume.hu.shape, strict=True)
    z, y, x = (min(max(1, int(limit / mm)), n) for limit, mm, n in wanted)
    starts = [np.arange(0, n, k) for n, k in zip(volume.hu.shape, (z, y, x), strict=True)]
    counts = [np.diff([*at, n]) for at, n in zip(starts, volume.hu.shape, strict=True)]
    hu = np.empty([len(at) for at in starts], dtype=np.float32)
    for index, first in enumerate(starts[0]):
        slab = volume.hu[first : first + z].sum(axis=0, dtype=np.int32)
        rows = np.add.reduceat(slab, starts[1], axis=0)
        hu[index] = np.add.reduceat(rows, starts[2], axis=1)
    hu /= np.multiply.outer(np.multiply.outer(counts[0], counts[1]), counts[2])
    return hu, (z, y, x)


def smoothed(hu: FloatArray, spacing_mm: Spacing) -> FloatArray:
    """Blur each slice until its point spread no longer depends on kernel and pixel size."""
    # A block mean of width w has the variance w^2 / 12 already.
    sigmas = [np.sqrt(max(_SMOOTHING_MM**2 - mm**2 / 12, 0.0)) / mm for mm in spacing_mm[1:]]
    out: FloatArray = ndimage.gaussian_filter(hu, (0.0, *sigmas), truncate=3.0)
    return out


def dilated(mask: Mask, mm: float, spacing_mm: Spacing) -> Mask:
    """Return what lies within `mm` of the mask in the same slice."""
    out = np.zeros_like(mask)
    for index, box, image in _sections(mask, mm, spacing_mm):
        distance = ndimage.distance_transform_edt(~image, sampling=spacing_mm[1:])
        out[index][box] = distance <= mm
    return out


def eroded(mask: Mask, mm: float, spacing_mm: Spacing) -> Mask:
    """Return what lies deeper than `mm` in its slice; the edge of the image is no edge."""
    out = np.zeros_like(mask)
    for index, box, image in _sections(mask, 0.0, spacing_mm):
        padded = np.pad(image, 1, mode="edge")
        depth = ndimage.distance_transform_edt(padded, sampling=spacing_mm[1:])
        out[index][box] = depth[1:-1, 1:-1] > mm
    return out


def closed(mask: Mask, mm: float, spacing_mm: Spacing) -> Mask:
    """Close by a disc in each slice: slices may be too far apart for a ball."""
    out = np.zeros_like(mask)
    rows, columns = (int(np.ceil(mm / size)) + 1 for size in spacing_mm[1:])
    for index, box, image in _sections(mask, 0.0, spacing_mm):
        # Room all round: at the edge of an array there is nothing to erode from.
        roomy = np.pad(image, ((rows, rows), (columns, columns)))
        near = ndimage.distance_transform_edt(~roomy, sampling=spacing_mm[1:]) <= mm
        deep = ndimage.distance_transform_edt(near, sampling=spacing_mm[1:]) > mm
        out[index][box] = (deep | roomy)[rows:-rows, columns:-columns]
    return out


def _sections(
    mask: Mask, margin_mm: float, spacing_mm: Spacing
) -> Iterator[tuple[int, tuple[slice, slice], Mask]]:
    """Yield each slice that holds something: its number, its box with a margin, and the mask."""
    rows, columns = (int(np.ceil(margin_mm / mm)) + 1 for mm in spacing_mm[1:])
    for index in np.flatnonzero(mask.any(axis=(1, 2))):
        y, x = (np.flatnonzero(mask[index].any(axis=axis)) for axis in (1, 0))
        box = (
            slice(max(y[0] - rows, 0), y[-1] + rows + 1),
            slice(max(x[0] - columns, 0), x[-1] + columns + 1),
        )
        yield int(index), box, mask[index][box]


def box_of(mask: Mask) -> tuple[slice, slice]:
    """Return rows and columns between which the mask lies, in all slices."""
    extents = (np.flatnonzero(mask.any(axis=axes)) for axes in ((0, 2), (0, 1)))
    y, x = (slice(int(at[0]), int(at[-1]) + 1) if len(at) else slice(0, 0) for at in extents)
    return y, x


def part_sizes(labels: Labels, n: int) -> NDArray[np.int64]:
    """Return the voxels of each part by label, 0 for the background."""
    sizes = np.bincount(labels.ravel(), minlength=n + 1)
    sizes[0] = 0
    return sizes


def part_means(values: FloatArray | Mask, labels: Labels, n: int) -> NDArray[np.float64]:
    """Return the mean of a value over each part by label; 0 for a part of no voxel."""
    flat = labels.ravel()
    sums = np.bincount(flat, values.ravel(), minlength=n + 1)
    means: NDArray[np.float64] = sums / np.maximum(np.bincount(flat, minlength=n + 1), 1)
    return means
