"""Slices of a scan for people to look at, with the lungs outlined."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

from tidegauge.fvc.scans.segmentation import LEFT, RIGHT, Lungs
from tidegauge.fvc.scans.series import Volume

Grey = NDArray[np.uint8]
_WINDOW_HU = (-1250.0, 250.0)
_OUTLINES_RGB = {RIGHT: (245, 158, 11), LEFT: (56, 189, 248)}  # orange and blue
_COLUMNS, _ROWS = 4, 3


def overlay_png(volume: Volume, lungs: Lungs, *, width_px: int = 240) -> bytes:
    """Return twelve slices from apex to base as PNG, the patient's right at the left."""
    shown = np.flatnonzero(lungs.mask.any(axis=(1, 2)))
    picked = np.rint(np.linspace(shown[0], shown[-1], _COLUMNS * _ROWS)).astype(int)
    tiles = [_tile(volume, lungs, index, width_px) for index in picked]
    rows = [np.hstack(tiles[k : k + _COLUMNS]) for k in range(0, len(tiles), _COLUMNS)]
    return _png(np.vstack(rows))


def slice_png(volume: Volume, lungs: Lungs, *, width_px: int = 240) -> bytes:
    """Return the slice that shows most of the lungs as PNG."""
    index = int(np.argmax(lungs.mask.sum(axis=(1, 2))))
    return _png(_tile(volume, lungs, index, width_px))


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
