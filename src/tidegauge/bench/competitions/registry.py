"""The registry: competitions found through the entry point group ``tidegauge.competitions``."""

from __future__ import annotations

import importlib
from importlib.metadata import EntryPoint, entry_points

from tidegauge.bench.competitions.base import Competition
from tidegauge.errors import InputError, did_you_mean

GROUP = "tidegauge.competitions"

# Those that ship are also named here, so that a source tree works without being installed.
_SHIPPED = {
    "osic": "tidegauge.bench.competitions.osic:OSIC",
    "surge": "tidegauge.bench.competitions.surge:SURGE",
}


def competition_names() -> list[str]:
    """Return the names of all competitions, without importing any."""
    return sorted(_entry_points())


def get_competition(name: str) -> Competition:
    """Return a competition by its name or by its full competition id.

    Raises
    ------
    InputError
        There is none of that name, or the package that provides it cannot be imported.
    """
    if name in _SHIPPED:  # without a search through every installed package
        return _load(EntryPoint(name, _SHIPPED[name], GROUP))
    points = _entry_points()
    if name in points:
        return _load(points[name])
    for point in points.values():
        try:
            competition = _load(point)
        except InputError:
            continue  # a broken one must not hide the others
        if competition.competition_id == name:
            return competition
    raise InputError(
        f"no competition {name!r}{did_you_mean(name, points)}; there are: "
        f"{', '.join(sorted(points))} "
        f"(others come from packages with an entry point in {GROUP})"
    )


def _entry_points() -> dict[str, EntryPoint]:
    shipped = {name: EntryPoint(name, value, GROUP) for name, value in _SHIPPED.items()}
    return {point.name: point for point in entry_points(group=GROUP)} | shipped


def _load(point: EntryPoint) -> Competition:
    try:
        module, _, attribute = point.value.partition(":")
        competition = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a third party's import can fail in any way
        raise InputError(
            f"competition {point.name!r} ({point.value}) cannot be imported "
            f"({type(error).__name__}: {error}); reinstall the package that provides it"
        ) from error
    if not isinstance(competition, Competition):
        raise InputError(f"competition {point.name!r}: {point.value} is not a Competition")
    return competition
