"""A fit read back from the folder it was written to, checked before anything is drawn from it."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from tidegauge.engine.diagnostics import Check
from tidegauge.engine.store import check_netcdf
from tidegauge.errors import InputError
from tidegauge.horizon.horizons.tables import BUCKETS
from tidegauge.io import check_complete

if TYPE_CHECKING:
    import pandas as pd

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Decoded = TypeVar("Decoded")

TASK_DRAWS = 400  # draws of every task's difficulty that are read: enough for an interval
REMEDY = "fit again with: tidegauge horizon fit RUNS --out"
_WITHOUT_POSTERIOR = ("horizon/frequentist", "horizon/grid")
_INTERVALS = tuple(
    f"{name}{end}"
    for name in ("p50", "p80", "p50_marginal", "p80_marginal")
    for end in ("", "q0.025", "q0.975")
)
_HORIZON_NUMBERS = ("coefficient", "intercept", "average", *_INTERVALS, *BUCKETS, "p50_beyond")
_TASK_NUMBERS = ("n_human_runs", "human_minutes", "log2_mean", "log2_q0.025", "log2_q0.975")
_PARAMETER_NUMBERS = ("mean", "q0.025", "q0.975", "r_hat", "ess_bulk", "ess_tail")


@dataclass(frozen=True)
class Manifest:
    """What made the fit, from which bytes, with which settings."""

    kind: str
    tidegauge: str
    created_at: str
    python: str
    libraries: dict[str, str]
    inputs: dict[str, str]
    settings: dict[str, Any]
    notes: list[str]

    @property
    def method(self) -> str:
        """``hierarchical``, ``frequentist`` or ``grid``."""
        return self.kind.removeprefix("horizon/")

    @property
    def options(self) -> dict[str, Any]:
        """The model's options by name; empty for methods without."""
        found = self.settings.get("options")
        return found if isinstance(found, dict) else {}

    @property
    def seed(self) -> int | None:
        """The seed, where the method has one."""
        for part in ("sampler", "frequentist"):
            section = self.settings.get(part)
            if isinstance(section, dict) and isinstance(section.get("seed"), int):
                return int(section["seed"])
        return None


@dataclass(frozen=True)
class Diagnostics:
    """Whether the fit can be relied on."""

    converged: bool
    checks: list[Check]
    seconds: dict[str, float]
    draws: int | None = None
    chains: int | None = None


@dataclass(frozen=True)
class Counts:
    """Agent runs as counts; `attempts` and `successes` have shape (agent, task)."""

    agents: tuple[str, ...]
    human_minutes: FloatArray
    attempts: FloatArray
    successes: FloatArray


@dataclass(frozen=True)
class Posterior:
    """Draws of the success curves, all chains together, and some of the tasks' difficulty.

    `alpha`, `beta` (draw, agent); `mu_task` (chosen, task) in log2 minutes belongs to the draws
    `chosen` (at most about TASK_DRAWS), as do `residual` (logits) and `log_discrimination`, which
    are zero where the model has none.
    """

    alpha: FloatArray
    beta: FloatArray
    mu_task: FloatArray
    chosen: IntArray
    counts: Counts
    residual: FloatArray
    log_discrimination: FloatArray

    def logits(self, agent: int) -> FloatArray:
        """Return the logit (chosen, task) of an agent's success on every task."""
        alpha, beta = self.alpha[self.chosen, agent], self.beta[self.chosen, agent]
        plain = alpha[:, None] + beta[:, None] * self.mu_task + self.residual
        logits: FloatArray = np.exp(self.log_discrimination) * plain
        return logits


@dataclass(frozen=True)
class StoredFit:
    """Everything a page says of a fit; tasks, parameters and posterior only if it was sampled."""

    folder: Path
    manifest: Manifest
    diagnostics: Diagnostics
    horizons: pd.DataFrame
    tasks: pd.DataFrame | None = None
    parameters: pd.DataFrame | None = None
    posterior: Posterior | None = None

    @property
    def release_dates(self) -> list[datetime.date | None]:
        """Each agent's release date, where the fit was told."""
        days = self.horizons["release_date"]
        return [datetime.date.fromisoformat(day) if day else None for day in days]


def read_fit(folder: Path) -> StoredFit:
    """Read what ``horizon fit`` wrote.

    Raises
    ------
    InputError
        Not the folder of a fit, or one of its files is missing, damaged or of another fit.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: not a folder; name one that 'tidegauge horizon fit' wrote")
    check_complete(folder)
    if not (folder / "manifest.json").is_file():
        raise InputError(f"{folder}: no manifest.json, so not a fit's; {REMEDY} {folder}")
    manifest = read_json(folder / "manifest.json", Manifest)
    if not manifest.kind.startswith("horizon/"):
        raise InputError(
            f"{folder / 'manifest.json'}: kind={manifest.kind}: not a horizon fit; "
            f"{REMEDY} {folder}"
        )
    diagnostics = read_json(folder / "diagnostics.json", Diagnostics)
    horizons = read_table(
        folder / "horizons.csv", ("agent", "release_date"), (*_HORIZON_NUMBERS, "n_runs")
    )
    check_dates(folder / "horizons.csv", horizons["release_date"])
    common = (folder, manifest, diagnostics, horizons)
    if manifest.kind in _WITHOUT_POSTERIOR:
        return StoredFit(*common)
    texts = ("task_id", "task_family", "source_type")
    tasks = read_table(folder / "tasks.csv", texts, _TASK_NUMBERS)
    _check_lengths(folder / "tasks.csv", tasks)
    parameters = read_table(folder / "parameters.csv", ("parameter",), _PARAMETER_NUMBERS)
    posterior = _read_posterior(folder / "posterior.nc", horizons, tasks)
    return StoredFit(*common, tasks, parameters, posterior)


def _bytes_of(path: Path, remedy: str = REMEDY) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{path}: {reason}; {remedy} {path.parent}") from error


def read_json(path: Path, kind: type[Decoded], *, remedy: str = REMEDY) -> Decoded:
    """Read a JSON file of a known form."""
    try:
        return msgspec.json.decode(_bytes_of(path, remedy), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            f"{path}: not what a fit writes ({error}); {remedy} {path.parent}"
        ) from error


def read_table(
    path: Path,
    texts: Sequence[str],
    numbers: Sequence[str],
    *,
    unique: bool = True,
    remedy: str = REMEDY,
) -> pd.DataFrame:
    """Read a CSV: texts as they are (an agent may be called NA), numbers with NaN for nothing.

    Columns that are not named are kept as texts; `unique` refuses a first text that comes twice.
    """
    import io

    import pandas as pd

    try:
        raw = pd.read_csv(io.BytesIO(_bytes_of(path, remedy)), dtype=str, keep_default_na=False)
    except (ValueError, UnicodeDecodeError) as error:  # pandas' parser errors are ValueErrors
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: not a table ({reason}); {remedy} {path.parent}") from error
    missing = [name for name in (*texts, *numbers) if name not in raw.columns]
    if missing or raw.empty:
        what = f"no column {', '.join(missing)}" if missing else "no rows"
        raise InputError(f"{path}: {what}; {remedy} {path.parent}")
    names = raw[texts[0]]
    if unique and names.duplicated().any():
        twice = names[names.duplicated()].iloc[0]
        raise InputError(f"{path}: {texts[0]}={twice} is there twice; {remedy} {path.parent}")
    for name in numbers:
        column = pd.to_numeric(raw[name], errors="coerce")
        wrong = column.isna() & ~raw[name].str.lower().isin(["", "nan"])
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise InputError(
                f"{path}:{row + 2}: {name}={raw[name].iloc[row]}: not a number; "
                f"{remedy} {path.parent}"
            )
        raw[name] = column.astype(float)
    return raw


def check_dates(path: Path, column: pd.Series[str]) -> None:
    """Refuse what is neither an ISO date nor empty."""
    for row, day in enumerate(column):
        try:
            datetime.date.fromisoformat(day or "2000-01-01")
        except ValueError:
            raise InputError(
                f"{path}:{row + 2}: {column.name}={day}: not a date; write it as 2024-05-13"
            ) from None


def _check_lengths(path: Path, tasks: pd.DataFrame) -> None:
    minutes = tasks["human_minutes"].to_numpy()
    for row in np.flatnonzero(~((minutes > 0) & np.isfinite(minutes)))[:1]:
        raise InputError(
            f"{path}:{row + 2}: human_minutes={minutes[row]}: must be above 0; "
            f"{REMEDY} {path.parent}"
        )


def _read_posterior(path: Path, horizons: pd.DataFrame, tasks: pd.DataFrame) -> Posterior:
    if not path.is_file():
        raise InputError(f"{path}: not found; {REMEDY} {path.parent}")
    agents, names = tuple(horizons["agent"]), tuple(tasks["task_id"])
    try:
        check_netcdf(path)
        return _from_netcdf(path, agents, names, tasks["human_minutes"].to_numpy())
    except _OtherFitError as error:
        raise InputError(f"{path}: {error}; {REMEDY} {path.parent}") from error
    except Exception as error:  # whatever the HDF5 layers raise, it is the file that is damaged
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"{path}: not a posterior that can be read ({reason}); {REMEDY} {path.parent}"
        ) from error


class _OtherFitError(Exception):
    """The posterior does not belong to the tables beside it."""


def _from_netcdf(
    path: Path, agents: tuple[str, ...], tasks: tuple[str, ...], human_minutes: FloatArray
) -> Posterior:
    import xarray as xr

    def group(name: str) -> Any:
        return xr.open_dataset(path, group=name, engine="h5netcdf")

    with group("posterior") as draws, group("observed_data") as data:
        order = _order(draws["agent"].values, agents, "agents")
        task_order = _order(draws["task"].values, tasks, "tasks")
        n_chains, n_draws = draws.sizes["chain"], draws.sizes["draw"]
        step = max(1, n_chains * n_draws // TASK_DRAWS)
        kept = np.arange(0, n_draws, step)

        def by_task(name: str) -> FloatArray:
            if name not in draws.variables:
                return np.zeros((n_chains * kept.size, len(tasks)))
            values = np.asarray(draws[name].isel(draw=kept), dtype=float)
            return values.reshape(-1, len(tasks))[:, task_order]

        attempts, successes = np.zeros((2, len(agents), len(tasks)))
        cell = (
            _places(data["cell_agent"].values, agents),
            _places(data["cell_task"].values, tasks),
        )
        attempts[cell], successes[cell] = data["attempts"].values, data["successes"].values
        alpha, beta = (
            np.asarray(draws[name], dtype=float).reshape(-1, len(agents))[:, order]
            for name in ("alpha", "beta")
        )
        return Posterior(
            alpha=alpha,
            beta=beta,
            mu_task=by_task("mu_task"),
            chosen=(np.arange(n_chains)[:, None] * n_draws + kept).ravel(),
            counts=Counts(agents, human_minutes, attempts, successes),
            residual=by_task("residual"),
            log_discrimination=by_task("log_discrimination"),
        )


def _order(found: Any, wanted: tuple[str, ...], what: str) -> IntArray:
    """Return where each wanted name is among those found; the two must be the same names."""
    names = [str(name) for name in found]
    if sorted(names) != sorted(wanted):
        raise _OtherFitError(f"its {what} are not those of the table beside it")
    return _places(wanted, tuple(names))


def _places(names: Any, among: tuple[str, ...]) -> IntArray:
    index = {name: i for i, name in enumerate(among)}
    return np.array([index[str(name)] for name in names], dtype=np.int64)
