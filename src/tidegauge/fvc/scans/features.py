"""Numbers from a segmented scan: size, density and texture of the lungs, each with its range.

All of them are measured on the smoothed grid of about 2 mm that the segmentation works on. On the
pixels of the scan they would follow the reconstruction kernel: noise alone puts a tenth of the
voxels of a sharp kernel below -950 HU.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from tidegauge.fvc.scans.grid import smoothed
from tidegauge.fvc.scans.plausibility import Effect, Finding, check_lungs
from tidegauge.fvc.scans.segmentation import Lungs
from tidegauge.fvc.scans.series import Volume

FloatArray = NDArray[np.floating]

_EMPHYSEMA_BELOW_HU = -950
_HIGH_ATTENUATION_HU = (-600, -250)
_RIM_MM = 12.0
_GREY_LEVEL_HU = 50.0  # of the co-occurrence matrix
_ENTROPY_STEP_HU = 16.0
THIRDS = ("upper", "middle", "lower")


class Feature(NamedTuple):
    """What a column holds: its unit, what a living adult can have, and its meaning."""

    unit: str
    lowest: float
    highest: float
    meaning: str


_SHARE = ("share", 0.0, 1.0)
FEATURES: dict[str, Feature] = {
    "lung_volume_ml": Feature("ml", 300, 12_000, "both lungs, without the trachea"),
    "lung_height_mm": Feature("mm", 60, 450, "from apex to base"),
    "lung_mass_g": Feature("g", 100, 4_000, "volume times density, air as 0 and water as 1 g/ml"),
    "mean_hu": Feature("HU", -980, -50, "mean density"),
    "sd_hu": Feature("HU", 10, 600, "standard deviation of density"),
    "p10_hu": Feature("HU", -1024, -100, "10th percentile"),
    "p25_hu": Feature("HU", -1024, 0, "25th percentile"),
    "median_hu": Feature("HU", -1024, 50, "50th percentile"),
    "p75_hu": Feature("HU", -1024, 100, "75th percentile"),
    "p90_hu": Feature("HU", -1000, 300, "90th percentile"),
    "skewness": Feature("1", -5, 15, "skewness of density; fibrosis lowers it"),
    "kurtosis": Feature("1", -3, 200, "excess kurtosis of density; fibrosis lowers it"),
    "low_attenuation_share": Feature(*_SHARE, "below -950 HU: emphysema"),
    "high_attenuation_share": Feature(*_SHARE, "-600 to -250 HU: ground glass, reticulation"),
    "dense_share": Feature(*_SHARE, "above -250 HU: consolidation, vessels"),
    "entropy_bits": Feature("bits", 0, 12, "entropy of density in steps of 16 HU"),
    "gradient_hu_per_mm": Feature("HU/mm", 0, 500, "mean slope of density within a slice"),
    "homogeneity_share": Feature(*_SHARE, "co-occurrence homogeneity of neighbours, 50 HU steps"),
    "contrast": Feature("1", 0, 400, "co-occurrence contrast of neighbours, 50 HU steps"),
    "rim_mean_hu": Feature("HU", -980, 50, "mean density within 12 mm of the edge"),
    "rim_high_attenuation_share": Feature(*_SHARE, "-600 to -250 HU within 12 mm of the edge"),
}
for _third in THIRDS:
    FEATURES |= {
        f"{_third}_volume_share": Feature(*_SHARE, f"of the lungs, {_third} third of their height"),
        f"{_third}_mean_hu": Feature("HU", -1000, 50, f"mean density, {_third} third"),
        f"{_third}_high_attenuation_share": Feature(*_SHARE, f"-600 to -250 HU, {_third} third"),
        f"{_third}_dense_share": Feature(*_SHARE, f"above -250 HU, {_third} third"),
    }
_NEEDS_WHOLE_LUNGS = (
    *("lung_volume_ml", "lung_height_mm", "lung_mass_g"),
    *(name for name in FEATURES if name.startswith(THIRDS)),
)


@dataclass(frozen=True)
class Measured:
    """What a scan says.

    Attributes
    ----------
    values : dict
        A value for every feature, NaN where there is none.
    findings : list of Finding
        What speaks against them.
    notes : list of str
        What the reader left out or assumed.
    """

    values: dict[str, float]
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_refused(self) -> bool:
        """Whether the scan cannot be trusted; then every value is missing."""
        return any(finding.effect is Effect.REFUSED for finding in self.findings)

    @property
    def warnings(self) -> list[str]:
        """Notes and findings, one line each."""
        return [*self.notes, *map(str, self.findings)]


def measure_lungs(volume: Volume, lungs: Lungs) -> Measured:
    """Measure every feature of `FEATURES`; what cannot be known or true is NaN with a finding."""
    findings = check_lungs(volume, lungs)
    lungs = lungs.within(lungs.mask)
    lungs = replace(lungs, hu=_smoothed_inside(lungs))
    values = _density(lungs.hu[lungs.mask]) | _thirds(lungs) | _texture(lungs)
    values |= _size(values["mean_hu"], lungs)
    effects = {finding.effect for finding in findings}
    if Effect.REFUSED in effects:
        values = dict.fromkeys(values, np.nan)
    elif Effect.SIZE in effects:
        values |= dict.fromkeys(_NEEDS_WHOLE_LUNGS, np.nan)
    for name, feature in FEATURES.items():
        if not (feature.lowest <= values[name] <= feature.highest or np.isnan(values[name])):
            text = (
                f"{name}={values[name]:.4g} {feature.unit} is outside "
                f"{feature.lowest:g} to {feature.highest:g} and missing"
            )
            findings.append(Finding("out_of_range", text, Effect.NOTE))
            values[name] = np.nan
    values = {name: values[name] for name in FEATURES}
    return Measured(values, findings, list(volume.warnings))


def _size(mean_hu: float, lungs: Lungs) -> dict[str, float]:
    n_slices = int(lungs.mask.any(axis=(1, 2)).sum())
    return {
        "lung_volume_ml": lungs.volume_ml,
        "lung_height_mm": n_slices * lungs.spacing_mm[0],
        "lung_mass_g": lungs.volume_ml * (mean_hu + 1000) / 1000,
    }


def _smoothed_inside(lungs: Lungs) -> NDArray[np.float32]:
    """Smooth the lungs alone: the chest wall must not leak into their density."""
    inside = lungs.mask.astype(np.float32)
    weight = smoothed(inside, lungs.spacing_mm)
    total = smoothed(lungs.hu * inside, lungs.spacing_mm)
    return np.asarray(total / np.maximum(weight, 1e-3), dtype=np.float32)


def _density(hu: FloatArray) -> dict[str, float]:
    mean = float(hu.mean(dtype=np.float64))
    sd = float(hu.std(dtype=np.float64)) or np.nan
    z = (hu - mean) / sd
    names = ("p10_hu", "p25_hu", "median_hu", "p75_hu", "p90_hu")
    percentiles = np.quantile(hu, [0.1, 0.25, 0.5, 0.75, 0.9])
    counts = np.bincount(np.floor((hu - hu.min()) / _ENTROPY_STEP_HU).astype(np.intp))
    weights = counts[counts > 0] / len(hu)
    return {
        "mean_hu": mean,
        "sd_hu": sd,
        **dict(zip(names, map(float, percentiles), strict=True)),
        "skewness": float(np.mean(z**3, dtype=np.float64)),
        "kurtosis": float(np.mean(z**4, dtype=np.float64)) - 3,
        "low_attenuation_share": _mean(hu < _EMPHYSEMA_BELOW_HU),
        "high_attenuation_share": _high_attenuation(hu),
        "dense_share": _dense(hu),
        "entropy_bits": float(-(weights * np.log2(weights)).sum()),
    }


def _high_attenuation(hu: FloatArray) -> float:
    low, high = _HIGH_ATTENUATION_HU
    return _mean((hu >= low) & (hu < high))


def _dense(hu: FloatArray) -> float:
    return _mean(hu >= _HIGH_ATTENUATION_HU[1])


def _thirds(lungs: Lungs) -> dict[str, float]:
    """Measure the lungs in three parts of equal height, from the head."""
    slices = np.flatnonzero(lungs.mask.any(axis=(1, 2)))
    first, height = slices[0], slices[-1] - slices[0] + 1
    n_voxels = np.count_nonzero(lungs.side)
    values: dict[str, float] = {}
    for index, third in enumerate(THIRDS):
        start, stop = (first - (-height * k // len(THIRDS)) for k in (index, index + 1))
        hu = lungs.hu[start:stop][lungs.mask[start:stop]]
        values |= {
            f"{third}_volume_share": len(hu) / n_voxels,
            f"{third}_mean_hu": _mean(hu),
            f"{third}_high_attenuation_share": _high_attenuation(hu),
            f"{third}_dense_share": _dense(hu),
        }
    return values


def _texture(lungs: Lungs) -> dict[str, float]:
    """How density changes from place to place, and what it is near the edge."""
    mask, pixels_mm = lungs.mask, lungs.spacing_mm[1:]
    steps, slopes, rims = [], [], []
    for index in np.flatnonzero(mask.any(axis=(1, 2))):
        inside, hu = mask[index], lungs.hu[index]
        pairs = inside[:, 1:] & inside[:, :-1]
        steps.append((hu[:, 1:] - hu[:, :-1])[pairs])
        rows, columns = (np.diff(hu, axis=a)[: hu.shape[0] - 1, : hu.shape[1] - 1] for a in (0, 1))
        whole = inside[:-1, :-1] & inside[1:, :-1] & inside[:-1, 1:]
        slopes.append(np.hypot(rows / pixels_mm[0], columns / pixels_mm[1])[whole])
        padded = np.pad(inside, 1)
        depth = ndimage.distance_transform_edt(padded, sampling=pixels_mm)[1:-1, 1:-1]
        rims.append(hu[inside & (depth <= _RIM_MM)])
    levels = np.concatenate(steps) / _GREY_LEVEL_HU
    slope, rim = np.concatenate(slopes), np.concatenate(rims)
    low, high = _HIGH_ATTENUATION_HU
    return {
        "gradient_hu_per_mm": _mean(slope),
        "homogeneity_share": _mean(1 / (1 + levels**2)),
        "contrast": _mean(levels**2),
        "rim_mean_hu": _mean(rim),
        "rim_high_attenuation_share": _mean((rim >= low) & (rim < high)),
    }


def _mean(values: NDArray[np.floating | np.bool_]) -> float:
    return float(np.mean(values, dtype=np.float64)) if values.size else np.nan
