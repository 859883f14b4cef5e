"""The patient's body in a CT volume: nothing outside it can be lung."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from tidegauge.fvc.scans.grid import FloatArray, Mask, Spacing, dilated, eroded, part_sizes

_TISSUE_ABOVE_HU = -350.0  # between air and fat with the blurred skin
_OPENING_MM = 4.0  # table tops, cables, gowns and folds of skin are thinner than twice this
_PART_SHARE = 0.1  # an arm beside the chest is a part of its own
_ENCLOSED_DIRECTIONS = 7  # of 8; between arm and chest 6 see tissue, under a hollow back 5


def find_body(hu: FloatArray, spacing_mm: Spacing) -> Mask:
    """Return tissue that is no furniture, and all that it encloses within a slice.

    A side of the image that cuts the patient closes the body there.
    """
    tissue: Mask = hu > _TISSUE_ABOVE_HU
    core = eroded(tissue, _OPENING_MM, spacing_mm)
    labels, n = ndimage.label(core)
    sizes = part_sizes(labels, n)
    kept = sizes >= max(_PART_SHARE * sizes.max(), 1)
    solid = tissue & dilated(kept[labels], _OPENING_MM + spacing_mm[1], spacing_mm)
    seen = np.zeros(solid.shape, dtype=np.int8)
    walled = _with_cut_sides(solid)
    for flip_y in (False, True):
        for flip_x in (False, True):
            turned = np.flip(walled, _axes(flip_y, flip_x))
            hits = _hits_diagonal(turned).astype(np.int8)
            if not flip_x:  # along columns, once for each direction
                hits += np.logical_or.accumulate(turned, axis=1)
            if not flip_y:
                hits += np.logical_or.accumulate(turned, axis=2)
            seen += np.flip(hits, _axes(flip_y, flip_x))[:, 1:-1, 1:-1]
    body: Mask = solid | (seen >= _ENCLOSED_DIRECTIONS)
    return body


def _axes(flip_y: bool, flip_x: bool) -> tuple[int, ...]:
    return (1,) * flip_y + (2,) * flip_x


def _with_cut_sides(solid: Mask) -> Mask:
    """Pad each slice by one pixel: wall between the first and the last tissue at each side."""
    walled = np.pad(solid, ((0, 0), (1, 1), (1, 1)))
    for edge in (np.s_[:, 0, 1:-1], np.s_[:, -1, 1:-1], np.s_[:, 1:-1, 0], np.s_[:, 1:-1, -1]):
        inner = {0: 1, -1: -2}
        beside = tuple(inner[k] if isinstance(k, int) else k for k in edge)
        touch = walled[beside]
        before = np.logical_or.accumulate(touch, axis=1)
        after = np.logical_or.accumulate(touch[:, ::-1], axis=1)[:, ::-1]
        walled[edge] = before & after
    return walled


def _hits_diagonal(wall: Mask) -> Mask:
    """Whether there is wall on the way to the upper left, for each pixel."""
    hits = wall.copy()
    for row in range(1, wall.shape[1]):
        hits[:, row, 1:] |= hits[:, row - 1, :-1]
    return hits
