"""What a method finds, whichever it is: draws of every agent's success curve, and their horizons.

A posterior and a bootstrap are joint draws of all agents. The exact posterior is a set of curves
with weights, agent by agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit

from tidegauge.arrays import FloatArray, weighted_quantiles
from tidegauge.engine.diagnostics import mixing
from tidegauge.errors import InputError
from tidegauge.horizon.horizons.quantities import (
    Interval,
    bounded,
    log2_horizon,
    marginal_logit,
    minutes_interval,
    minutes_of,
    share_beyond,
    typical_logit,
)
from tidegauge.horizon.model.likelihood import mean_success
from tidegauge.horizon.model.option_file import model_name

if TYPE_CHECKING:
    import pandas as pd

    from tidegauge.horizon.data.design import Design
    from tidegauge.horizon.model.parameters import Point
    from tidegauge.horizon.result import HorizonFit

KINDS = ("marginal", "typical")
# Of a weighted posterior: so many quantiles that the ends of a 95 % interval are among them.
_EVEN_DRAWS = 20_001
_ORDER_SEED = 1
_SUCCESS_DRAWS = 250  # of each chain: a mean probability needs no more


class Curves(NamedTuple):
    """Intercepts (logits) and slopes (logits per log2 minute) of success curves."""

    alpha: FloatArray
    beta: FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class Estimate:
    """Success curves and time horizons of all agents, as one method finds them.

    Attributes
    ----------
    method : str
        Its name, such as ``regression`` or ``full:noise=student_t``.
    agents : tuple of str
    alpha, beta : ndarray, shape (draw, agent)
        Posterior draws or bootstrap replicates of the curves. A row is one draw of all agents,
        unless `weight` is given.
    success : ndarray, shape (agent, task)
        Predicted probability that one run succeeds, tried or not.
    longest_minutes : float
        The longest task; horizons beyond it are extrapolated.
    weight : ndarray, shape (draw, agent), or None
        Of each agent's curves in an exact posterior, where agents are independent and rows have no
        meaning; None where all draws weigh the same.
    point : Curves or None
        The point fit (agent,) that a bootstrap is the uncertainty of; None for a posterior.
    residual_sd, discrimination_sd : ndarray, shape (draw,), or None
        Standard deviation of new tasks about the typical one, log2 minutes and logs; None for
        none.
    lapse : ndarray, shape (draw, agent), or None
        Share of all tasks at which an agent fails, however short; None for none.
    converged : bool
        Whether the chains agree; True where nothing was sampled.
    r_hat : float
        The largest of all parameters; NaN where nothing was sampled.
    divergences : int
    median_error : ndarray, shape (agent,), or None
        Monte Carlo standard error of the median log2 50 % horizon; None where nothing was sampled.
    fit : HorizonFit or None
        The whole posterior, where it was sampled and kept.
    """

    method: str
    agents: tuple[str, ...]
    alpha: FloatArray
    beta: FloatArray
    success: FloatArray
    longest_minutes: float
    weight: FloatArray | None = None
    point: Curves | None = None
    residual_sd: FloatArray | None = None
    discrimination_sd: FloatArray | None = None
    lapse: FloatArray | None = None
    converged: bool = True
    r_hat: float = float("nan")
    divergences: int = 0
    median_error: FloatArray | None = None
    fit: HorizonFit | None = None

    @property
    def centre(self) -> Curves:
        """The point fit, or the medians of alpha and of beta, each of shape (agent,)."""
        if self.point is not None:
            return self.point
        return Curves(*(_medians(values, self.weight) for values in (self.alpha, self.beta)))

    def log2_horizons(self, success: float = 0.5, *, kind: str = "marginal") -> FloatArray:
        """Return joint draws (draw, agent) of the log2 horizons in minutes, which may be infinite.

        Parameters
        ----------
        success : float
            Success rate strictly between 0 and 1.
        kind : str
            ``typical`` is a task with the difficulty typical of its length, ``marginal`` a random
            task of that length: the residual and the discrimination of new tasks are averaged over.
        """
        log2 = self._of_curves(Curves(self.alpha, self.beta), success, kind)
        return log2 if self.weight is None else _even_draws(log2, self.weight)

    def centre_log2(self, success: float = 0.5, *, kind: str = "marginal") -> FloatArray:
        """Return the log2 horizon (agent,) of the point fit, or the median over the draws."""
        if self.point is not None:
            return bounded(self._of_curves(self.point, success, kind))
        log2 = self._of_curves(Curves(self.alpha, self.beta), success, kind)
        return _medians(bounded(log2), self.weight)

    def interval(self, success: float = 0.5, *, kind: str = "marginal") -> Interval:
        """Return each agent's horizon in minutes with its 95 % interval, over all draws."""
        found = minutes_interval(self.log2_horizons(success, kind=kind))
        if self.point is None:
            return found
        return found._replace(median=minutes_of(self.centre_log2(success, kind=kind)))

    def beyond(self, success: float = 0.5, *, kind: str = "marginal") -> FloatArray:
        """Return the share (agent,) of draws whose horizon is beyond the longest task."""
        log2 = self._of_curves(Curves(self.alpha, self.beta), success, kind)
        return share_beyond(log2, longest_minutes=self.longest_minutes, weight=self.weight)

    def table(
        self, success: Sequence[float] = (0.5, 0.8), *, kind: str = "marginal"
    ) -> pd.DataFrame:
        """Return horizons in minutes by agent: ``p50``, its 95 % interval, ``p50_beyond``, ..."""
        import pandas as pd

        columns: dict[str, object] = {"agent": self.agents}
        for rate in dict.fromkeys(success):
            name = f"p{100 * rate:g}"
            columns |= interval_columns(name, self.interval(rate, kind=kind))
            columns[f"{name}_beyond"] = self.beyond(rate, kind=kind)
        return pd.DataFrame(columns)

    def _of_curves(self, curves: Curves, success: float, kind: str) -> FloatArray:
        if not 0 < success < 1:
            raise InputError(f"success={success}: must be strictly between 0 and 1")
        if kind not in KINDS:
            raise InputError(f"kind={kind}: must be one of {', '.join(KINDS)}")
        level = None
        if kind == "marginal" and self.residual_sd is not None:
            sharp = self.discrimination_sd
            level = marginal_logit(
                success,
                residual_sd=-curves.beta * self.residual_sd[:, None],
                discrimination_sd=None if sharp is None else sharp[:, None],
                lapse=self.lapse,
            )
        elif self.lapse is not None:
            level = typical_logit(success, lapse=self.lapse)
        return log2_horizon(
            curves.alpha,
            curves.beta,
            success=success,
            logit=level,
            longest_log2=float(np.log2(self.longest_minutes)),
        )


def estimate_of_draws(design: Design, point: Point, *, method: str) -> Estimate:
    """Return the estimate of posterior draws with leading dimensions (chain, draw)."""
    flat = point.flat()
    parts = (flat.sigma_residual_family, flat.sigma_residual_task)
    squares = [part**2 for part in parts if part is not None]
    averaged = squares or flat.sigma_discrimination is not None
    nothing = np.zeros(flat.mu_global.shape)
    return Estimate(
        method=method,
        agents=design.agents,
        alpha=flat.alpha,
        beta=flat.beta,
        success=mean_success(point, thin=max(1, point.alpha.shape[1] // _SUCCESS_DRAWS)),
        longest_minutes=float(design.human_minutes.max()),
        residual_sd=np.sqrt(sum(squares, nothing)) if averaged else None,
        discrimination_sd=flat.sigma_discrimination,
        lapse=None if flat.logit_lapse is None else expit(flat.logit_lapse),
    )


def estimate_of_fit(fit: HorizonFit, *, method: str | None = None) -> Estimate:
    """Return the estimate of a sampled posterior, with how well its chains mixed."""
    found = estimate_of_draws(
        fit.design, fit.point, method=method or model_name(fit.options, fit.priors)
    )
    log2 = bounded(log2_horizon(fit.point.alpha, fit.point.beta, success=0.5))
    return replace(
        found,
        converged=fit.diagnosis.converged,
        r_hat=float(fit.diagnosis.parameters["r_hat"].max()),
        divergences=fit.diagnosis.divergences,
        median_error=mixing(log2).median_error,
        fit=fit,
    )


def _medians(values: FloatArray, weight: FloatArray | None) -> FloatArray:
    if weight is None:
        middle: FloatArray = np.median(values, axis=0)
        return middle
    pairs = zip(values.T, weight.T, strict=True)
    return np.array([weighted_quantiles(own, share, [0.5])[0] for own, share in pairs])


def _even_draws(log2: FloatArray, weight: FloatArray) -> FloatArray:
    """Return draws of equal weight (draw, agent): each agent's quantiles at even levels.

    Agents are independent, so the order within each is random. It is the same at every success
    rate: a row has the same rank in each agent's posterior throughout.
    """
    rng = np.random.default_rng(_ORDER_SEED)
    levels = np.linspace(0, 1, _EVEN_DRAWS).tolist()
    agents = zip(bounded(log2).T, weight.T, strict=True)
    return np.stack(
        [rng.permutation(weighted_quantiles(own, share, levels)) for own, share in agents], axis=1
    )


def interval_columns(name: str, interval: Interval) -> dict[str, FloatArray]:
    """Return a median and its 95 % interval as METR names the columns."""
    return {name: interval.median, f"{name}q0.025": interval.low, f"{name}q0.975": interval.high}
