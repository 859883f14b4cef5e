"""One slice of a scan as a picture, with the segmented lung outlined."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from tidegauge.errors import InputError
from tidegauge.fvc.scans.pictures import LungSlice, lung_slice

_OUTLINE_RGB = (245, 158, 11)
_WIDTH_PX = 240


def slice_png(folder: Path) -> bytes | None:
    """Return the slice that shows most lung as PNG, or None if there is no usable scan."""
    from tidegauge.fvc.scans.dicom import read_scan

    if not folder.is_dir():
        return None
    try:
        return draw_slice(lung_slice(read_scan(folder)))
    except InputError:
        return None  # measuring the scan has already said what is wrong with it


def draw_slice(one: LungSlice) -> bytes:
    """Return grey values with the edge of the mask in colour, as PNG."""
    from PIL import Image
    from skimage.segmentation import find_boundaries

    rgb = np.repeat(one.grey[:, :, None], 3, axis=2)
    rgb[find_boundaries(one.mask, mode="inner")] = _OUTLINE_RGB
    picture = Image.fromarray(rgb)
    height = round(_WIDTH_PX * picture.height / picture.width)
    buffer = io.BytesIO()
    picture.resize((_WIDTH_PX, height)).save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()
