"""The command line called in the test's own process."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Said(NamedTuple):
    code: int
    out: str
    err: str


Call = Callable[..., Said]
