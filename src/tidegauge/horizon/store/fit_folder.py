"""Write what a fit found: the files of the contract, all together or not at all."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegauge.engine.diagnostics import Check
from tidegauge.engine.store import manifest, write_csv, write_json
from tidegauge.errors import InputError
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.horizons.tables import tasks_table
from tidegauge.io import atomic_folder, read_yaml

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


def read_release_dates(path: Path | None) -> dict[str, datetime.date]:
    """Read METR's YAML of release dates: a mapping under ``date``, or the mapping itself.

    Raises
    ------
    InputError
        Not such a mapping.
    """
    if path is None:
        return {}
    content = read_yaml(path)
    dates = content.get("date", content) if isinstance(content, dict) else None
    if not isinstance(dates, dict):
        raise InputError(f"{path}: must map agents to dates, as 'date: {{GPT-4o: 2024-05-13}}'")
    found = {}
    for agent, value in dates.items():
        try:
            # YAML makes dates, dates with a time of day, or texts of them.
            found[str(agent)] = datetime.datetime.fromisoformat(str(value)).date()
        except ValueError:
            raise InputError(
                f"{path}: {agent}={value}: not a date; write it as 2024-05-13"
            ) from None
    return found


def undated_note(design: Design, dates: Mapping[str, datetime.date]) -> list[str]:
    """Say which agents a given file of release dates leaves out."""
    missing = [agent for agent in design.agents if agent not in dates]
    return [f"no release date for {', '.join(missing)}"] if dates and missing else []
