"""Did the sampler converge? Diagnostics are values with three outcomes; a gate decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegauge.engine.arviz_import import arviz

if TYPE_CHECKING:
    import arviz as az
    import pandas as pd

R_HAT_LIMIT = 1.01
ESS_LIMIT = 400.0
HIGH_K = 0.7  # Pareto k above which draws cannot be reweighted: the posterior moves too far


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: passed, failed, or (None) for information only."""

    name: str
    passed: bool | None
    detail: str

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Diagnosis:
    """What the diagnostics of a fit say.

    Attributes
    ----------
    parameters : DataFrame
        One row per scalar parameter: parameter, mean, sd, q0.025, q0.5, q0.975, r_hat, ess_bulk,
        ess_tail.
    divergences : int
        Divergent transitions after tuning.
    checks : tuple of Check
        Convergence checks, in the order they were made.
    """

    parameters: pd.DataFrame
    divergences: int
    checks: tuple[Check, ...]

    @property
    def converged(self) -> bool:
        """Whether no check failed."""
        return all(check.passed is not False for check in self.checks)

    @property
    def failed(self) -> list[Check]:
        """The checks that did not pass."""
        return [check for check in self.checks if check.passed is False]


def diagnose(trace: az.InferenceData, *, variables: Sequence[str] | None = None) -> Diagnosis:
    """Summarise every parameter and check rank-normalised R-hat, ESS and divergences.

    Parameters
    ----------
    variables : sequence of str, optional
        Posterior variables to look at; all of them by default.
    """
    table = parameter_table(trace, variables)
    divergences = int(trace.sample_stats["diverging"].sum())
    # A parameter that never moved has no R-hat: it counts as the worst.
    worst = table.iloc[int(table["r_hat"].fillna(np.inf).to_numpy().argmax())]
    least = table.iloc[int(table["ess_bulk"].fillna(0).to_numpy().argmin())]
    tail = table.iloc[int(table["ess_tail"].fillna(0).to_numpy().argmin())]
    single = trace.posterior.sizes["chain"] == 1
    checks = (
        Check(
            "r_hat",
            None if single else bool(worst["r_hat"] < R_HAT_LIMIT),
            "one chain: R-hat needs several"
            if single
            else f"largest {worst['r_hat']:.4f} ({worst['parameter']}), limit {R_HAT_LIMIT}",
        ),
        Check(
            "ess_bulk",
            bool(least["ess_bulk"] > ESS_LIMIT),
            f"smallest {least['ess_bulk']:.0f} ({least['parameter']}), limit {ESS_LIMIT:.0f}",
        ),
        Check(
            "ess_tail",
            bool(tail["ess_tail"] > ESS_LIMIT),
            f"smallest {tail['ess_tail']:.0f} ({tail['parameter']}), limit {ESS_LIMIT:.0f}",
        ),
        Check("divergences", divergences == 0, f"{divergences} divergent transitions"),
    )
    return Diagnosis(parameters=table, divergences=divergences, checks=checks)


class Mixing(NamedTuple):
    """Of quantities that are summarised by their medians.

    `r_hat` is the largest of those that are finite, `median_error` (quantity,) the Monte Carlo
    standard error of each median.
    """

    r_hat: float
    median_error: NDArray[np.float64]


def mixing(draws: NDArray[np.float64]) -> Mixing:
    """Return how well draws (chain, draw, quantity) tell the medians of their quantities."""
    az = arviz()
    columns = [np.ascontiguousarray(draws[..., i]) for i in range(draws.shape[-1])]
    error = np.array([float(az.mcse(column, method="median")) for column in columns])
    r_hats = [float(az.rhat(column)) for column in columns]
    return Mixing(max([1.0, *(value for value in r_hats if np.isfinite(value))]), error)


def parameter_table(
    trace: az.InferenceData, variables: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return one row per scalar parameter, named ``alpha[GPT-4o]`` and the like."""
    import pandas as pd

    blocks = []
    for name in variables or list(trace.posterior.data_vars):
        array = trace.posterior[name]
        draws = np.asarray(array).reshape(*array.shape[:2], -1)
        labels = [name]
        if array.ndim > 2:
            labels = [f"{name}[{label}]" for label in array.coords[array.dims[2]].values]
        low, median, high = np.quantile(draws, [0.025, 0.5, 0.975], axis=(0, 1))
        r_hat, bulk, tail = _sampling_quality(draws)
        blocks.append(
            pd.DataFrame(
                {
                    "parameter": labels,
                    "mean": draws.mean(axis=(0, 1)),
                    "sd": draws.std(axis=(0, 1), ddof=1),
                    "q0.025": low,
                    "q0.5": median,
                    "q0.975": high,
                    "r_hat": r_hat,
                    "ess_bulk": bulk,
                    "ess_tail": tail,
                }
            )
        )
    return pd.concat(blocks, ignore_index=True)


def _sampling_quality(
    draws: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return rank-normalised R-hat, bulk ESS and tail ESS of (chain, draw, parameter)."""
    az = arviz()
    columns = [np.ascontiguousarray(draws[:, :, i]) for i in range(draws.shape[2])]
    with np.errstate(invalid="ignore", divide="ignore"):  # a parameter that never moved
        return (
            np.array([float(az.rhat(column)) for column in columns]),
            np.array([float(az.ess(column, method="bulk")) for column in columns]),
            np.array([float(az.ess(column, method="tail")) for column in columns]),
        )


def leave_one_out_weights(log_likelihood: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights (draw, observation) of the posterior without each observation.

    Pareto-smoothed importance sampling [1]_: they sum to one for each observation.

    References
    ----------
    .. [1] Vehtari, Gelman and Gabry (2017), Statistics and Computing 27, 1413-1432.
    """
    smoothed, _ = arviz().psislw(-log_likelihood.T)
    weights: NDArray[np.float64] = np.exp(np.asarray(smoothed).T)
    return weights
