"""A few spoiled inputs for every reader; `make fuzz` has many more."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz_readers import Target, fuzz, targets


@pytest.fixture(scope="module")
def every_target(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Target]:
    return targets(tmp_path_factory.mktemp("fuzz"))


def test_no_reader_fails_on_spoiled_input(
    every_target: dict[str, Target], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("inputs")
    findings = {}
    for reader, target in every_target.items():
        # With hashes that fit, a whole result is loaded: fifty times what other readers take.
        inputs = 50 if "forged" in reader else 150
        if found := fuzz(target, folder, inputs=inputs, seed=7).findings:
            findings[reader] = found
    assert findings == {}


def test_every_reader_reads_its_valid_input(
    every_target: dict[str, Target], tmp_path: Path
) -> None:
    """Otherwise refusing everything would pass."""
    for target in every_target.values():
        path = tmp_path / "input"
        path.write_bytes(target.wrap(target.valid))
        target.read(path)
