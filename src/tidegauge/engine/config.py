"""How to sample: one small value that is passed down and saved with the fit."""

from __future__ import annotations

from dataclasses import dataclass

from tidegauge.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerConfig:
    """Settings of a NUTS run.

    Attributes
    ----------
    draws, tune, chains : int
        Kept draws and adaptation draws per chain, and how many chains.
    seed : int
        The only source of randomness.
    target_accept : float
        Mean acceptance the step size is adapted to; nearer to 1 is slower and diverges less.
    cores : int or None
        Chains at once; None for as many as the machine has.
    """

    draws: int = 1000
    tune: int = 500
    chains: int = 4
    seed: int = 1
    target_accept: float = 0.9
    cores: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("draws", 4), ("tune", 10), ("chains", 1), ("seed", 0)):
            if (value := getattr(self, name)) < least:
                raise InputError(f"{name}={value}: must be at least {least}")
        if not 0.5 <= self.target_accept < 1:
            raise InputError(f"target_accept={self.target_accept}: must be in [0.5, 1)")
