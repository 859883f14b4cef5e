"""Phantoms hold the lungs and the fibrosis they say they hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pydicom
import pytest

from tidegauge.simulate.phantoms import write_phantom
from tidegauge.simulate.thorax import Phantom, draw_phantom


def draw(seed: int, volume_ml: float, fibrosis: float) -> Phantom:
    return draw_phantom(
        lung_volume_ml=volume_ml,
        fibrosis_fraction=fibrosis,
        rng=np.random.default_rng(seed),
        slices=20,
        size=128,
    )


@pytest.mark.parametrize("volume_ml", [900, 2500, 6000, 10_000])
def test_volume_is_what_was_asked_for(volume_ml: float) -> None:
    assert draw(1, volume_ml, 0.1).lung_volume_ml == pytest.approx(volume_ml, rel=0.02)


@pytest.mark.parametrize("fibrosis", [0.0, 0.05, 0.3, 0.7])
def test_fibrosis_is_what_was_asked_for_and_shows(fibrosis: float) -> None:
    phantom = draw(2, 3500, fibrosis)
    assert phantom.fibrosis_fraction == pytest.approx(fibrosis, abs=1e-3)
    raised = (phantom.hu[phantom.lungs] > -650).mean()
    healthy = (draw(2, 3500, 0.0).hu[phantom.lungs] > -650).mean()
    assert raised == healthy if fibrosis == 0 else raised > healthy + 0.15 * fibrosis


def test_lungs_lie_inside_the_scan_and_the_body() -> None:
    phantom = draw(3, 4000, 0.2)
    assert not phantom.lungs[[0, -1]].any()
    assert not phantom.lungs[:, [0, -1]].any()
    assert not phantom.lungs[:, :, [0, -1]].any()


def test_phantoms_vary_in_spacing_size_and_storage(tmp_path: Path) -> None:
    seen = set()
    for seed in range(12):
        folder = tmp_path / str(seed)
        write_phantom(
            folder,
            lung_volume_ml=3000,
            fibrosis_fraction=0.1,
            rng=np.random.default_rng(seed),
            slices=6,
            size=48,
        )
        header = pydicom.dcmread(folder / "1.dcm")
        seen.add((header.Rows, header.Columns, header.PixelRepresentation, header.RescaleIntercept))
    sizes = {(rows, columns) for rows, columns, _, _ in seen}
    storage = {(signed, intercept) for _, _, signed, intercept in seen}
    assert len(sizes) >= 2
    assert len(storage) >= 2


def test_one_generator_state_gives_one_series(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_phantom(
            tmp_path / name,
            lung_volume_ml=3000,
            fibrosis_fraction=0.3,
            rng=np.random.default_rng(5),
            slices=4,
            size=40,
        )
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
