"""The compiled trend and its slopes against the table of shapes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logit

from density_checks import numerical_jacobian
from tidegauge.horizon.density.agents import trend_terms
from tidegauge.horizon.model.trend_shapes import SHAPES, TREND_SHAPES, trend_at, trend_value

FIRST, LAST = -2.0, 1.5
VALUES = {
    "trend_level": 5.0,
    "trend_rate": 1.2,
    "trend_bend": -0.4,
    "trend_change": 0.8,
    "trend_kink": 0.3,
    "trend_log_height": 2.2,
    "trend_middle": -0.6,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("year", [-1.7, 0.31, 1.4])
def test_compiled_trend_and_slopes_are_those_of_the_table(shape: str, year: float) -> None:
    names = TREND_SHAPES[shape].coefficients
    terms = np.array([VALUES[name] for name in names])
    if shape == "kink":  # the vector holds the logit of where it lies between the dates
        terms[-1] = logit((VALUES["trend_kink"] - FIRST) / (LAST - FIRST))

    def compiled(at: np.ndarray) -> float:
        code = TREND_SHAPES[shape].code
        return trend_terms(code, at, year, FIRST, LAST, slopes)

    slopes = np.zeros(4)
    value = compiled(terms)
    by_terms = slopes[: terms.size].copy()
    expected = trend_value(shape, VALUES, np.array([year]))
    assert value == pytest.approx(expected[0], rel=1e-12)
    np.testing.assert_allclose(by_terms, numerical_jacobian(compiled, terms), atol=1e-6)


def test_without_a_trend_the_level_is_all_there_is() -> None:
    assert trend_at("none", VALUES, np.array([1.0])) == VALUES["trend_level"]
    slopes = np.ones(4)
    assert trend_terms(TREND_SHAPES["none"].code, np.array([5.0]), 1.0, 0, 0, slopes) == 5.0
    assert slopes.tolist() == [1, 0, 0, 0]


def test_codes_tell_shapes_apart() -> None:
    assert len({shape.code for shape in TREND_SHAPES.values()}) == len(TREND_SHAPES)
