"""Lung volume from DICOM files against the true volume of phantoms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from tidegauge.fvc.scans.cache import scan_features
from tidegauge.fvc.scans.segmentation import segment_lungs
from tidegauge.fvc.scans.series import Volume
from tidegauge.simulate.osic import simulate_cohort, write_raw
from tidegauge.simulate.thorax import draw_phantom


def test_volumes_of_a_cohort_within_5_percent_for_95_percent(tmp_path: Path) -> None:
    write_raw(simulate_cohort(n_patients=24, seed=31), tmp_path, scans=True, seed=31)
    truth = pd.read_csv(tmp_path / "truth" / "truth.csv").set_index("Patient")
    found = scan_features(tmp_path / "train", list(truth.index), workers=1)
    assert found.warnings == []
    error = found.table["lung_volume_ml"] / truth["lung_volume_ml"] - 1
    assert (error.abs() < 0.05).mean() >= 0.95
    # What a forecaster sees: fibrosis is in the features.
    r = found.table["high_attenuation_share"].corr(truth["fibrosis_fraction"])
    assert r > 0.8


def test_volumes_of_fibrotic_lungs_within_5_percent_for_95_percent() -> None:
    errors = []
    for index, fibrosis in enumerate(np.linspace(0.2, 0.65, 40)):
        phantom = draw_phantom(
            lung_volume_ml=1500 + 100 * index,
            fibrosis_fraction=fibrosis,
            rng=np.random.default_rng([7, index]),
            slices=20,
            size=144,
        )
        volume = Volume(np.maximum(phantom.hu, -1024), phantom.spacing_mm)
        errors.append(segment_lungs(volume).volume_ml / phantom.lung_volume_ml - 1)
    assert np.mean(np.abs(errors) < 0.05) >= 0.95
