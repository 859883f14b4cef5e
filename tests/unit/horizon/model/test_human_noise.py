"""Replicated human durations have the noise that the options name."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tidegauge.horizon.model.human_noise import draw_errors, rounded_down
from tidegauge.horizon.model.observations import is_whole_minutes

SHAPE = (400, 500)


@pytest.mark.parametrize(
    ("kind", "nu", "known"),
    [
        ("normal", None, stats.norm()),
        ("student_t", np.full((400, 1), 4.0), stats.t(4)),
        # The log of an exponential, less its mean, in units of its standard deviation.
        (
            "weibull",
            None,
            stats.gumbel_l(loc=np.euler_gamma / (np.pi / np.sqrt(6)), scale=np.sqrt(6) / np.pi),
        ),
    ],
)
def test_noise_has_the_distribution_of_its_kind(
    kind: str, nu: np.ndarray | None, known: object
) -> None:
    drawn = draw_errors(kind, nu, SHAPE, np.random.default_rng(1)).ravel()
    found = stats.kstest(drawn[::10], known.cdf)  # type: ignore[attr-defined]
    assert found.pvalue > 0.001
    assert drawn.mean() == pytest.approx(0, abs=4 * drawn.std() / np.sqrt(drawn.size))
    if kind != "student_t":
        assert drawn.std() == pytest.approx(1, abs=0.01)


def test_whole_minutes_are_replicated_as_whole_minutes() -> None:
    observed = np.log2([3.0, 2.5])
    found = 2 ** rounded_down(np.log2([[7.9, 7.9], [0.3, 0.3]]), is_whole_minutes(observed))
    np.testing.assert_allclose(found, [[7, 7.9], [1, 0.3]])
