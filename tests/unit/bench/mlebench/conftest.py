"""A made-up checkout, its data as MLE-bench prepares them, and MLE-bench's own grading."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import mlebench_checkout as made
from tidegauge.bench.mlebench.checkout import Checkout, open_checkout
from tidegauge.bench.mlebench.competition import (
    CheckoutPrepared,
    GradeOptions,
    checkout_competition,
    open_checkout_prepared,
)

Open = Callable[..., CheckoutPrepared]
MadeGrader = Callable[..., CheckoutPrepared]


@pytest.fixture(scope="session")
def root(mlebench: Path) -> Path:
    return mlebench / "checkout"


@pytest.fixture(scope="session")
def data(mlebench: Path) -> Path:
    return mlebench / "data"


@pytest.fixture(scope="session")
def reference(root: Path, data: Path) -> Iterator[made.Reference]:
    found = made.Reference(root, data)
    yield found
    found.close()


@pytest.fixture(scope="session")
def checkout(root: Path) -> Checkout:
    return open_checkout(root)


@pytest.fixture(scope="session")
def opened(checkout: Checkout, data: Path) -> Open:
    """Open a competition, once for all tests; `options` say how it is graded."""
    found: dict[str, CheckoutPrepared] = {}

    def open_it(name: str, **options: object) -> CheckoutPrepared:
        if name not in found:
            competition = checkout_competition(checkout, name)
            found[name] = open_checkout_prepared(competition, data / name)
        if not options:
            return found[name]
        return replace(found[name], options=GradeOptions(**options))  # type: ignore[arg-type]

    return open_it


@pytest.fixture
def environment(root: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name the checkout and its data as a user does."""
    monkeypatch.setenv("TIDEGAUGE_MLEBENCH", str(root))
    monkeypatch.setenv("TIDEGAUGE_MLEBENCH_DATA", str(data))


@pytest.fixture
def with_grader(root: Path, data: Path, tmp_path: Path) -> MadeGrader:
    """A checkout of one competition, harbour-depths, with another grader."""

    def make(grade: str, *, answers: str | None = None) -> CheckoutPrepared:
        place = tmp_path / "other"
        shutil.copytree(root / "mlebench", place / "mlebench")
        folder = place / "mlebench" / "competitions" / "harbour-depths"
        (folder / "grade.py").write_text(grade)
        shutil.copytree(data / "harbour-depths" / "prepared", tmp_path / "data" / "prepared")
        if answers is not None:
            (tmp_path / "data" / "prepared" / "private" / "test.csv").write_text(answers)
        competition = checkout_competition(open_checkout(place), "harbour-depths")
        return open_checkout_prepared(competition, tmp_path / "data")

    return make
