"""How much each run counts in METR's regression and in the descriptive columns."""

from __future__ import annotations

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.errors import InputError
from tidegauge.horizon.data.design import Design

SCHEMES = ("invsqrt", "equal", "none")


def run_weights(design: Design, scheme: str = "invsqrt") -> FloatArray:
    """Return the weight of one run in each (agent, task) cell; an agent's runs sum to one.

    ``equal`` gives every task the same weight, ``invsqrt`` divides that by the square root of the
    number of tasks in the family (METR's default), ``none`` weighs every run alike.
    """
    if scheme not in SCHEMES:
        raise InputError(f"weights={scheme}: must be one of {', '.join(SCHEMES)}")
    attempts = design.attempts
    tried = attempts > 0
    weights = np.where(tried, 1.0, 0.0)
    if scheme != "none":
        weights = np.divide(weights, attempts, out=np.zeros_like(attempts), where=tried)
    if scheme == "invsqrt":
        membership = np.eye(len(design.families))[design.task_family]
        tasks_in_family = (tried @ membership)[:, design.task_family]
        weights = weights / np.sqrt(np.maximum(tasks_in_family, 1))
    total = (weights * attempts).sum(axis=1, keepdims=True)
    normalised: FloatArray = weights / total
    return normalised
