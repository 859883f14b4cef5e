"""What a method gives back: horizons of every agent, as tables, charts and files.

Light: importing it imports no sampler. Whether a result was just made or read from its folder, it
is the same object.
"""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.engine.config import SamplerConfig
from tidegauge.engine.diagnostics import Check, Diagnosis
from tidegauge.errors import InputError
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.data.runs import Runs
from tidegauge.horizon.horizons.estimate import Estimate, estimate_of_fit
from tidegauge.horizon.methods.registry import variant_name
from tidegauge.horizon.model.option_file import MODELS, model_name
from tidegauge.horizon.model.options import HorizonOptions, HorizonPriors
from tidegauge.horizon.model.parameters import Point, priors_in_effect

if TYPE_CHECKING:
    import arviz as az
    import pandas as pd

    from tidegauge.horizon.horizons.predictive import PredictiveChecks
    from tidegauge.horizon.store.folder import Manifest
    from tidegauge.horizon.trend.draws import Trend

SUCCESS, EXPECTED_SCORE = "success probability", "expected score"


class HorizonResult(ABC):
    """What every method gives: time horizons of all agents with their uncertainty.

    Attributes
    ----------
    runs : Runs
        What was fitted.
    seconds : dict
        How long each step took.
    made : Manifest or None
        Of a result that was read from its folder: when and by which versions it was made.
    """

    runs: Runs
    seconds: Mapping[str, float]
    made: Manifest | None

    @property
    @abstractmethod
    def estimate(self) -> Estimate:
        """Draws of every agent's success curve."""

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What the manifest records: enough to repeat the result."""

    @property
    def design(self) -> Design:
        """The arrays that were fitted."""
        return self.runs.design

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.estimate.method

    @property
    def estimand(self) -> str:
        """What the success rate of a horizon is a rate of."""
        return SUCCESS

    @property
    def task_log2(self) -> FloatArray:
        """Length of each task in log2 minutes: as inferred, or else the file's."""
        return self.design.log2_minutes

    @property
    def findings(self) -> tuple[Check, ...]:
        """Every check that was made."""
        return ()

    @property
    def converged(self) -> bool:
        """Whether the sampler converged; True where nothing was sampled."""
        return True

    @property
    def diagnostics(self) -> dict[str, Any]:
        """What ``diagnostics.json`` holds."""
        checks = [check.as_dict() for check in self.findings]
        return {"converged": self.converged, "seconds": dict(self.seconds), "checks": checks}

    def horizons(self, success: float = 0.5, *, kind: str = "marginal") -> pd.DataFrame:
        """Return each agent's time horizon in minutes of human work.

        Parameters
        ----------
        success : float
            Success rate strictly between 0 and 1.
        kind : str
            ``marginal`` for a random task of that length, ``typical`` for one without residual
            difficulty. They differ where the model has difficulty beyond length.

        Returns
        -------
        DataFrame
            agent, horizon (minutes), its 95 % interval (q0.025, q0.975), beyond (probability that
            it is infinite or longer than the longest task), n_runs, release_date.
        """
        import pandas as pd

        found = self.estimate.interval(success, kind=kind)
        days = [self.runs.release_dates.get(agent) for agent in self.design.agents]
        return pd.DataFrame(
            {
                "agent": self.design.agents,
                "horizon": found.median,
                "q0.025": found.low,
                "q0.975": found.high,
                "beyond": self.estimate.beyond(success, kind=kind),
                "n_runs": self.design.attempts.sum(axis=1).astype(int),
                "release_date": [day.isoformat() if day else "" for day in days],
            }
        )

    def pairs(self, success: float = 0.5, *, kind: str = "typical") -> pd.DataFrame:
        """Return, for every two agents, how probably the first has the longer horizon."""
        from tidegauge.horizon.horizons.tables import pairs_table

        draws = self.estimate.log2_horizons(success, kind=kind)
        return pairs_table(self.design.agents, draws)

    def checks(self) -> pd.DataFrame:
        """Return every check: name, passed (None for information only) and detail."""
        import pandas as pd

        rows = [check.as_dict() for check in self.findings]
        return pd.DataFrame(rows, columns=["name", "passed", "detail"])

    def metr_table(self) -> pd.DataFrame:
        """Return ``horizons.csv``: METR's columns of logistic fits, then ours."""
        from tidegauge.horizon.horizons.tables import horizons_table

        dates = self.runs.release_dates
        table = horizons_table(self.design, self.estimate, release_dates=dates)
        return table.assign(estimand=self.estimand)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return every table that `save` writes, by the name of its file."""
        from tidegauge.horizon.horizons.tables import draws_table

        return {
            "horizons.csv": self.metr_table(),
            "horizon_draws.csv": draws_table(self.estimate),
            "pairs.csv": self.pairs(),
        }

    def plot(self, name: str = "horizons") -> Any:
        """Return one chart, which shows itself in a notebook.

        Parameters
        ----------
        name : str
            Such as ``horizons``, ``success_curves``, ``difficulty`` or ``trace``.

        Returns
        -------
        altair.Chart

        Raises
        ------
        InputError
            There is no such chart of this result; the message lists those that there are.
        """
        from tidegauge.report.horizon.fit_charts import result_charts

        charts = result_charts(self)
        if name not in charts:
            raise InputError(f"plot {name}: there is no such; choose from {', '.join(charts)}")
        return charts[name]()

    def save(self, folder: Path | str, *, tables: Mapping[str, Any] | None = None) -> None:
        """Write all files of the result to a folder, all together or not at all.

        Parameters
        ----------
        tables : mapping, optional
            Further tables by file name, such as ``rates.csv``.
        """
        from tidegauge.horizon.store.fit_folder import write_result

        write_result(self, Path(folder), tables=tables or {})

    def __repr__(self) -> str:
        verdict = [self._verdict, *(f"check failed: {c.name}: {c.detail}" for c in self._failed)]
        table = self._shown().to_string(index=False, float_format=lambda value: f"{value:.4g}")
        return "\n".join([*verdict, self._caption, table])

    def _repr_html_(self) -> str:
        failed = "".join(f"<li>{html.escape(f'{c.name}: {c.detail}')}</li>" for c in self._failed)
        table = self._shown().to_html(
            index=False, border=0, justify="left", float_format=lambda value: f"{value:.4g}"
        )
        return (
            f"<p><strong>{html.escape(self._verdict)}</strong></p>"
            + (f"<p>Checks that failed:</p><ul>{failed}</ul>" if failed else "")
            + f"<p>{html.escape(self._caption)}</p>{table}"
        )

    @property
    def _failed(self) -> list[Check]:
        return [check for check in self.findings if check.passed is False]

    @property
    def _verdict(self) -> str:
        return f"{self.method}: nothing sampled, human minutes taken as exact"

    @property
    def _caption(self) -> str:
        return (
            f"Time horizons in minutes of human work: task length at which the {self.estimand} is "
            "50 % (p50) and 80 % (p80), as medians"
        )

    def _shown(self) -> pd.DataFrame:
        import pandas as pd

        shown: dict[str, Any] = {"agent": self.design.agents}
        for success in (0.5, 0.8):
            found = self.estimate.interval(success)
            name = f"p{success * 100:.0f}"
            ends = zip(found.low, found.high, strict=True)
            shown |= {
                name: found.median,
                f"{name}, 95 % interval": [f"{low:.3g} to {high:.3g}" for low, high in ends],
            }
        return pd.DataFrame(shown)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CurveFit(HorizonResult):
    """Each agent's success curve by itself on the file's human minutes: regression or exact.

    Attributes
    ----------
    found : Estimate
        Bootstrap replicates or the weighted posterior of every curve.
    options : dict
        Settings of the method.
    """

    runs: Runs
    found: Estimate
    options: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    made: Manifest | None = None

    @property
    def estimate(self) -> Estimate:
        """Draws of every agent's success curve."""
        return self.found

    @property
    def settings(self) -> dict[str, Any]:
        """What the manifest records."""
        return {"method": self.method, "filters": list(self.runs.filters), **self.options}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CurveFit):
            return NotImplemented
        mine, theirs = self.found, other.found
        return (
            self.runs.design == other.runs.design
            and self.method == other.method
            and np.array_equal(mine.alpha, theirs.alpha, equal_nan=True)
            and np.array_equal(mine.beta, theirs.beta, equal_nan=True)
        )

    def __hash__(self) -> int:
        return hash((self.runs.design, self.method))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class HorizonFit(HorizonResult):
    """A sampled posterior of the hierarchical model.

    Attributes
    ----------
    runs : Runs
        What was fitted.
    priors, options : HorizonPriors, HorizonOptions
        The model.
    sampler : SamplerConfig
        How it was sampled, as it was in the end.
    asked : SamplerConfig or None
        How it was to be sampled, where a fit that did not converge was repeated.
    point : Point
        All draws, each array with leading dimensions (chain, draw).
    statistics : dict
        The sampler's own record, arrays (chain, draw).
    diagnosis : Diagnosis
        Convergence and the parameter table.
    attempts : int
        Runs it took: a run that did not converge is repeated with smaller steps, longer chains.
    seconds : dict
        ``compile`` and ``sample``.
    trend_agents : dict
        Which agents are in the trend, where not all that have a date.
    """

    runs: Runs
    priors: HorizonPriors
    options: HorizonOptions
    sampler: SamplerConfig
    point: Point
    statistics: Mapping[str, Any]
    diagnosis: Diagnosis
    attempts: int = 1
    seconds: Mapping[str, float] = field(default_factory=dict)
    asked: SamplerConfig | None = None
    trend_agents: Mapping[str, Any] = field(default_factory=dict)
    made: Manifest | None = None

    @cached_property
    def estimate(self) -> Estimate:
        """Draws of every agent's success curve."""
        return estimate_of_fit(self)

    @cached_property
    def predictive(self) -> PredictiveChecks:
        """Data replicated from the posterior, beside those that were seen."""
        from tidegauge.horizon.horizons.predictive import predict

        return predict(self.design, self.options, self.point, seed=self.sampler.seed)

    @cached_property
    def idata(self) -> az.InferenceData:
        """ArviZ InferenceData: posterior, sample_stats, log_likelihood, observed_data, runs."""
        from tidegauge.horizon.inference_data import inference_data_of

        return inference_data_of(self)

    @property
    def method(self) -> str:
        """``core`` or ``full``."""
        return model_name(self.options, self.priors)

    @property
    def estimand(self) -> str:
        """What the success rate of a horizon is a rate of."""
        return SUCCESS if self.options.scores == "binary" else EXPECTED_SCORE

    @property
    def task_log2(self) -> FloatArray:
        """Posterior mean length of each task in log2 minutes."""
        mean: FloatArray = self.point.mu_task.mean(axis=(0, 1))
        return mean

    @property
    def converged(self) -> bool:
        """Whether no convergence check failed."""
        return self.diagnosis.converged

    @property
    def findings(self) -> tuple[Check, ...]:
        """Checks of convergence, and of the model by prediction."""
        return (*self.diagnosis.checks, *self.predictive.checks())

    @property
    def diagnostics(self) -> dict[str, Any]:
        """What ``diagnostics.json`` holds."""
        table = self.diagnosis.parameters
        general = super().diagnostics
        return {
            "converged": general.pop("converged"),
            "r_hat_max": float(table["r_hat"].max()),
            "ess_bulk_min": float(table["ess_bulk"].min()),
            "ess_tail_min": float(table["ess_tail"].min()),
            "divergences": self.diagnosis.divergences,
            "draws": self.sampler.draws,
            "chains": self.sampler.chains,
            "attempts": self.attempts,
            **general,
        }

    @property
    def settings(self) -> dict[str, Any]:
        """What the manifest records."""
        used = priors_in_effect(self.options, self.point)
        variants = (variant_name(model, self.options) for model in MODELS)
        return {
            "method": min(variants, key=len),
            "model": self.method,
            "seed": self.sampler.seed,
            "filters": list(self.runs.filters),
            "options": self.options,
            "priors": {name: getattr(self.priors, name) for name in used},
            "sampler": self.asked or self.sampler,
            "sampler_used": self.sampler,
            "agents": dict(self.trend_agents),
        }

    def tasks(self) -> pd.DataFrame:
        """Return every task's inferred length in log2 minutes, beside the file's."""
        from tidegauge.horizon.horizons.tables import tasks_table

        return tasks_table(self.design, self.point.mu_task.reshape(-1, len(self.design.tasks)))

    def parameters(self) -> pd.DataFrame:
        """Return mean, sd, quantiles, R-hat and ESS of every scalar parameter."""
        return self.diagnosis.parameters

    def domains(self) -> pd.DataFrame:
        """Return horizons by task source and by family; no rows where there is one only."""
        import pandas as pd

        from tidegauge.horizon.horizons.domains import domains_table

        found = domains_table(self)
        return pd.DataFrame() if found is None else found

    def trend(self) -> pd.DataFrame:
        """Return doubling times and horizons of the trend, and of an agent that scatters around it.

        Raises
        ------
        InputError
            The model has no trend.
        """
        return self.trend_tables["trend.csv"]

    @property
    def joint_trend(self) -> Trend | None:
        """Draws of the trend over release date, where the model has one."""
        from tidegauge.horizon.trend.draws import trend_of_fit

        return None if self.options.trend == "none" else trend_of_fit(self)

    @cached_property
    def trend_tables(self) -> dict[str, pd.DataFrame]:
        """``trend.csv``, ``trend_dates.csv`` and ``trend_fan.csv``."""
        from tidegauge.horizon.trend.draws import trend_of_fit
        from tidegauge.horizon.trend.summary import summarise_trend, trend_files

        trends = [trend_of_fit(self)]
        return trend_files(summarise_trend(trends), trends)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return every table that `save` writes, by the name of its file."""
        tables = super().tables()
        tables |= {"tasks.csv": self.tasks(), "parameters.csv": self.parameters()}
        if len(domains := self.domains()):
            tables["domains.csv"] = domains
        return tables | (self.trend_tables if self.options.trend != "none" else {})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HorizonFit):
            return NotImplemented
        mine, theirs = self.point.present(), other.point.present()
        return (
            self.design == other.design
            and (self.options, self.sampler.seed) == (other.options, other.sampler.seed)
            and self.settings["priors"] == other.settings["priors"]
            and mine.keys() == theirs.keys()
            and all(np.array_equal(mine[name], theirs[name], equal_nan=True) for name in mine)
        )

    def __hash__(self) -> int:
        return hash((self.design, self.options, self.sampler.seed))

    @property
    def _verdict(self) -> str:
        count = f"{self.sampler.chains} chains of {self.sampler.draws:,} draws"
        state = "converged" if self.converged else "NOT CONVERGED: do not rely on these numbers"
        return f"{self.method}: {state} ({count})"
