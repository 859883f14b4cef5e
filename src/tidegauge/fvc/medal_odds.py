"""Where a forecaster stands: what its cross-validated scores say of a small test set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.schema.osic import MEDAL_THRESHOLDS as THRESHOLDS

_SIMULATIONS = 20_000


@dataclass(frozen=True)
class Standing:
    """A score with its error, and the odds it gives.

    Attributes
    ----------
    score, score_se : float
        Mean over patients and its standard error.
    n_test : int
        Size of the test set the odds are for.
    test_sd : float
        Spread of the mean score of that many patients: luck alone.
    odds : dict
        Probability of reaching each threshold.
    """

    score: float
    score_se: float
    n_test: int
    test_sd: float
    odds: dict[str, float]

    def lines(self) -> list[str]:
        """Return it in words."""
        odds = ", ".join(f"{name} {share:.0%}" for name, share in self.odds.items())
        return [
            f"cross-validated score {self.score:.3f} ± {self.score_se:.3f} (nested)",
            f"a test set of {self.n_test} patients spreads that by ± {self.test_sd:.2f}",
            f"odds of reaching on such a test set: {odds}",
        ]


def find_standing(per_patient: FloatArray, *, n_test: int, seed: int) -> Standing:
    """Simulate the mean score of `n_test` patients from those of cross-validation.

    The thresholds belong to one competition's test set; the odds say what such a set would give,
    with patients drawn like those of training.
    """
    rng = np.random.default_rng(seed)
    n = len(per_patient)
    drawn = per_patient[rng.integers(0, n, size=(_SIMULATIONS, n_test))].mean(axis=1)
    return Standing(
        score=float(per_patient.mean()),
        score_se=float(per_patient.std(ddof=1) / np.sqrt(n)),
        n_test=n_test,
        test_sd=float(drawn.std()),
        odds={name: float((drawn >= least).mean()) for name, least in THRESHOLDS.items()},
    )
