"""Human durations that a stored fit would have produced, beside those that were seen."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tidegauge.errors import InputError
from tidegauge.horizon.predictive import HumanCheck

if TYPE_CHECKING:
    from tidegauge.horizon.stored import Posterior, StoredFit

FloatArray = NDArray[np.float64]

_MIDDLE_LOG2 = 5.0  # the length at which sigma_human is what it says, where noise grows with length
_ALL = "all runs"


def replicated_human(fit: StoredFit) -> list[HumanCheck]:
    """Replicate the successful human runs from the draws that the fit keeps of every task.

    One check a task source where the file tells them, else one of all runs; none where the file
    does not say which run is of which task.

    Raises
    ------
    InputError
        The file of the posterior is damaged.
    """
    if fit.posterior is None or fit.tasks is None:
        return []
    path = fit.folder / "posterior.nc"
    try:
        return _from_netcdf(fit, fit.posterior, list(fit.tasks["task_id"]))
    except Exception as error:  # whatever the HDF5 layers raise, it is the file that is damaged
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"{path}: human runs cannot be read ({reason}); fit again with: "
            f"tidegauge horizon fit RUNS --out {fit.folder}"
        ) from error


def _from_netcdf(fit: StoredFit, posterior: Posterior, tasks: list[str]) -> list[HumanCheck]:
    import xarray as xr

    path = fit.folder / "posterior.nc"
    with (
        xr.open_dataset(path, group="posterior", engine="h5netcdf") as draws,
        xr.open_dataset(path, group="observed_data", engine="h5netcdf") as data,
    ):
        if "run_task" not in data.variables or "log2_duration" not in data.variables:
            return []
        place = {task: i for i, task in enumerate(tasks)}
        task = np.array([place[str(name)] for name in data["run_task"].values])
        source = np.array(
            [str(name) for name in data["run_source"].values]
            if "run_source" in data.variables
            else [_ALL] * task.size
        )
        observed = np.asarray(data["log2_duration"].values, dtype=float)
        sigma = _flat(draws, "sigma_human")[posterior.chosen]
        if sigma.ndim == 1:
            sigma = sigma[:, None]
        else:
            names = [str(name) for name in draws[draws["sigma_human"].dims[-1]].values]
            if not set(source.tolist()) <= set(names):
                return []
            sigma = sigma[:, [names.index(name) for name in source]]
        mu = posterior.mu_task[:, task]
        options = fit.manifest.options
        if options.get("noise_growth"):
            growth = _flat(draws, "noise_growth")[posterior.chosen, None]
            sigma = sigma * np.exp2(growth * (mu - _MIDDLE_LOG2))
        nu = None
        if options.get("noise") == "student_t":
            nu = 1 + _flat(draws, "nu_minus_one")[posterior.chosen, None]
    rng = np.random.default_rng(fit.manifest.seed or 0)
    replicated = mu + sigma * _noise(str(options.get("noise", "normal")), nu, mu.shape, rng)
    if options.get("rounding"):
        replicated = _rounded(replicated, observed)
    return [
        HumanCheck(name, observed[source == name], replicated[:, source == name])
        for name in sorted(set(source.tolist()))
    ]


def _flat(draws: Any, name: str) -> FloatArray:
    """Return a variable with its chains one after the other."""
    values = np.asarray(draws[name].values, dtype=float)
    return values.reshape(-1, *values.shape[2:])


def _noise(
    kind: str, nu: FloatArray | None, shape: tuple[int, ...], rng: np.random.Generator
) -> FloatArray:
    """Draw standard noise: of median 0, and of scale or standard deviation 1."""
    if nu is not None:
        return rng.standard_t(np.broadcast_to(nu, shape))
    if kind == "weibull":
        logs: FloatArray = np.log(rng.exponential(size=shape))
        return (logs - math.log(math.log(2))) / (math.pi / math.sqrt(6))
    return rng.normal(size=shape)


def _rounded(replicated: FloatArray, observed: FloatArray) -> FloatArray:
    """Round down to whole minutes where the run that was seen is a whole number of them."""
    minutes = np.exp2(observed)
    whole = np.isclose(minutes, np.rint(minutes), rtol=0, atol=1e-6)
    down = np.log2(np.maximum(np.floor(np.exp2(np.clip(replicated, -50, 50))), 1.0))
    return np.where(whole, down, replicated)
