"""What a horizon model may be asked for: its priors and its options."""

from __future__ import annotations

from dataclasses import dataclass

from tidegauge.engine.config import SamplerConfig
from tidegauge.engine.priors import Prior, half_normal, normal, truncated_normal
from tidegauge.errors import InputError


@dataclass(frozen=True)
class HorizonPriors:
    """Priors of the core model; lengths are log2 minutes, abilities are logits."""

    mu_global: Prior = normal(5, 3)
    sigma_global: Prior = half_normal(3)
    sigma_family: Prior = half_normal(2)
    sigma_human: Prior = half_normal(1)
    sigma_estimate: Prior = half_normal(2)
    alpha: Prior = normal(0, 5)
    beta: Prior = truncated_normal(-0.5, 1.5, upper=0)


@dataclass(frozen=True, kw_only=True)
class HorizonOptions:
    """Choices of one fit.

    Attributes
    ----------
    failures : str
        ``ignore`` failed human runs, or ``censor`` them at their duration.
    """

    failures: str = "ignore"

    def __post_init__(self) -> None:
        if self.failures not in ("ignore", "censor"):
            raise InputError(f"failures={self.failures}: must be ignore or censor")

    @property
    def censors_failures(self) -> bool:
        """Whether failed human runs say that the task takes longer."""
        return self.failures == "censor"


DEFAULT_PRIORS = HorizonPriors()
DEFAULT_SAMPLER = SamplerConfig(draws=1500, tune=500, chains=4, target_accept=0.95)
CORE = HorizonOptions()
