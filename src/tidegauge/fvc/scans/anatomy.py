"""What bounds the lungs: the patient's body, and the airways that lead to them.

Nothing outside the body can be lung. The airways are a chain of small gas sections with tissue all
round; it begins at the longest run of such sections near the middle of the body, is followed both
ways, and ends where a bronchus has lung all round it, so it cannot leak.
"""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from tidegauge.arrays import IntArray
from tidegauge.fvc.scans.grid import FloatArray, Labels, Mask, Spacing, dilated, eroded, part_sizes
from tidegauge.fvc.scans.series import AIR_HU

_TISSUE_ABOVE_HU = -350.0  # between air and fat with the blurred skin
_OPENING_MM = 4.0  # table tops, cables, gowns and folds of skin are thinner than twice this
_PART_SHARE = 0.1  # an arm beside the chest is a part of its own
_ENCLOSED_DIRECTIONS = 7  # of 8; between arm and chest 6 see tissue, under a hollow back 5
_CHORD_TISSUE_SHARE = (
    0.1  # median 0.04 where the field's edge cuts lung, 0.4 where it cuts the table
)

# From the half-way value of gas and tissue down: the loosest that keeps the lumen apart from lung.
_THRESHOLDS_HU = (-500.0, -600.0, -700.0, -800.0, -850.0, -900.0, -940.0)
_SECTION_MM2 = (25.0, 700.0)  # a bronchus of 6 mm; a large trachea is 25 x 28 mm
_WALL_MM = 4.0
_WALL_ABOVE_HU = -350.0  # mean around it: mediastinum -100, around a bronchus in the lung -600
_MIDDLE_SHARE = 0.15  # of the body's width, to either side of its middle
_ROUND_SHARE = 0.5  # of its bounding box that a section fills (a disc 0.79)
_SHORTEST_MM = 15.0
_SLANT = 1.0  # mm sideways for each mm down: main bronchi leave at 45 degrees


def field_of_view(hu: FloatArray) -> Mask:
    """Return what was scanned: all but the padding around it, and voxels half padding."""
    padding: Mask = hu <= AIR_HU
    outside = np.zeros_like(padding)
    for axis in (1, 2):
        for flip in (np.s_[:], np.s_[:, ::-1, ::-1]):
            outside[flip] |= np.logical_and.accumulate(padding[flip], axis=axis)
    return ~_with_neighbours(outside)


def edge_of_field(field: Mask) -> Mask:
    """Return the outermost voxels of what was scanned, within each slice."""
    outside = np.pad(~field, ((0, 0), (1, 1), (1, 1)), constant_values=True)
    return field & _with_neighbours(outside)[:, 1:-1, 1:-1]


def _with_neighbours(mask: Mask) -> Mask:
    """Return a mask and the voxels beside it in its slices."""
    out = mask.copy()
    out[:, 1:] |= mask[:, :-1]
    out[:, :-1] |= mask[:, 1:]
    out[:, :, 1:] |= mask[:, :, :-1]
    out[:, :, :-1] |= mask[:, :, 1:]
    return out


def find_body(hu: FloatArray, field: Mask, gas_below_hu: float, spacing_mm: Spacing) -> Mask:
    """Return tissue that is no furniture, and all that it encloses within a slice.

    Parameters
    ----------
    field : Mask
        Where it ends within the patient, its edge closes the body.
    gas_below_hu : float
        Air around the patient is below, lung above.
    """
    tissue: Mask = hu > _TISSUE_ABOVE_HU
    core = eroded(tissue, _OPENING_MM, spacing_mm)
    labels, n = ndimage.label(core)
    sizes = part_sizes(labels, n)
    kept = sizes >= max(_PART_SHARE * sizes.max(), 1)
    solid = tissue & dilated(kept[labels], _OPENING_MM + spacing_mm[1], spacing_mm)
    seen = np.zeros(solid.shape, dtype=np.int8)
    walled = solid | _cut_sides(solid, hu > gas_below_hu, edge_of_field(field))
    for flip_y in (False, True):
        for flip_x in (False, True):
            turned = np.flip(walled, _axes(flip_y, flip_x))
            hits = _hits_diagonal(turned).astype(np.int8)
            if not flip_x:  # along columns, once for each direction
                hits += np.logical_or.accumulate(turned, axis=1)
            if not flip_y:
                hits += np.logical_or.accumulate(turned, axis=2)
            seen += np.flip(hits, _axes(flip_y, flip_x))
    body: Mask = solid | (seen >= _ENCLOSED_DIRECTIONS)
    return body


def _axes(flip_y: bool, flip_x: bool) -> tuple[int, ...]:
    return (1,) * flip_y + (2,) * flip_x


def _cut_sides(solid: Mask, not_gas: Mask, edge: Mask) -> Mask:
    """Return the stretches of the field's edge that run through lung, from tissue to tissue."""
    cut = np.zeros_like(solid)
    for index in np.flatnonzero((solid & edge).any(axis=(1, 2))):
        rows, columns = np.nonzero(edge[index])
        y, x = (at - (at.min() + at.max()) / 2 for at in (rows, columns))
        order = np.argsort(np.arctan2(y, x))
        at_tissue = np.flatnonzero(solid[index][rows[order], columns[order]])
        ends = [*at_tissue[1:], at_tissue[0] + len(order)]
        for start, stop in zip(at_tissue, ends, strict=True):
            stretch = order[np.arange(start, stop + 1) % len(order)]
            at = rows[stretch], columns[stretch]
            if not_gas[index][at].mean() > 0.5 and _cuts_lung(*at, solid[index]):
                cut[index][at] = True
    return cut


def _cuts_lung(rows: IntArray, columns: IntArray, solid: Mask) -> bool:
    """Tell lung that the edge of the field cuts from foam of the table, which is as light.

    A straight side of the image, from tissue to tissue, cuts the patient. Any other stretch of the
    edge must not pass under the patient from side to side, and between it and its chord must be
    lung: between one through the table and its chord lies the patient's back.
    """
    from skimage.draw import polygon

    if np.ptp(rows) == 0 or np.ptp(columns) == 0:
        return True
    body = np.flatnonzero(solid.any(axis=0))
    right, left = np.quantile(body, (0.5 - _MIDDLE_SHARE, 0.5 + _MIDDLE_SHARE))
    if columns.min() < right and columns.max() > left:
        return False
    between = solid[polygon(rows, columns, solid.shape)]
    return bool(np.count_nonzero(between) <= _CHORD_TISSUE_SHARE * between.size)


def _hits_diagonal(wall: Mask) -> Mask:
    """Whether there is wall on the way to the upper left, for each pixel."""
    hits = wall.copy()
    for row in range(1, wall.shape[1]):
        hits[:, row, 1:] |= hits[:, row - 1, :-1]
    return hits


def find_airways(hu: FloatArray, body: Mask, spacing_mm: Spacing) -> Mask:
    """Return the lumen of trachea and main bronchi, empty where there is none to be found."""
    airways = np.zeros_like(body)
    start = _trachea(hu, body, spacing_mm)
    slices = np.flatnonzero(start.any(axis=(1, 2)))
    if len(slices) == 0:
        return airways
    airways[slices] = start[slices]
    for direction, index in ((-1, slices[0]), (1, slices[-1])):
        previous = airways[index]
        index += direction
        while 0 <= index < len(hu):
            found = _next_section(hu[index], body[index], previous, spacing_mm)
            if not found.any():
                break
            airways[index] = previous = found
            index += direction
    return airways


def _trachea(hu: FloatArray, body: Mask, spacing_mm: Spacing) -> Mask:
    """Return the longest pile of round sections near the middle."""
    sections = np.zeros_like(body)
    columns = np.flatnonzero(body.any(axis=(0, 1)))
    if len(columns) == 0:
        return sections
    middle, reach = columns.mean(), _MIDDLE_SHARE * np.ptp(columns)
    for index, image in enumerate(hu):
        labels, n = ndimage.label((image < _THRESHOLDS_HU[1]) & body[index])
        boxes = ndimage.find_objects(labels)
        for k in _walled_parts(image, labels, n, spacing_mm):
            box = boxes[k - 1]
            part = labels[box] == k
            centre = (box[1].start + box[1].stop - 1) / 2
            if abs(centre - middle) < reach and part.mean() >= _ROUND_SHARE:
                sections[index][box] |= part
    labels, n = ndimage.label(sections, np.ones((3, 3, 3)))
    heights = [(box[0].stop - box[0].start) * spacing_mm[0] for box in ndimage.find_objects(labels)]
    if not heights or max(heights) < min(_SHORTEST_MM, len(hu) * spacing_mm[0]):
        return np.zeros_like(body)
    trachea: Mask = labels == 1 + int(np.argmax(heights))
    return trachea


def _next_section(image: FloatArray, body: Mask, previous: Mask, spacing_mm: Spacing) -> Mask:
    """Return the parts that continue the sections of the slice before."""
    found = np.zeros_like(body)
    distance = ndimage.distance_transform_edt(~previous, sampling=spacing_mm[1:])
    near = distance <= _SLANT * min(spacing_mm[0], 5.0)
    for threshold in _THRESHOLDS_HU:
        labels, n = ndimage.label((image < threshold) & body & ~found)
        following = np.intersect1d(labels[near], _walled_parts(image, labels, n, spacing_mm))
        found |= np.isin(labels, following)
    return found


def _walled_parts(image: FloatArray, labels: Labels, n: int, spacing_mm: Spacing) -> list[int]:
    """Return the parts as large as an airway that have tissue all round."""
    sizes_mm2 = part_sizes(labels, n) * (spacing_mm[1] * spacing_mm[2])
    smallest, largest = _SECTION_MM2
    parts = []
    wall_mm = max(_WALL_MM, *spacing_mm[1:])
    rows, columns = (int(np.ceil(wall_mm / mm)) + 1 for mm in spacing_mm[1:])
    boxes = ndimage.find_objects(labels)
    for k in np.flatnonzero((sizes_mm2 >= smallest) & (sizes_mm2 <= largest)):
        y, x = boxes[k - 1]
        top, left = max(y.start - rows, 0), max(x.start - columns, 0)
        box = np.s_[top : y.stop + rows, left : x.stop + columns]
        part = labels[box] == k
        distance = ndimage.distance_transform_edt(~part, sampling=spacing_mm[1:])
        wall = (distance > 0) & (distance <= wall_mm)
        if wall.any() and image[box][wall].mean() > _WALL_ABOVE_HU:
            parts.append(int(k))
    return parts
