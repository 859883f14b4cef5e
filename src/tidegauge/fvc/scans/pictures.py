"""Slices for people to look at: a lung window with the outline of the mask."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegauge.fvc.scans.segmentation import Lungs, segment_lungs
from tidegauge.fvc.scans.series import Volume

_WINDOW_HU = (-1250.0, 250.0)


class LungSlice(NamedTuple):
    """A slice for people to look at: grey values and the lung mask, as uint8 of one shape."""

    grey: NDArray[np.uint8]
    mask: NDArray[np.uint8]


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
