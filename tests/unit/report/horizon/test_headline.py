"""Names beside the dots of the headline chart keep off the trend's line."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pytest

from tidegauge.report.horizon.headline import Band, Bar, Size, date_chart

DAYS = [datetime.date(2020, 1, 1), datetime.date(2022, 1, 1), datetime.date(2024, 1, 1)]
SIZE, LIMITS = Size(900, 400), (1.0, 1024.0)


def name_offsets(trend: Band | None) -> dict[str, int]:
    """Pixels that each name stands below its dot."""
    bars = [Bar(f"agent-{i}", 32.0, 30.0, 34.0, day) for i, day in enumerate(DAYS)]
    drawn = date_chart(bars, trend, LIMITS, SIZE, title="").to_dict()
    return {
        row["agent"]: layer["mark"]["dy"]
        for layer in drawn["layer"]
        if layer["mark"]["type"] == "text"
        for row in json.loads(layer["data"]["values"])
    }


@pytest.mark.parametrize(("pixels_below", "places"), [(None, {10}), (10, {0, -10})])
def test_a_name_moves_off_the_line(pixels_below: int | None, places: set[int]) -> None:
    trend = None
    if pixels_below is not None:  # ten doublings over the height of the chart
        log2 = 5.0 - pixels_below * 10 / SIZE.height
        beyond = datetime.date(2025, 1, 1)  # right of the last name
        ordinals = np.array([day.toordinal() for day in [*DAYS, beyond]], dtype=float)
        trend = Band(ordinals, np.full(4, log2), None, ordinals[-1])
    offsets = name_offsets(trend)
    assert set(offsets) == {"agent-0", "agent-1", "agent-2"}
    assert set(offsets.values()) <= places
