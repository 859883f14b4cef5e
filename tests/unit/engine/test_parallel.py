"""parallel_map keeps order, whatever does the work."""

from __future__ import annotations

import math

import pytest

from tidegauge.engine.parallel import parallel_map


@pytest.mark.parametrize("workers", [1, 2])
def test_parallel_map_against_the_builtin(workers: int) -> None:
    items = list(range(20))
    assert parallel_map(math.factorial, items, workers=workers) == [*map(math.factorial, items)]


def test_parallel_map_of_nothing_is_empty() -> None:
    assert parallel_map(math.factorial, []) == []


def test_an_exception_in_a_worker_reaches_the_caller() -> None:
    with pytest.raises(ValueError, match="factorial"):
        parallel_map(math.factorial, [3, -1], workers=2)
