"""Write what a fit found: the files of the contract, all together or not at all."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge.engine.diagnostics import Check
from tidegauge.engine.store import manifest, write_csv, write_json
from tidegauge.horizon.horizons.tables import tasks_table
from tidegauge.io import atomic_folder

if TYPE_CHECKING:
    import arviz as az
    import pandas as pd

    from tidegauge.horizon.sampler.fit import HorizonFit

FILES = (
    *("horizons.csv", "tasks.csv", "parameters.csv", "diagnostics.json", "posterior.nc"),
    *("manifest.json", "plots", "report.html", "pairs.csv", "domains.csv", "rates.csv"),
    *("trend.csv", "trend_fan.csv"),
)


@dataclass(frozen=True)
class Outputs:
    """One method's answer, ready to be written.

    Attributes
    ----------
    horizons : DataFrame
        The table of agents.
    diagnostics : dict
        What goes into ``diagnostics.json``.
    settings : dict
        What goes into the manifest, enough to repeat the fit.
    fit : HorizonFit or None
        The posterior, where the method has one.
    tables : mapping
        Further tables by the name of their file.
    """

    kind: str
    horizons: pd.DataFrame
    diagnostics: dict[str, Any]
    settings: dict[str, Any]
    inputs: Mapping[str, str]
    fit: HorizonFit | None = None
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    notes: Sequence[str] = field(default_factory=tuple)


def write_outputs(outputs: Outputs, folder: Path) -> None:
    """Replace the files of an earlier fit by this one's; a kill leaves one or the other."""
    with atomic_folder(folder, owned=FILES) as staging:
        write_csv(staging / "horizons.csv", outputs.horizons)
        for name, table in outputs.tables.items():
            write_csv(staging / name, table)
        if outputs.fit is not None:
            fit = outputs.fit
            log2_draws = fit.point.mu_task.reshape(-1, len(fit.design.tasks))
            write_csv(staging / "tasks.csv", tasks_table(fit.design, log2_draws))
            write_csv(staging / "parameters.csv", fit.diagnosis.parameters)
            from tidegauge.horizon.result import stored_trace

            _write_trace(staging / "posterior.nc", stored_trace(fit))
        write_json(staging / "diagnostics.json", outputs.diagnostics)
        description = manifest(kind=outputs.kind, inputs=outputs.inputs, settings=outputs.settings)
        write_json(staging / "manifest.json", {**description, "notes": list(outputs.notes)})


def fit_diagnostics(fit: HorizonFit, checks: Sequence[Check]) -> dict[str, Any]:
    """Return ``diagnostics.json`` of a posterior; predictive checks do not decide convergence."""
    table = fit.diagnosis.parameters
    modes = [fit.screen.check()] if fit.screen else []
    return {
        "converged": fit.diagnosis.converged,
        "r_hat_max": float(table["r_hat"].max()),
        "ess_bulk_min": float(table["ess_bulk"].min()),
        "ess_tail_min": float(table["ess_tail"].min()),
        "divergences": fit.diagnosis.divergences,
        "draws": fit.sampler.draws,
        "chains": fit.sampler.chains,
        "attempts": fit.attempts,
        "seconds": dict(fit.seconds),
        "checks": [check.as_dict() for check in (*fit.diagnosis.checks, *modes, *checks)],
    }


def _write_trace(path: Path, trace: az.InferenceData) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # xarray's remarks on netCDF encodings
        trace.to_netcdf(str(path), engine="h5netcdf", compress=False)
