"""A thorax on CT whose lung volume and fibrosis are known.

The anatomy is drawn from formulas at a reference scale (a lung pair of about 4 litres) and scaled
to the wanted volume. Axes are the patient's: x to the left, y to the back, z index from the head.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

FloatArray = NDArray[np.float32]
Mask = NDArray[np.bool_]

AIR_HU, TISSUE_HU, FAT_HU = -1000, 40, -100
_LUNG_RANGE_ML = (700.0, 11_000.0)
_FIBROSIS_RANGE = (0.0, 0.75)
_CONSOLIDATED_SHARE = 0.06  # of the fibrotic lung: usual pneumonia is net and cysts, little solid
_LUNG_HEIGHT_MM = 230.0
_BODY_MM = (165.0, 118.0)  # half axes, left-right and front-back
_MARGIN = (0.07, 0.05)  # scanned above the apex and below the base, in lung heights
_PADDING_HU = -2000


@dataclass(frozen=True)
class Phantom:
    """A drawn scan and its truth.

    Attributes
    ----------
    hu : int16 array
        Hounsfield units, ``[z, y, x]`` from head to feet.
    spacing_mm : tuple of float
        Between voxel centres, in the order of the axes.
    lungs : bool array
        The true lungs: vessels and fibrosis included, trachea and main bronchi not.
    fibrosis_fraction : float
        Share of the lungs that is fibrotic.
    """

    hu: NDArray[np.int16]
    spacing_mm: tuple[float, float, float]
    lungs: Mask
    fibrosis_fraction: float

    @property
    def lung_volume_ml(self) -> float:
        """The volume of the true lungs."""
        return float(self.lungs.sum() * np.prod(self.spacing_mm) / 1000)


@dataclass(frozen=True)
class _Frame:
    """Where each voxel lies in the reference anatomy: mm, and lung heights below the apex."""

    x: FloatArray
    y: FloatArray
    depth: FloatArray


def draw_phantom(
    *,
    lung_volume_ml: float,
    fibrosis_fraction: float,
    rng: np.random.Generator,
    slices: int = 24,
    size: int = 160,
) -> Phantom:
    """Draw one patient's thorax.

    Parameters
    ----------
    lung_volume_ml, fibrosis_fraction : float
        What to aim at; the phantom says what the voxels hold.
    slices, size : int
        About how many images, and their larger side in pixels.
    """
    shape_xyz = rng.uniform((0.94, 0.94, 0.92), (1.06, 1.06, 1.1))
    target_ml = np.clip(lung_volume_ml, *_LUNG_RANGE_ML)
    scale = shape_xyz * (target_ml / _reference_volume_ml(float(np.prod(shape_xyz)))) ** (1 / 3)
    n_slices = max(3, round(slices * rng.uniform(0.85, 1.2)))
    rows, columns = _image_size(size, rng)
    field_mm = 2 * _BODY_MM[0] * scale[0] * rng.uniform(1.08, 1.3)
    pixel_mm = field_mm / max(rows, columns)
    slice_mm = _LUNG_HEIGHT_MM * scale[2] * (1 + sum(_MARGIN)) / n_slices
    frame = _frame(n_slices, (rows, columns), pixel_mm, scale, rng)

    right, left, lungs = _lungs(frame)
    hu, airways = _body(frame, rng)
    lungs &= ~airways
    fibrosis = np.clip(fibrosis_fraction, *_FIBROSIS_RANGE)
    spacing = (slice_mm, pixel_mm, pixel_mm)
    realised = _fill_lungs(hu, lungs, np.minimum(right, left), frame, spacing, fibrosis, rng)
    hu = ndimage.gaussian_filter(hu, (0, 0.6, 0.6))  # the scanner's point spread
    hu += rng.normal(scale=rng.uniform(10, 30), size=hu.shape).astype(np.float32)
    if rng.random() < 0.3:
        _pad_outside_circle(hu)
    return Phantom(np.rint(hu).astype(np.int16), spacing, lungs, realised)


def _image_size(size: int, rng: np.random.Generator) -> tuple[int, int]:
    side = size if rng.random() < 0.7 else size * 7 // 8
    rows = side if rng.random() < 0.85 else side * 9 // 10
    return rows, side


def _frame(
    n_slices: int,
    shape: tuple[int, int],
    pixel_mm: float,
    scale: NDArray[np.float64],
    rng: np.random.Generator,
) -> _Frame:
    """Coordinates of every voxel for a patient who lies a little off centre and turned."""
    angle = np.deg2rad(rng.normal(scale=2.5))
    shift = rng.normal(scale=5, size=2)
    y, x = ((np.arange(n) - (n - 1) / 2) * pixel_mm for n in shape)
    x, y = x[None, :] - shift[0], y[:, None] - shift[1]
    turned_x = (np.cos(angle) * x - np.sin(angle) * y) / scale[0]
    turned_y = (np.sin(angle) * x + np.cos(angle) * y) / scale[1]
    above, below = _MARGIN
    depth = -above + (np.arange(n_slices) + 0.5) / n_slices * (1 + above + below)
    return _Frame(
        turned_x[None].astype(np.float32),
        turned_y[None].astype(np.float32),
        depth[:, None, None].astype(np.float32),
    )


def _lungs(frame: _Frame) -> tuple[FloatArray, FloatArray, Mask]:
    """Return each lung's radius field (0 at its axis, 1 at the pleura) and the union of both."""
    right = _lung_radius(frame, side=-1, dome=0.30)
    left = _lung_radius(frame, side=1, dome=0.24)
    heart = _ellipsoid(frame, centre=(22, -28, 0.68), radii=(54, 48, 0.27)) < 1
    mediastinum = (frame.x / 24) ** 2 + ((frame.y - 5) / 75) ** 2 < 1
    lungs: Mask = ((right < 1) | (left < 1)) & ~heart & ~mediastinum
    return right, left, lungs


def _lung_radius(frame: _Frame, *, side: int, dome: float) -> FloatArray:
    depth = frame.depth
    growth = np.sqrt(np.clip(1 - (1 - np.clip(depth / 0.6, 0, 1)) ** 2, 1e-6, 1))
    dx = (frame.x - side * 72 * (0.72 + 0.28 * growth)) / (56 * growth)
    dy = frame.y / (86 * growth)
    radius = (np.abs(dx) ** 2.3 + np.abs(dy) ** 2.3) ** np.float32(1 / 2.3)
    # Liver and spleen push a dome into the base; the recess beside and behind it reaches lowest.
    floor = 1 - dome * np.exp(-(((side * dx + 0.4) / 0.95) ** 2) - ((dy + 0.35) / 0.95) ** 2)
    outside = (depth <= 0) | (depth >= floor)
    field: FloatArray = np.where(outside, np.float32(9), radius).astype(np.float32)
    return field


def _ellipsoid(
    frame: _Frame, *, centre: tuple[float, float, float], radii: tuple[float, float, float]
) -> FloatArray:
    parts = zip((frame.x, frame.y, frame.depth), centre, radii, strict=True)
    total: FloatArray = sum(((axis - at) / radius) ** 2 for axis, at, radius in parts)  # type: ignore[assignment]
    return total


def _reference_volume_ml(stretch: float) -> float:
    """Lung volume at unit scale times `stretch`, counted on a 5 mm grid."""
    x = np.arange(-150, 151, 5, dtype=np.float32)[None, None, :]
    y = np.arange(-110, 111, 5, dtype=np.float32)[None, :, None]
    depth = (np.arange(0.5, 46) / 46).astype(np.float32)[:, None, None]
    lungs = _lungs(_Frame(x, y, depth))[2]
    return float(lungs.sum() * 25 * _LUNG_HEIGHT_MM / 46 / 1000 * stretch)


def _body(frame: _Frame, rng: np.random.Generator) -> tuple[FloatArray, Mask]:
    """Paint everything but the lungs; return it and the large airways."""
    half_x, half_y = _BODY_MM
    x, y, depth = np.broadcast_arrays(frame.x, frame.y, frame.depth)
    radius = (np.abs(x / half_x) ** 2.3 + np.abs(y / half_y) ** 2.3) ** np.float32(1 / 2.3)
    hu = np.full(radius.shape, AIR_HU, dtype=np.float32)
    table = y - half_y + 0.0006 * x**2  # curved up at its sides
    hu[(table > -1) & (table < 24)] = -940  # foam between two sheets
    hu[((table > -1) & (table < 3)) | ((table > 20) & (table < 24))] = -150
    hu[radius < 1] = FAT_HU
    hu[radius < 0.93] = TISSUE_HU
    ribs = np.sin(2 * np.pi * (depth * 10 + 1.2 * np.abs(np.arctan2(y, x)))) > 0.3
    hu[(radius > 0.86) & (radius < 0.91) & ribs] = 420
    hu[np.hypot(x, y - 88) < 19] = 260  # spine
    if rng.random() < 0.4:  # gas in the stomach
        hu[_ellipsoid(frame, centre=(70, -35, 0.98), radii=(25, 22, 0.05)) < 1] = AIR_HU
    wall, lumen = _airways(frame, 1.3), _airways(frame, 1.0)
    hu[wall] = 20
    hu[lumen] = -985
    return hu, lumen


def _airways(frame: _Frame, widening: float) -> Mask:
    """Trachea down to the carina, then a main bronchus to each side, which opens into the lung."""
    x, y, depth = frame.x, frame.y - 8, frame.depth
    trachea = (x**2 + y**2 < (9 * widening) ** 2) & (depth < 0.4)
    along = (depth - 0.38) / 0.14
    within = (along > 0) & (along < 1)
    slanted = ((np.abs(x) - 34 * along) / 10.5) ** 2 + (y / 6) ** 2 < widening**2
    airways: Mask = trachea | (within & slanted & (np.abs(x) < 32))
    return airways


def _fill_lungs(
    hu: FloatArray,
    lungs: Mask,
    radius: FloatArray,
    frame: _Frame,
    spacing_mm: tuple[float, float, float],
    fibrosis: float,
    rng: np.random.Generator,
) -> float:
    """Paint parenchyma, vessels and fibrosis; return the fibrotic share of the lungs."""

    def field(scale_mm: float) -> FloatArray:
        return _smooth_field(hu.shape, spacing_mm, scale_mm, rng)[lungs]

    depth = np.broadcast_to(frame.depth, hu.shape)[lungs]
    gravity = np.broadcast_to(frame.y, hu.shape)[lungs] / 86
    rim = radius[lungs]
    inside = rng.normal(-860, 15) + 35 * gravity + 12 * field(12)
    # Where two smooth fields both vanish lie curves: they serve as vessels, thinner outwards.
    vessels = np.hypot(field(14), field(14)) < 0.42 * (1.05 - rim)
    inside[vessels] = 30
    # Basal and below the pleura, in patches, as usual interstitial pneumonia is.
    burden = 1.3 * rim**3 + 0.9 * depth + 0.35 * field(18)
    fibrotic = burden >= np.quantile(burden, 1 - fibrosis) if fibrosis > 0 else burden > np.inf
    mesh = np.exp(-((field(5) / 0.35) ** 2))  # walls of a net with wide and narrow meshes
    inside = np.where(fibrotic, -780 + 90 * field(8) + 560 * mesh, inside)
    dense = 0.8 * rim**2 + 0.5 * field(14)
    if fibrotic.any():
        limit = np.quantile(dense[fibrotic], 1 - _CONSOLIDATED_SHARE)
        solid = fibrotic & (dense >= limit)
        inside[solid] = -20 + 30 * field(6)[solid]
    hu[lungs] = inside
    return float(fibrotic.mean()) if fibrotic.size else 0.0


def _smooth_field(
    shape: tuple[int, ...],
    spacing_mm: tuple[float, float, float],
    scale_mm: float,
    rng: np.random.Generator,
) -> FloatArray:
    """Noise of unit variance that varies over about `scale_mm`, or one voxel where that is more."""
    steps = [max(1.0, 1.25 * scale_mm / mm) for mm in spacing_mm]
    knots = tuple(int(np.ceil(n / step)) + 2 for n, step in zip(shape, steps, strict=True))
    field = rng.normal(size=knots).astype(np.float32)
    for axis, (n, step) in enumerate(zip(shape, steps, strict=True)):
        at = (np.arange(n, dtype=np.float32) + rng.random(dtype=np.float32)) / np.float32(step)
        low = at.astype(np.intp)
        weight = (at - low).reshape([-1 if a == axis else 1 for a in range(3)])
        field = np.take(field, low, axis) * (1 - weight) + np.take(field, low + 1, axis) * weight
    scaled: FloatArray = field / field.std()
    return scaled


def _pad_outside_circle(hu: FloatArray) -> None:
    rows, columns = hu.shape[1:]
    y = (np.arange(rows) - (rows - 1) / 2)[:, None] / (max(rows, columns) / 2)
    x = (np.arange(columns) - (columns - 1) / 2)[None] / (max(rows, columns) / 2)
    hu[:, x**2 + y**2 > 1] = _PADDING_HU
