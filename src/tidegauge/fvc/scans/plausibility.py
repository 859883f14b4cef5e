"""Whether a mask can be a pair of lungs: named findings, each with what was measured.

A finding that spoils the mask makes the scan missing. One that only cuts it short leaves densities
standing and takes size away. Others are for a person to look at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np
from scipy import ndimage

from tidegauge.fvc.scans.anatomy import edge_of_field, field_of_view
from tidegauge.fvc.scans.grid import Mask, dilated, eroded, part_sizes, smoothed
from tidegauge.fvc.scans.segmentation import LEFT, RIGHT, Lungs
from tidegauge.fvc.scans.series import Volume

_FEWEST_SLICES = 5  # fewer cannot tell a volume
_CUT_SHARE = 0.4  # of the largest section that an end of the scan, or the image's edge, cuts
# Lungs widen from the apex to a third above their base. Where the first section is as wide as any,
# and they end within the scan, it is one of the abdomen: what it shows are not the lungs.
_WIDEST_SHARE = 0.95
_OUTSIDE_SHARE = 0.01
_EDGE_ML = 0.5
# Vessels, scars and rounded edges are thin; a liver, a heart or a chest wall in the mask is not.
_SOFT_ABOVE_HU, _SOFT_OPENING_MM, _SOFT_SHARE = -100.0, 8.0, 0.012
# Even a bullous lung is mostly denser than gas; table and stomach are not.
_ABOVE_GAS_HU, _NOT_GAS_HU, _GAS_MM, _GAS_SHARE = 25.0, 60.0, 8.0, 0.06
_LEFT_OUT_SHARE = 0.05
_SMALLER_LUNG_SHARE = 0.1
_SIDES_RATIO = (0.4, 2.5)  # right to left: 1.2 in health, 1.9 under a raised diaphragm
_LARGEST_ML = 12_000.0
_DENSE_SHARE = 0.35  # above -500 HU: more is consolidation or a wrong mask
_AGREEMENT_DICE = 0.9
_AIR_BELOW_HU = -500.0
# Between a shallow breath of stiff lungs and emphysema in full inspiration.
_VOLUME_TO_FVC = (0.7, 4.0)
_VOLUME_TO_PREDICTED = (0.25, 1.5)
# Total lung capacity in litres by height in metres (European Community for Steel and Coal, 1993).
_CAPACITY_L = {"male": (7.99, -7.08), "female": (6.60, -5.79)}


class Effect(Enum):
    """What a finding does to a scan's features."""

    NOTE = "note"
    SIZE = "size missing"
    REFUSED = "refused"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong or odd.

    Attributes
    ----------
    name : str
        Such as ``outside_body``: the same wherever it is shown.
    text : str
        What was measured.
    effect : Effect
    """

    name: str
    text: str
    effect: Effect = Effect.REFUSED

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


@dataclass(frozen=True)
class Person:
    """What is known of the patient that a lung volume can be held against; None if unknown."""

    fvc_ml: float | None = None
    sex: str | None = None
    height_cm: float | None = None


def check_lungs(volume: Volume, lungs: Lungs) -> list[Finding]:
    """Return what speaks against a mask, or against its being whole."""
    return [*_wrong_place(lungs), *_wrong_size(lungs), *_not_whole(volume, lungs)]


def check_volume(volume_ml: float, person: Person) -> list[Finding]:
    """Return whether a lung volume fits the patient; nothing where it is not known."""
    if not np.isfinite(volume_ml):
        return []
    references = [(person.fvc_ml, _VOLUME_TO_FVC, "FVC")]
    if person.sex in _CAPACITY_L and person.height_cm:
        slope, intercept = _CAPACITY_L[person.sex]
        capacity_ml = 1000 * (slope * person.height_cm / 100 + intercept)
        references.append((capacity_ml, _VOLUME_TO_PREDICTED, "predicted lung capacity"))
    return [
        Finding(
            "volume_for_the_patient",
            f"{volume_ml:,.0f} ml is {volume_ml / reference:.2f} times the {what} of "
            f"{reference:,.0f} ml; {low:g} to {high:g} is usual",
            Effect.NOTE,
        )
        for reference, (low, high), what in references
        if reference and not low <= volume_ml / reference <= high
    ]


def _wrong_place(lungs: Lungs) -> Iterator[Finding]:
    """Look for what is in the mask and is no lung, and lung that is not in it."""
    lungs = lungs.within(lungs.body | lungs.mask)
    mask, hu = lungs.mask, smoothed(lungs.hu, lungs.spacing_mm)
    n = np.count_nonzero(mask)
    outside = np.count_nonzero(mask & ~lungs.body) / n
    if outside > _OUTSIDE_SHARE:
        yield Finding("outside_body", f"{outside:.1%} of the mask lies outside the body")
    soft = mask & (hu > _SOFT_ABOVE_HU)
    thick = dilated(eroded(soft, _SOFT_OPENING_MM / 2, lungs.spacing_mm), 4.0, lungs.spacing_mm)
    share = np.count_nonzero(thick & soft) / n
    if share > _SOFT_SHARE:
        yield Finding("soft_tissue_inside", f"{share:.1%} of the mask is solid and thick")
    sizes = [max(1, round(_GAS_MM / mm)) for mm in lungs.spacing_mm[1:]]
    wide = ndimage.uniform_filter(lungs.hu, (1, *sizes))  # noise must not look like gas
    # Each limit on its safe side: noise and calibration move what gas reads.
    gas_below_hu = min(lungs.gas_hu, -1000.0) + _ABOVE_GAS_HU
    lung_above_hu = max(lungs.gas_hu, -1000.0) + _NOT_GAS_HU
    gas = np.count_nonzero(mask & (wide < gas_below_hu)) / n
    if gas > _GAS_SHARE:
        yield Finding("gas_inside", f"{gas:.1%} of the mask is gas without tissue")
    air = lungs.body & (hu < _AIR_BELOW_HU)
    left_out = _inner_air(lungs, air & ~mask & (wide > lung_above_hu)) / n
    if left_out > _LEFT_OUT_SHARE:
        yield Finding("air_left_out", f"air of {left_out:.1%} of the mask lies outside it")
    agreement = _agreement(mask & air, air)
    if agreement < _AGREEMENT_DICE:
        yield Finding(
            "methods_disagree",
            f"a plain threshold finds other lungs (Dice {agreement:.2f})",
            Effect.NOTE,
        )
    dense = 1 - np.count_nonzero(mask & (hu < _AIR_BELOW_HU)) / n
    if dense > _DENSE_SHARE:
        yield Finding(
            "dense", f"{dense:.0%} of the mask is denser than {_AIR_BELOW_HU:.0f} HU", Effect.NOTE
        )


def _inner_air(lungs: Lungs, air: Mask) -> int:
    """Count the voxels of parts of 50 ml and more, so that airways and bowel do not count."""
    labels, n = ndimage.label(air)
    sizes = part_sizes(labels, n)
    return int(sizes[sizes * lungs.voxel_ml >= 50].sum())


def _agreement(mask: Mask, air: Mask) -> float:
    """Return the Dice of the aerated mask and the large parts of all air in the body."""
    labels, n = ndimage.label(air)
    sizes = part_sizes(labels, n)
    plain = (sizes >= max(0.08 * sizes.max(), 1))[labels]
    both = int(np.count_nonzero(mask)) + int(np.count_nonzero(plain))
    return 2.0 * int(np.count_nonzero(mask & plain)) / max(both, 1)


def _wrong_size(lungs: Lungs) -> Iterator[Finding]:
    right, left = (np.count_nonzero(lungs.side == side) for side in (RIGHT, LEFT))
    if min(right, left) < _SMALLER_LUNG_SHARE * max(right, left):
        name = "right" if right < left else "left"
        yield Finding("one_lung_missing", f"the {name} lung is not found")
    elif not _SIDES_RATIO[0] <= right / left <= _SIDES_RATIO[1]:
        yield Finding(
            "uneven_lungs", f"the right lung is {right / left:.1f} times the left", Effect.NOTE
        )
    if lungs.volume_ml > _LARGEST_ML:
        text = f"{lungs.volume_ml:,.0f} ml, more than {_LARGEST_ML:,.0f} in anyone"
        yield Finding("volume", text)


def _not_whole(volume: Volume, lungs: Lungs) -> Iterator[Finding]:
    """Look for lungs that the scan shows in part only."""
    areas = lungs.mask.sum(axis=(1, 2))
    ends = {"top": areas[0], "bottom": areas[-1]}
    cut = [end for end, area in ends.items() if area > _CUT_SHARE * areas.max()]
    if cut == ["top"] and ends["top"] > _WIDEST_SHARE * areas.max():
        yield Finding("bases_alone", "the scan begins below the widest part of the lungs")
    if (n := len(volume.hu)) < _FEWEST_SLICES:
        yield Finding("few_slices", f"{n} slices cannot tell a volume", Effect.SIZE)
        return
    if not volume.is_spaced:
        text = "nothing says how far apart the slices are; their thickness is taken"
        yield Finding("distance_unknown", text, Effect.SIZE)
    if volume.missing_mm > 0:
        yield Finding("gap", f"{volume.missing_mm:.0f} mm have no slice", Effect.SIZE)
    if cut:
        text = f"the scan ends within the lungs at the {' and '.join(cut)}"
        yield Finding("cut_off", text, Effect.SIZE)
    at_edge = lungs.mask & edge_of_field(field_of_view(lungs.hu))
    at_edge_ml = np.count_nonzero(at_edge) * lungs.voxel_ml
    if at_edge_ml > _EDGE_ML:
        yield Finding("cut_at_side", "the image cuts through the lungs", Effect.SIZE)
