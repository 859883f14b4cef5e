"""Human durations that a stored fit would have produced, beside those that were seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.errors import InputError
from tidegauge.horizon.horizons.predictive import HumanCheck
from tidegauge.horizon.model.human_noise import draw_errors, rounded_down
from tidegauge.horizon.model.observations import is_whole_minutes
from tidegauge.horizon.model.options import USUAL_LOG2_MINUTES

if TYPE_CHECKING:
    from tidegauge.horizon.store.stored_fit import Posterior, StoredFit


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
        sigma = _sigma(draws, posterior, source)
        if sigma is None:
            return []
        mu = posterior.mu_task[:, task]
        options = fit.manifest.options
        if options.get("noise_growth"):
            growth = _flat(draws, "noise_growth")[posterior.chosen, None]
            sigma = sigma * np.exp2(growth * (mu - USUAL_LOG2_MINUTES))
        nu = np.array(np.inf)
        if options.get("noise") == "student_t":
            nu = 1 + _flat(draws, "nu_minus_one")[posterior.chosen, None]
    rng = np.random.default_rng(fit.manifest.seed or 0)
    replicated = mu + sigma * draw_errors(str(options.get("noise", "normal")), nu, mu.shape, rng)
    if options.get("rounding"):
        replicated = rounded_down(replicated, is_whole_minutes(observed))
    return [
        HumanCheck(name, observed[source == name], replicated[:, source == name])
        for name in sorted(set(source.tolist()))
    ]


def _sigma(draws: Any, posterior: Posterior, source: Any) -> FloatArray | None:
    """Return sigma_human (chosen, run), or (chosen, 1) where all sources share it.

    None where each source has its own and the file does not say which run is of which.
    """
    sigma = _flat(draws, "sigma_human")[posterior.chosen]
    if sigma.ndim == 1:
        return sigma[:, None]
    names = [str(name) for name in draws[draws["sigma_human"].dims[-1]].values]
    if not set(source.tolist()) <= set(names):
        return None
    return sigma[:, [names.index(name) for name in source]]


def _flat(draws: Any, name: str) -> FloatArray:
    """Return a variable with its chains one after the other."""
    values = np.asarray(draws[name].values, dtype=float)
    return values.reshape(-1, *values.shape[2:])
