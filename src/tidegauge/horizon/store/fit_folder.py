"""The folder of a fit: every table, the draws themselves, and the same object back from them."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from tidegauge.engine.config import SamplerConfig
from tidegauge.engine.diagnostics import Check, diagnose
from tidegauge.engine.priors import Prior
from tidegauge.engine.store import check_netcdf, manifest
from tidegauge.errors import InputError
from tidegauge.horizon.data.agents import read_release_dates, undated_note
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.data.runs import Runs
from tidegauge.horizon.data.summary import RunsSummary
from tidegauge.horizon.horizons.estimate import Curves, Estimate
from tidegauge.horizon.model.options import HorizonOptions, HorizonPriors
from tidegauge.horizon.result import CurveFit, HorizonFit, HorizonResult
from tidegauge.horizon.store.folder import Manifest, ResultFolder, read_result, write_folder

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

SAMPLED = ("core", "full")
DIRECT = ("regression", "exact")
_GROUPS = ("posterior", "sample_stats", "constant_data")


@dataclass(frozen=True)
class _Diagnostics:
    """What is read of ``diagnostics.json``."""

    converged: bool
    checks: list[Check]
    seconds: dict[str, float]
    attempts: int = 1


def write_result(
    result: HorizonResult, folder: Path, *, tables: Mapping[str, pd.DataFrame] | None = None
) -> None:
    """Write what a method found, with further tables; see `HorizonResult.save`."""
    if isinstance(result, HorizonFit):
        binary = {"posterior.nc": lambda path: _write_posterior(path, result)}
    else:
        binary = {"estimate.nc": lambda path: _write_estimate(path, result)}
    write_folder(
        folder,
        "fit",
        kind=result.method,
        tables={**result.tables(), **(tables or {})},
        settings=_settings(result),
        inputs=result.runs.sha256,
        notes=result.runs.notes,
        documents={"diagnostics.json": result.diagnostics},
        binary=binary,
    )


def _settings(result: HorizonResult) -> dict[str, Any]:
    return {
        **result.settings,
        "release_dates": dict(result.runs.release_dates),
        "groups": dict(result.runs.groups),
        "read": result.runs.counted,
    }


def manifest_of(result: HorizonResult) -> Manifest:
    """Return what made a result: as it was saved, or as it would be saved now."""
    if result.made is not None:
        return result.made
    kind = f"horizon/{result.method}"
    described = manifest(kind=kind, inputs=result.runs.sha256, settings=_settings(result))
    return Manifest(**described, notes=result.runs.notes)


def load(folder: Path | str) -> HorizonResult:
    """Read a result back from the folder it was saved to.

    Parameters
    ----------
    folder : path
        What `HorizonResult.save` or ``tidegauge horizon fit`` wrote.

    Returns
    -------
    HorizonFit or CurveFit
        Equal to what was saved.

    Raises
    ------
    InputError
        Not the folder of a fit, one of its files is missing or damaged, or an older version of
        the program wrote it.

    Examples
    --------
    >>> import tempfile
    >>> import tidegauge.horizon as th
    >>> runs, truth = th.simulate(agents=3, tasks=20, seed=1)
    >>> found = th.fit_exact(runs)
    >>> folder = tempfile.mkdtemp()
    >>> found.save(folder)
    >>> th.load(folder) == found
    True
    """
    return read_result(Path(folder), "fit", _read_result, kinds=(*SAMPLED, *DIRECT))


def _read_result(folder: ResultFolder) -> HorizonResult:
    diagnostics = folder.json("diagnostics.json", _Diagnostics)
    sampled = folder.manifest.method in SAMPLED
    name = "posterior.nc" if sampled else "estimate.nc"
    groups = _GROUPS if sampled else ("estimate", "constant_data")
    try:
        found = _read_groups(folder, name, groups)
        read = _read_fit if sampled else _read_curves
        return read(found, folder.manifest, diagnostics)
    except InputError:
        raise
    except Exception as error:  # whatever the HDF5 layers raise, it is the file that is damaged
        reason = " ".join(str(error).split()) or type(error).__name__
        path = folder.path / name
        raise InputError(f"{path}: cannot be read ({reason}); {folder.remedy}") from error


def _read_fit(
    found: Mapping[str, xr.Dataset], saved: Manifest, diagnostics: _Diagnostics
) -> HorizonFit:
    from tidegauge.horizon.inference_data import design_of, point_of, posterior_of

    settings = saved.settings
    options = HorizonOptions(**settings["options"])
    priors = {name: _prior_of(value) for name, value in settings["priors"].items()}
    runs = _runs_of(saved, design_of(found["constant_data"]))
    point = point_of(found["posterior"])
    statistics = {str(name): np.asarray(v) for name, v in found["sample_stats"].items()}
    return HorizonFit(
        runs=runs,
        priors=HorizonPriors(**priors),
        options=options,
        sampler=SamplerConfig(**settings["sampler_used"]),
        asked=SamplerConfig(**settings["sampler"]),
        point=point,
        statistics=statistics,
        diagnosis=diagnose(posterior_of(runs.design, options, point, statistics)),
        attempts=diagnostics.attempts,
        seconds=diagnostics.seconds,
        trend_agents=settings.get("agents", {}),
        made=saved,
    )


def _read_curves(
    found: Mapping[str, xr.Dataset], saved: Manifest, diagnostics: _Diagnostics
) -> CurveFit:
    from tidegauge.horizon.inference_data import design_of

    curves, design = found["estimate"], design_of(found["constant_data"])
    parts: dict[str, Any] = {str(name): np.asarray(v) for name, v in curves.items()}
    point = None
    if "point_alpha" in parts:
        point = Curves(parts.pop("point_alpha"), parts.pop("point_beta"))
    estimate = Estimate(
        method=saved.method,
        agents=design.agents,
        longest_minutes=float(design.human_minutes.max()),
        point=point,
        **parts,
    )
    general = {"method", "filters", "release_dates", "groups", "read"}
    options = {name: v for name, v in saved.settings.items() if name not in general}
    runs = _runs_of(saved, design)
    return CurveFit(
        runs=runs, found=estimate, options=options, seconds=diagnostics.seconds, made=saved
    )


def _runs_of(saved: Manifest, design: Design) -> Runs:
    settings = saved.settings
    dates = read_release_dates(settings["release_dates"])
    said = undated_note(design.agents, dates)
    counted = settings.get("read")
    return Runs(
        design=replace(design, notes=tuple(n for n in saved.notes if n not in said)),
        release_dates=dates,
        groups=settings["groups"],
        sha256=saved.inputs,
        filters=tuple(settings["filters"]),
        counted=None if counted is None else msgspec.convert(counted, RunsSummary),
    )


def _prior_of(saved: Mapping[str, Any]) -> Prior:
    return Prior(**{**saved, "upper": float(saved["upper"])})


def _write_posterior(path: Path, fit: HorizonFit) -> None:
    found = fit.idata
    groups = {name: found[name] for name in found.groups()}
    _write_groups(path, groups, attributes=found.attrs)


def _write_estimate(path: Path, result: HorizonResult) -> None:
    import xarray as xr

    from tidegauge.horizon.inference_data import constant_data_of

    found, dims = result.estimate, ("draw", "agent")
    variables: dict[str, Any] = {"alpha": (dims, found.alpha), "beta": (dims, found.beta)}
    variables["success"] = (("agent", "task"), found.success)
    if found.weight is not None:
        variables["weight"] = (dims, found.weight)
    if found.point is not None:
        variables["point_alpha"] = (("agent",), found.point.alpha)
        variables["point_beta"] = (("agent",), found.point.beta)
    design = constant_data_of(result.design)
    _write_groups(path, {"estimate": xr.Dataset(variables), "constant_data": design})


def _write_groups(
    path: Path, groups: Mapping[str, xr.Dataset], *, attributes: Mapping[str, Any] | None = None
) -> None:
    """Write datasets as the groups of one file; in memory first, since HDF5 dies of a full disk."""
    import xarray as xr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # xarray's remarks on netCDF encodings
        tree = xr.DataTree.from_dict({"/": xr.Dataset(attrs=dict(attributes or {})), **groups})
        path.write_bytes(tree.to_netcdf(engine="h5netcdf"))


def _read_groups(folder: ResultFolder, name: str, groups: Sequence[str]) -> dict[str, xr.Dataset]:
    """Read the groups of a file into memory."""
    import xarray as xr

    path, file = folder.path / name, io.BytesIO(folder.read(name))
    check_netcdf(path, file)
    found = xr.open_groups(file, engine="h5netcdf")
    missing = set(groups) - {group.lstrip("/") for group in found}
    if missing:
        raise InputError(
            f"{path}: no {', '.join(sorted(missing))}: an older version wrote it; {folder.remedy}"
        )
    return {group: found[f"/{group}"].load() for group in groups}
