"""Stored pixel values to Hounsfield units: rescale, padding, inversion, undeclared corners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from tidegauge.fvc.scans.series import AIR_HU, Image

_HIGHEST_HU = 3071
_LARGEST_SIDE = 768  # larger images are shrunk: lungs need no finer pixels
_FRAME_ABOVE_HU = -900  # below, a flat area reads as the air that it will be taken for
_FRAME_EDGE_SHARE = 0.02  # of the pixels along the edge that are not air
_FRAME_SHARE = 0.002  # of the image: a frame one pixel wide has twice that
_FRAME_LEAST_PX = 30
_MOST_FRAMES = 3  # one within the other


@dataclass(frozen=True)
class Encoding:
    """How an image's stored values are to be read; None where its header is silent."""

    slope: float | None
    intercept: float | None
    padding_value: float | None
    padding_limit: float | None
    is_monochrome1: bool
    is_signed: bool
    bits_stored: int


def to_hu(raw: NDArray[Any], encoding: Encoding, notes: dict[str, None]) -> Image:
    """Return Hounsfield units; padding and what lies outside the scanned circle become air.

    Parameters
    ----------
    raw : array
        Stored values, ``[y, x]``.
    notes : dict
        Remarks for the user, as keys: one counts once however many images share it.
    """
    slope, intercept = encoding.slope, encoding.intercept
    if intercept is None and raw.min() >= 0:
        notes["no rescale intercept: -1024 assumed"] = None
        intercept = float(AIR_HU)
    slope, intercept = slope or 1.0, intercept or 0.0
    hu = _rescaled(raw, slope, intercept)
    if encoding.is_monochrome1 and _border(hu) > -500:
        hu = _turned_back(hu, raw, slope, intercept, encoding, notes)
    hu[_padding(raw, encoding)] = AIR_HU
    framed = hu
    for _ in range(_MOST_FRAMES):
        clear_frame(framed)
        inner = _without_air_frame(framed)
        if inner.size in (0, framed.size):
            break
        framed = inner
    return _shrunk(hu)


def _rescaled(raw: NDArray[Any], slope: float, intercept: float) -> Image:
    if slope == 1 and intercept.is_integer() and raw.dtype.kind in "iu":
        values = raw.astype(np.int32) + np.int32(intercept)
    else:
        values = np.rint(raw * slope + intercept)
    hu: Image = np.clip(values, AIR_HU, _HIGHEST_HU).astype(np.int16)
    return hu


def _turned_back(
    hu: Image,
    raw: NDArray[Any],
    slope: float,
    intercept: float,
    encoding: Encoding,
    notes: dict[str, None],
) -> Image:
    """Undo an inversion of the stored values, if there was one.

    By the standard MONOCHROME1 changes the display only, but some writers invert the values: then
    the air around the patient reads as dense, and one of these readings makes it air again.
    """
    full_range = -1 if encoding.is_signed else (1 << encoding.bits_stored) - 1
    for ends in (full_range, 4095, int(raw.min()) + int(raw.max())):
        values = ends - raw.astype(np.int64)
        if -1300 < _border(values) * slope + intercept < -700:
            notes["MONOCHROME1 with inverted values: turned back"] = None
            return _rescaled(values, slope, intercept)
    return hu


def _border(image: NDArray[Any]) -> float:
    """Return the median along the edge, which is air around most patients."""
    edges = (image[0], image[-1], image[:, 0], image[:, -1])
    return float(np.median(np.concatenate(edges)))


def _padding(raw: NDArray[Any], encoding: Encoding) -> NDArray[np.bool_]:
    """Return the pixels that the header declares to be padding."""
    value, limit = encoding.padding_value, encoding.padding_limit
    if value is None:
        return np.zeros(raw.shape, dtype=bool)
    low, high = sorted((value, value if limit is None else limit))
    # The value is often written with the wrong sign: 63536 where the image holds -2000.
    same_bits = raw.astype(np.int64) % 65536 == int(value) % 65536
    padding: NDArray[np.bool_] = ((raw >= low) & (raw <= high)) | same_bits
    return padding


def clear_frame(hu: Image) -> None:
    """Turn a flat area at the edge of an image, above the density of air, into air.

    Such are the corners outside the scanned circle, and the frame that an archive puts round an
    image. Tissue cut by the edge is never flat: noise makes neighbours differ.
    """
    edge = np.concatenate([hu[0], hu[-1], hu[1:-1, 0], hu[1:-1, -1]])
    dense = edge[edge > _FRAME_ABOVE_HU]
    values, counts = np.unique(dense, return_counts=True)
    for value in values[counts >= max(_FRAME_EDGE_SHARE * len(dense), 3)]:
        labels, n = ndimage.label(hu == value)
        sizes = np.bincount(labels.ravel(), minlength=n + 1)
        at_edge = np.zeros(n + 1, dtype=bool)
        for side in (labels[0], labels[-1], labels[:, 0], labels[:, -1]):
            at_edge[side] = True
        is_frame = at_edge & (sizes >= max(_FRAME_SHARE * hu.size, _FRAME_LEAST_PX))
        is_frame &= sizes < hu.size  # an image of one value is no frame of anything
        is_frame[0] = False
        hu[is_frame[labels]] = AIR_HU


def _without_air_frame(hu: Image) -> Image:
    """Return the view within the outermost rows and columns that hold anything but air."""
    if (hu[0] > AIR_HU).any() and (hu[:, 0] > AIR_HU).any():
        return hu
    rows, columns = (np.flatnonzero((hu > AIR_HU).any(axis=axis)) for axis in (1, 0))
    if len(rows) == 0:
        return hu[:0]
    return hu[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def _shrunk(hu: Image) -> Image:
    factor = -(-max(hu.shape) // _LARGEST_SIDE)
    if factor == 1:
        return hu
    factor = min(factor, *hu.shape)
    rows, columns = (n // factor for n in hu.shape)
    blocks = hu[: rows * factor, : columns * factor].reshape(rows, factor, columns, factor)
    small: Image = blocks.mean(axis=(1, 3)).astype(np.int16)
    return small
