"""Lungs in a CT volume, on a working grid of about 2 mm.

The body first, for nothing outside it is lung; then its air without airways and gas; then each lung
alone: its edge, its vessels and its fibrosis.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.stats import norm

from tidegauge.fvc.scans.anatomy import field_of_view, find_airways, find_body
from tidegauge.fvc.scans.grid import (
    FloatArray,
    Labels,
    Mask,
    Spacing,
    block_means,
    box_of,
    closed,
    dilated,
    eroded,
    part_means,
    part_sizes,
    smoothed,
)
from tidegauge.fvc.scans.series import NoLungsError, Volume

RIGHT, LEFT = 1, 2
_TISSUE_HU = 40.0
_LUNG_BELOW_HU = -400.0  # half-way between inflated lung (-850) and soft tissue
# Half-way for lung that fibrosis has made denser. Above -200 HU it is no edge of air any more.
_EDGE_HU = (_LUNG_BELOW_HU, -200.0)
_LOCAL_MM = 10.0  # over which the density beside an edge is averaged: several honeycomb cysts
_AIRWAY_WALL_MM = 2.5
# Air is gas within this of what gas reads; lung, even emphysematous, holds tissue and blood.
_ABOVE_GAS_HU = 40.0
_GAS_RANGE_HU = (-1010, -960)  # below is padding, above is foam
_GAS_CORE_MM = 3.0
# Share of gas in the core from which a part is bowel: small bowel parts have 0.25 and more, large
# ones (a stomach) nearly 1; of lungs small pieces have none, and a bullous lung has 0.15.
_GAS_SHARES_ML = ((0.0, 0.15), (200.0, 0.35), (600.0, 1.0))
_LARGEST_BOWEL_ML = _GAS_SHARES_ML[-1][0]
# A stomach under a thin diaphragm is joined to the lung. Its wide gas has wall and spleen around
# it; a bulla, as wide and as empty, has lung.
_POCKET_MM, _POCKET_LEAST_ML = 10.0, 10.0
_POCKET_RIM_MM, _POCKET_SHELL_MM = 7.5, 5.0
_POCKET_SHELL_SHARE = 0.4
_OTHER_PART_SHARE = 0.08  # a lung, or a lobe apart, is at least this share of the largest part
_FRAGMENT_MM, _FRAGMENT_LEAST_ML = 8.0, 0.3  # pieces that fibrosis parts from their lung
# Both lungs of a small adult breathed out; a few slices show but a section, in cm2.
_LEAST_LUNGS_ML, _LEAST_SECTION_CM2 = 300.0, 25.0
_SIDES_MM = 4.5  # grid on which right and left are parted
_SIDES_RADII_MM = (0.0, 3.0, 6.0, 9.0, 12.0, 15.0)  # bridges before the heart are thinner
_SIDES_SHARE = 0.15  # of the larger lung that the smaller has at least
_SIDES_APART = 0.2  # of the body's width, between their centres: lobes of one lung are closer
_CLOSING_MM = 10.0  # takes in vessels up to 20 mm, and not the heart or the liver
_BONE_ABOVE_HU = 200.0


@dataclass(frozen=True)
class Lungs:
    """Where the lungs are.

    Attributes
    ----------
    side : uint8 array
        ``[z, y, x]`` on the working grid: 0 outside, `RIGHT` or `LEFT` inside; vessels and
        fibrosis included, trachea and main bronchi not.
    body : bool array
        The patient, on the same grid.
    hu : float32 array
        Hounsfield units on the same grid: block means.
    blocks : tuple of int
        How many voxels of the volume, along each axis, one working voxel averages.
    spacing_mm : tuple of float
        Of the working grid.
    gas_hu : float
        What gas reads in this scan.
    """

    side: NDArray[np.uint8]
    body: Mask
    hu: FloatArray
    blocks: tuple[int, int, int]
    spacing_mm: Spacing
    gas_hu: float = -1000.0

    def within(self, region: Mask) -> Lungs:
        """Return the rows and columns that hold a region."""
        box = (slice(None), *box_of(region))
        return replace(self, side=self.side[box], body=self.body[box], hu=self.hu[box])

    @property
    def mask(self) -> Mask:
        """Both lungs."""
        return self.side > 0

    @property
    def voxel_ml(self) -> float:
        """The volume of one working voxel."""
        return float(np.prod(self.spacing_mm)) / 1000

    @property
    def volume_ml(self) -> float:
        """The volume of both lungs."""
        return float(np.count_nonzero(self.side)) * self.voxel_ml


def segment_lungs(volume: Volume) -> Lungs:
    """Find both lungs.

    Raises
    ------
    NoLungsError
        No lungs are found.
    """
    hu, blocks = block_means(volume)
    z, y, x = (mm * k for mm, k in zip(volume.spacing_mm, blocks, strict=True))
    smooth = smoothed(hu, (z, y, x))
    field = field_of_view(hu)
    body = find_body(smooth, field, _gas_hu(hu[field]) + _ABOVE_GAS_HU, (z, y, x))
    if not body.any():
        raise _no_lungs()
    gas_hu, noise_hu = _gas_hu(hu[~body]), _noise_hu(hu, body & (np.abs(smooth) < 100))
    # Work within the body alone: half of an image is air around it.
    box = (slice(None), *box_of(body))
    scan = _Scan(hu[box], smooth[box].copy(), body[box], (z, y, x), gas_hu, noise_hu)
    del smooth
    sides = np.zeros(hu.shape, dtype=np.uint8)
    sides[box] = _find_sides(scan)
    return Lungs(sides, body, hu, blocks, scan.spacing_mm, gas_hu)


def _find_sides(scan: _Scan) -> NDArray[np.uint8]:
    """Return 0, `RIGHT` or `LEFT` for each voxel."""
    airways = find_airways(scan.hu, scan.body, scan.spacing_mm)
    airways = dilated(airways, _AIRWAY_WALL_MM, scan.spacing_mm)
    air = (scan.smooth < _LUNG_BELOW_HU) & scan.body & ~airways
    pockets = _gas_pockets(scan, air)
    sides = _parted(_lung_parts(scan, air & ~pockets, pockets), scan)
    free = scan.body & ~airways & ~pockets
    for side in (RIGHT, LEFT):
        lung = _finished(sides == side, scan, free)
        sides[lung & (sides == 0)] = side
    return sides


@dataclass(frozen=True)
class _Scan:
    """The body on the working grid: block means, the same smoothed, level of gas and noise."""

    hu: FloatArray
    smooth: FloatArray
    body: Mask
    spacing_mm: Spacing
    gas_hu: float
    noise_hu: float

    @property
    def voxel_ml(self) -> float:
        return float(np.prod(self.spacing_mm)) / 1000


def _no_lungs() -> NoLungsError:
    return NoLungsError("no lungs found; check that this is a chest CT in Hounsfield units")


def _gas_hu(around: FloatArray) -> float:
    """Return what gas reads in this scan: -1000, but for the scanner's calibration.

    The commonest value around the patient, for foam and cloth are there too.
    """
    low, high = _GAS_RANGE_HU
    counts, edges = np.histogram(around, bins=np.arange(low - 5, high + 6, 10))
    if counts.sum() < 1000:
        return -1000.0
    return float(edges[np.argmax(counts)] + 5)


def _noise_hu(hu: FloatArray, tissue: Mask) -> float:
    """Return the standard deviation of noise, from neighbours in soft tissue."""
    steps = np.diff(hu, axis=2)[tissue[:, :, 1:] & tissue[:, :, :-1]]
    return float(1.4826 * np.median(np.abs(steps)) / np.sqrt(2)) if steps.size else 0.0


def _gas_pockets(scan: _Scan, air: Mask) -> Mask:
    """Stomach and bowel that touch the lung: wide gas with little lung around it."""
    sizes = [max(1, round(_POCKET_MM / mm)) for mm in scan.spacing_mm]
    limit_hu = scan.gas_hu + _ABOVE_GAS_HU
    labels, n = ndimage.label(air & (ndimage.uniform_filter(scan.smooth, sizes) < limit_hu))
    sizes_ml = part_sizes(labels, n) * scan.voxel_ml
    boxes = ndimage.find_objects(labels)
    reach_mm = _POCKET_RIM_MM + _POCKET_SHELL_MM
    margins = [int(np.ceil(reach_mm / mm)) + 1 for mm in scan.spacing_mm]
    pockets = np.zeros_like(air)
    for k in np.flatnonzero((sizes_ml >= _POCKET_LEAST_ML) & (sizes_ml < _LARGEST_BOWEL_ML)):
        box = tuple(
            slice(max(at.start - margin, 0), at.stop + margin)
            for at, margin in zip(boxes[k - 1], margins, strict=True)
        )
        distance = ndimage.distance_transform_edt(labels[box] != k, sampling=scan.spacing_mm)
        shell = (distance > _POCKET_RIM_MM) & (distance <= reach_mm)
        if air[box][shell].mean() < _POCKET_SHELL_SHARE:
            pockets[box] |= air[box] & (distance <= _POCKET_RIM_MM)
    return pockets


def _lung_parts(scan: _Scan, air: Mask, pockets: Mask) -> Mask:
    """Keep the parts of the air that are lung: large or near a large one, and no gas."""
    labels, n = ndimage.label(air)
    sizes_ml = part_sizes(labels, n) * scan.voxel_ml
    core = eroded(air, _GAS_CORE_MM, scan.spacing_mm)
    limit_hu = scan.gas_hu + _ABOVE_GAS_HU
    gas = part_means(scan.hu[core] < limit_hu, labels[core], n)
    mean_hu = part_means(scan.hu[core], labels[core], n)
    by_noise = norm.cdf((limit_hu - mean_hu) / max(scan.noise_hu, 1.0))
    from_ml, limits = np.transpose(_GAS_SHARES_ML)
    limit = limits[np.searchsorted(from_ml, sizes_ml, side="right") - 1]
    sizes_ml[gas - by_noise > limit] = 0
    if not sizes_ml.any():
        raise _no_lungs()
    is_lung = (sizes_ml > 0) & (sizes_ml >= _OTHER_PART_SHARE * sizes_ml.max())
    is_lung &= _reaches_up(labels, int(np.argmax(sizes_ml)))
    height_cm = len(air) * scan.spacing_mm[0] / 10
    if sizes_ml[is_lung].sum() < min(_LEAST_LUNGS_ML, _LEAST_SECTION_CM2 * height_cm):
        raise _no_lungs()
    is_near = np.zeros(n + 1, dtype=bool)
    is_near[labels[dilated(is_lung[labels], _FRAGMENT_MM, scan.spacing_mm)]] = True
    is_near[labels[dilated(pockets, _FRAGMENT_MM / 2, scan.spacing_mm)]] = False  # rims of stomach
    is_lung |= is_near & (sizes_ml >= _FRAGMENT_LEAST_ML)
    is_lung[0] = False
    lungs: Mask = is_lung[labels]
    return lungs


def _reaches_up(labels: Labels, largest: int) -> Mask:
    """Return which parts begin beside the upper half of the largest; bowel lies lower."""
    boxes = ndimage.find_objects(labels)
    above = boxes[largest - 1][0]
    middle = (above.start + above.stop) / 2
    return np.array([False, *(box is not None and box[0].start < middle for box in boxes)])


def _parted(lungs: Mask, scan: _Scan) -> NDArray[np.uint8]:
    """Tell right from left: erode until two parts lie side by side, then take the nearer."""
    steps = [max(1, round(_SIDES_MM / mm)) for mm in scan.spacing_mm]
    z, y, x = steps
    coarse = lungs[::z, ::y, ::x]
    mm = tuple(size * step for size, step in zip(scan.spacing_mm, steps, strict=True))
    columns = np.flatnonzero(scan.body.any(axis=(0, 1))) / x
    depth = ndimage.distance_transform_edt(np.pad(coarse, 1), sampling=mm)[1:-1, 1:-1, 1:-1]
    seeds = np.full(coarse.shape, RIGHT, dtype=np.uint8)
    for radius in _SIDES_RADII_MM:
        labels, n = ndimage.label(depth > radius)
        pair = _side_by_side(labels, n, _SIDES_APART * np.ptp(columns))
        if pair is not None:
            seeds = np.where(labels == pair[0], RIGHT, np.where(labels == pair[1], LEFT, 0))
            break
    else:  # a single lung
        middle = np.flatnonzero(lungs.any(axis=(0, 1))).mean() / x
        seeds[:] = RIGHT if middle < columns.mean() else LEFT
    nearest = ndimage.distance_transform_edt(
        seeds == 0, sampling=mm, return_distances=False, return_indices=True
    )
    sides = seeds[tuple(nearest)].astype(np.uint8)
    sides = sides.repeat(z, axis=0).repeat(y, axis=1).repeat(x, axis=2)
    n_z, n_y, n_x = lungs.shape
    parted: NDArray[np.uint8] = sides[:n_z, :n_y, :n_x] * lungs
    return parted


def _side_by_side(labels: Labels, n: int, apart: float) -> tuple[int, int] | None:
    """Return the largest part and the largest beside it, the right one first."""
    sizes = part_sizes(labels, n)
    order = np.argsort(-sizes)
    large = [int(k) for k in order if sizes[k] > 0 and sizes[k] >= _SIDES_SHARE * sizes[order[0]]]
    centres = {
        k: c[2]
        for k, c in zip(large, ndimage.center_of_mass(labels > 0, labels, large), strict=True)
    }
    for k in large[1:]:
        if abs(centres[k] - centres[large[0]]) > apart:
            return (large[0], k) if centres[large[0]] < centres[k] else (k, large[0])
    return None


def _finished(lung: Mask, scan: _Scan, free: Mask) -> Mask:
    """Return one lung with its edge where it belongs, and its vessels and fibrosis."""
    if not lung.any():
        return lung
    margins = [int(np.ceil(_CLOSING_MM / mm)) + 1 for mm in scan.spacing_mm]
    extents = (np.flatnonzero(lung.any(axis=axes)) for axes in ((1, 2), (0, 2), (0, 1)))
    box = tuple(
        slice(max(int(at[0]) - margin, 0), int(at[-1]) + margin + 1)
        for at, margin in zip(extents, margins, strict=True)
    )
    inside, hu = lung[box], scan.smooth[box]
    allowed = free[box] | inside
    edge_hu = np.clip((_local_mean(hu, inside, scan.spacing_mm) + _TISSUE_HU) / 2, *_EDGE_HU)
    reach_mm = 2 * scan.spacing_mm[1] + 2.0
    inside = inside | ((hu < edge_hu) & allowed & dilated(inside, reach_mm, scan.spacing_mm))
    whole = closed(inside, _CLOSING_MM, scan.spacing_mm) & allowed
    whole = ndimage.binary_fill_holes(whole) & scan.body[box] & ((hu < _BONE_ABOVE_HU) | inside)
    out = np.zeros_like(lung)
    out[box] = whole
    return out


def _local_mean(hu: FloatArray, inside: Mask, spacing_mm: Spacing) -> FloatArray:
    """Return the mean density of the lung around each voxel."""
    sigmas = [_LOCAL_MM / mm for mm in spacing_mm]
    weight = ndimage.gaussian_filter(inside.astype(np.float32), sigmas, truncate=2.0)
    total = ndimage.gaussian_filter(np.where(inside, hu, np.float32(0)), sigmas, truncate=2.0)
    return np.asarray(total / np.maximum(weight, 1e-3), dtype=np.float32)
