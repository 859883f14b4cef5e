"""Lungs in a CT volume: threshold, border clearing, components, trachea out, fibrosis kept in.

All of it happens on a working grid of about 2 mm, where a 512 x 512 x 100 scan takes a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial import ConvexHull, QhullError
from skimage.draw import polygon2mask

from tidegauge.fvc.scans.series import ScanError, Volume

FloatArray = NDArray[np.float32]
Mask = NDArray[np.bool_]

_WORKING_MM = (2.6, 2.2, 2.2)  # voxels are averaged up to, never beyond, this size
_AIR_BELOW_HU = -300.0  # nearer to soft tissue than to lung, so that fibrotic edges count as lung
_GAS_BELOW_HU = -950.0  # bowel gas, a hollow table; lung tissue is denser on average
_OUTSIDE_BELOW_HU = -920.0  # between air with the patient's blurred edge and inflated lung
_BONE_ABOVE_HU = 160.0
# One lung and an adult's pair; less is something else. A few slices show but a section, in cm2.
_SMALLEST_LUNG_ML, _SMALLEST_SECTION_CM2 = 80.0, 10.0
_LEAST_LUNGS_ML, _LEAST_SECTION_CM2 = 300.0, 30.0
_OTHER_LUNG_SHARE = 0.08  # a second lung is at least this share of the first
_TRACHEA_MM2 = (40.0, 700.0)
_CLOSING_MM = 18.0
_WINDOW_HU = (-1250.0, 250.0)


@dataclass(frozen=True)
class Lungs:
    """Where the lungs are.

    Attributes
    ----------
    mask : bool array
        ``[z, y, x]`` on the working grid: vessels and fibrosis included, trachea not.
    hu : float32 array
        Hounsfield units on the same grid.
    blocks : tuple of int
        How many voxels of the volume, along each axis, one working voxel averages.
    spacing_mm : tuple of float
        Of the working grid.
    """

    mask: Mask
    hu: FloatArray
    blocks: tuple[int, int, int]
    spacing_mm: tuple[float, float, float]

    @property
    def voxel_ml(self) -> float:
        """The volume of one working voxel."""
        return float(np.prod(self.spacing_mm)) / 1000

    @property
    def volume_ml(self) -> float:
        """The volume of both lungs."""
        return float(self.mask.sum()) * self.voxel_ml


class LungSlice(NamedTuple):
    """A slice for people to look at: grey values and the lung mask, as uint8 of one shape."""

    grey: NDArray[np.uint8]
    mask: NDArray[np.uint8]


def segment_lungs(volume: Volume) -> Lungs:
    """Find both lungs.

    Raises
    ------
    ScanError
        No lungs are found.
    """
    hu, blocks = _working_grid(volume)
    spacing = tuple(mm * k for mm, k in zip(volume.spacing_mm, blocks, strict=True))
    spacing_mm = (spacing[0], spacing[1], spacing[2])
    air = _inner_air(hu)
    air &= ~_trachea(air, spacing_mm)
    lungs = _largest_parts(air, hu, spacing_mm)
    filled = np.zeros_like(lungs)
    middle = _middle_column(lungs)
    for is_right, columns in ((True, np.s_[:middle]), (False, np.s_[middle:])):
        side = (..., columns)
        filled[side] = _with_fibrosis(lungs[side], hu[side], spacing_mm, is_right=is_right)
    return Lungs(filled, hu, blocks, spacing_mm)


def lung_slice(volume: Volume, lungs: Lungs | None = None) -> LungSlice:
    """Return the slice that shows most of the lungs, in a lung window, with its mask of 0 and 1.

    Raises
    ------
    ScanError
        No lungs are found.
    """
    lungs = segment_lungs(volume) if lungs is None else lungs
    index = int(np.argmax(lungs.mask.sum(axis=(1, 2))))
    darkest, brightest = _WINDOW_HU
    share = (lungs.hu[index] - darkest) / (brightest - darkest)
    grey = np.rint(255 * np.clip(share, 0, 1)).astype(np.uint8)
    return LungSlice(grey, lungs.mask[index].astype(np.uint8))


def _working_grid(volume: Volume) -> tuple[FloatArray, tuple[int, int, int]]:
    """Average blocks of voxels."""
    wanted = zip(_WORKING_MM, volume.spacing_mm, volume.hu.shape, strict=True)
    z, y, x = (min(max(1, int(limit / mm)), n) for limit, mm, n in wanted)
    hu = volume.hu
    n_z, n_y, n_x = (n // k for n, k in zip(hu.shape, (z, y, x), strict=True))
    total = np.zeros((n_z, n_y, n_x), dtype=np.float32)
    for i in range(z):
        for j in range(y):
            for k in range(x):
                total += hu[i : n_z * z : z, j : n_y * y : y, k : n_x * x : x]
    return total / (z * y * x), (z, y, x)


def _inner_air(hu: FloatArray) -> Mask:
    """Air that is not around the patient: parts that reach the image's edge are, unless denser.

    Lungs may reach it too, where the image is cropped to them; aerated tissue tells them apart.
    """
    air: Mask = hu < _AIR_BELOW_HU
    within_slice = np.zeros((3, 3, 3), dtype=bool)
    within_slice[1] = ndimage.generate_binary_structure(2, 1)
    labels, n = ndimage.label(air, within_slice)
    edges = (labels[:, 0], labels[:, -1], labels[:, :, 0], labels[:, :, -1])
    at_edge = np.unique(np.concatenate([edge.ravel() for edge in edges]))
    at_edge = at_edge[at_edge > 0]
    is_outside = np.zeros(n + 1, dtype=bool)
    is_outside[at_edge] = _means(hu, labels)[at_edge] < _OUTSIDE_BELOW_HU
    inner: Mask = air & ~is_outside[labels]
    return inner


def _means(hu: FloatArray, labels: NDArray[np.signedinteger]) -> NDArray[np.float64]:
    """Mean density of each labelled part, by label."""
    flat = labels.ravel()
    sizes = np.bincount(flat)
    means: NDArray[np.float64] = np.bincount(flat, hu.ravel()) / np.maximum(sizes, 1)
    return means


def _trachea(air: Mask, spacing_mm: tuple[float, float, float]) -> Mask:
    """Follow the windpipe from the top: a small part near the middle, until it joins the lungs."""
    pixel_mm2 = spacing_mm[1] * spacing_mm[2]
    smallest, largest = (area / pixel_mm2 for area in _TRACHEA_MM2)
    trachea = np.zeros_like(air)
    columns = np.flatnonzero(air.any(axis=(0, 1)))
    if len(columns) == 0:
        return trachea
    middle, reach = columns.mean(), 0.12 * (columns[-1] - columns[0] + 1)
    previous: Mask | None = None
    for index, image in enumerate(air):
        labels, n = ndimage.label(image)
        if previous is not None:
            following = np.unique(labels[previous & image])
        else:
            centres = ndimage.center_of_mass(image, labels, range(1, n + 1))
            following = np.array(
                [k for k, (_, x) in enumerate(centres, 1) if abs(x - middle) < reach]
            )
        sizes = np.bincount(labels.ravel(), minlength=n + 1)
        found = [k for k in following if k > 0 and smallest <= sizes[k] <= largest]
        if found:
            previous = np.isin(labels, found)
            trachea[index] = previous
        elif previous is not None:
            break
    return trachea


def _largest_parts(air: Mask, hu: FloatArray, spacing_mm: tuple[float, float, float]) -> Mask:
    """Keep the one or two largest bodies of air that are tissue, not gas."""
    labels, n = ndimage.label(air)
    voxel_ml = float(np.prod(spacing_mm)) / 1000
    sizes_ml = np.bincount(labels.ravel(), minlength=n + 1) * voxel_ml
    sizes_ml[0] = 0
    height_cm = len(air) * spacing_mm[0] / 10
    large = np.flatnonzero(sizes_ml >= min(_SMALLEST_LUNG_ML, _SMALLEST_SECTION_CM2 * height_cm))
    tissue = large[_means(hu, labels)[large] > _GAS_BELOW_HU]
    ranked = tissue[np.argsort(-sizes_ml[tissue])][:2]
    kept = [k for k in ranked if sizes_ml[k] >= _OTHER_LUNG_SHARE * sizes_ml[ranked[0]]]
    if sizes_ml[kept].sum() < min(_LEAST_LUNGS_ML, _LEAST_SECTION_CM2 * height_cm):
        raise ScanError("no lungs found; check that this is a chest CT in Hounsfield units")
    lungs: Mask = np.isin(labels, kept)
    return lungs


def _middle_column(lungs: Mask) -> int:
    """Return the column between the lungs that holds the least of them."""
    profile = lungs.sum(axis=(0, 1))
    columns = np.flatnonzero(profile)
    first, last = columns[0], columns[-1]
    low, high = first + 2 * (last - first) // 5, first + 3 * (last - first) // 5
    return int(low + np.argmin(profile[low : high + 1]))


def _with_fibrosis(
    lung: Mask, hu: FloatArray, spacing_mm: tuple[float, float, float], *, is_right: bool
) -> Mask:
    """Close one lung over vessels and consolidation, and reach out to its convex outer wall."""
    if not lung.any():
        return lung
    box = ndimage.find_objects(lung.astype(np.uint8))[0]
    inside, tissue = lung[box], hu[box]
    closed = _closed(inside, spacing_mm)
    closed |= _outer_wall(closed, is_right=is_right)
    closed &= (tissue < _BONE_ABOVE_HU) | inside
    whole = np.zeros_like(lung)
    whole[box] = closed
    return whole


def _closed(mask: Mask, spacing_mm: tuple[float, float, float]) -> Mask:
    """Close by a disc in each slice: slices may be too far apart for a ball."""
    pixels = spacing_mm[1:]
    rows, columns = (int(np.ceil(_CLOSING_MM / mm)) + 1 for mm in pixels)
    out = np.zeros_like(mask)
    for index in np.flatnonzero(mask.any(axis=(1, 2))):
        # Room all round: at the edge of an array there is nothing to erode from.
        image = np.pad(mask[index], ((rows, rows), (columns, columns)))
        near = ndimage.distance_transform_edt(~image, sampling=pixels) <= _CLOSING_MM
        deep = ndimage.distance_transform_edt(near, sampling=pixels) > _CLOSING_MM
        out[index] = (deep | image)[rows:-rows, columns:-columns]
    return out


def _outer_wall(lung: Mask, *, is_right: bool) -> Mask:
    """Return what lies, slice by slice, between the lung and its convex hull on the ribs' side.

    The chest wall is convex, so what is missing there is consolidated lung; on the inner side the
    heart and the liver dent the lung, and there the hull means nothing.
    """
    wall = np.zeros_like(lung)
    for index, image in enumerate(lung):
        points = np.argwhere(image)
        if len(points) < 3:
            continue
        try:
            corners = points[ConvexHull(points).vertices]
        except QhullError:  # all on a line
            continue
        hull = polygon2mask(image.shape, corners)
        seen = image if is_right else image[:, ::-1]
        # Not yet lung when coming from the ribs: along rows, and up along columns from the back.
        beside = ~np.logical_or.accumulate(seen, axis=1)
        beside = beside if is_right else beside[:, ::-1]
        behind = ~np.logical_or.accumulate(image[::-1], axis=0)[::-1]
        wall[index] = hull & ~image & (beside | behind)
    return wall
