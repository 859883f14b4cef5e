"""Wrong masks are named, right ones are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import ndimage

from tidegauge.fvc.scans.features import measure_lungs
from tidegauge.fvc.scans.plausibility import Effect, Person, check_lungs, check_volume
from tidegauge.fvc.scans.segmentation import LEFT, RIGHT, Lungs, segment_lungs
from tidegauge.fvc.scans.series import Volume
from tidegauge.simulate.thorax import draw_phantom


@pytest.fixture(scope="module")
def volume() -> Volume:
    drawn = draw_phantom(
        lung_volume_ml=4000,
        fibrosis_fraction=0.1,
        rng=np.random.default_rng(2),
        slices=20,
        size=144,
    )
    return Volume(np.maximum(drawn.hu, -1024), drawn.spacing_mm)


@pytest.fixture(scope="module")
def lungs(volume: Volume) -> Lungs:
    return segment_lungs(volume)


def names(volume: Volume, lungs: Lungs) -> set[str]:
    return {finding.name for finding in check_lungs(volume, lungs)}


def test_a_right_mask_has_no_finding(volume: Volume, lungs: Lungs) -> None:
    assert names(volume, lungs) == set()


def with_table_air(lungs: Lungs) -> Lungs:
    side = lungs.side.copy()
    side[:, -12:] = RIGHT
    return replace(lungs, side=side)


def with_heart(lungs: Lungs) -> Lungs:
    side = lungs.side.copy()
    for image in side:  # a convex hull across the mediastinum would do this
        columns = np.flatnonzero((image > 0).any(axis=0))
        rows = np.flatnonzero((image > 0).any(axis=1))
        if len(columns):
            box = np.s_[rows[0] : rows[-1], columns[0] : columns[-1]]
            image[box] = np.where(image[box] == 0, RIGHT, image[box])
    return replace(lungs, side=side)


def without_left(lungs: Lungs) -> Lungs:
    return replace(lungs, side=np.where(lungs.side == LEFT, 0, lungs.side).astype(np.uint8))


def without_upper_half(lungs: Lungs) -> Lungs:
    side = lungs.side.copy()
    side[: len(side) // 2] = 0
    return replace(lungs, side=side)


@pytest.mark.parametrize(
    ("spoil", "name"),
    [
        (with_table_air, "outside_body"),
        (with_heart, "soft_tissue_inside"),
        (without_left, "one_lung_missing"),
        (without_upper_half, "air_left_out"),
    ],
)
def test_a_wrong_mask_is_refused_by_name(
    volume: Volume, lungs: Lungs, spoil: Callable[[Lungs], Lungs], name: str
) -> None:
    found = {finding.name: finding for finding in check_lungs(volume, spoil(lungs))}
    assert found[name].effect is Effect.REFUSED


def test_gas_in_the_mask_is_named(volume: Volume, lungs: Lungs) -> None:
    hu = lungs.hu.copy()
    emptied = ndimage.binary_erosion(lungs.mask, iterations=2) & (lungs.side == LEFT)
    hu[emptied] = -1000
    assert "gas_inside" in names(volume, replace(lungs, hu=hu))


@pytest.mark.parametrize(
    ("kept", "name"),
    [(np.s_[:3], "few_slices"), (np.s_[:12], "cut_off")],
)
def test_part_of_the_lungs_costs_size_only(volume: Volume, kept: slice, name: str) -> None:
    part = Volume(volume.hu[kept] if name == "cut_off" else volume.hu[8:11], volume.spacing_mm)
    found = {finding.name: finding.effect for finding in check_lungs(part, segment_lungs(part))}
    assert found[name] is Effect.SIZE
    assert Effect.REFUSED not in found.values()


@pytest.mark.parametrize(
    ("first", "expected"), [(2, set()), (4, {"cut_off"}), (9, {"cut_off", "bases_alone"})]
)
def test_a_scan_that_begins_below_the_widest_part_is_refused(
    volume: Volume, first: int, expected: set[str]
) -> None:
    part = Volume(volume.hu[first:], volume.spacing_mm)
    lungs = segment_lungs(part)
    assert names(part, lungs) == expected
    assert measure_lungs(part, lungs).is_refused is ("bases_alone" in expected)


def test_a_gap_costs_size_only(volume: Volume, lungs: Lungs) -> None:
    torn = replace(volume, missing_mm=60.0)
    assert [(f.name, f.effect) for f in check_lungs(torn, lungs)] == [("gap", Effect.SIZE)]


def test_slices_at_an_unknown_distance_cost_size_only(volume: Volume, lungs: Lungs) -> None:
    counted = replace(volume, is_spaced=False)
    found = [(f.name, f.effect) for f in check_lungs(counted, lungs)]
    assert found == [("distance_unknown", Effect.SIZE)]


@pytest.mark.parametrize(
    ("volume_ml", "person", "expected"),
    [
        (4000, Person(), 0),
        (4000, Person(fvc_ml=2700), 0),
        (9000, Person(fvc_ml=1500), 1),
        (4000, Person(sex="male", height_cm=175), 0),
        (1500, Person(sex="male", height_cm=185), 1),
        (float("nan"), Person(fvc_ml=100), 0),
    ],
)
def test_volume_is_held_against_the_patient(
    volume_ml: float, person: Person, expected: int
) -> None:
    found = check_volume(volume_ml, person)
    assert len(found) == expected
    assert all(f.name == "volume_for_the_patient" for f in found)
