"""Logistic terms of many cells at once, compiled so that the processor's lanes are used."""

from __future__ import annotations

import math

import numpy as np

from tidegauge.horizon.density.jit import jit

_ROUNDING = 1.5 * 2.0**52  # added to a double, leaves the nearest whole number in its low bits
_LOG2_E = 1 / math.log(2)
_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")  # its products with whole powers are exact
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")


@jit
def _exp_series(x):  # type: ignore[no-untyped-def]
    """Return exp(x) for |x| < 0.35, as straight-line code: a loop would cost the lanes."""
    tail = 1 / 40320 + x * (
        1 / 362880 + x * (1 / 3628800 + x * (1 / 39916800 + x * (1 / 479001600)))
    )
    tail = 1 / 24 + x * (1 / 120 + x * (1 / 720 + x * (1 / 5040 + x * tail)))
    return 1 + x * (1 + x * (1 / 2 + x * (1 / 6 + x * tail)))


@jit
def _atanh_series(s):  # type: ignore[no-untyped-def]
    """Return atanh(r) / r by s = r**2, for s <= 1/9."""
    tail = 1 / 25 + s * (1 / 27 + s * (1 / 29 + s * (1 / 31 + s * (1 / 33))))
    tail = 1 / 17 + s * (1 / 19 + s * (1 / 21 + s * (1 / 23 + s * tail)))
    tail = 1 / 9 + s * (1 / 11 + s * (1 / 13 + s * (1 / 15 + s * tail)))
    return 1 + s * (1 / 3 + s * (1 / 5 + s * (1 / 7 + s * tail)))


@jit
def logistic_terms(eta, won, softplus, small):  # type: ignore[no-untyped-def]
    """Write logistic(eta) and log(1 + exp(eta)), accurate to a few units in the last place.

    Written so that the compiler can do several at once, which it cannot with the library's exp:
    exp by splitting off the power of two (its exponent made in the bits of `small`), log1p by the
    series of the inverse hyperbolic tangent.
    """
    bits = small.view(np.int64)
    for i in range(eta.size):
        small[i] = _ROUNDING - min(abs(eta[i]), 700.0) * _LOG2_E
    for i in range(eta.size):
        power = small[i] - _ROUNDING
        rest = (-min(abs(eta[i]), 700.0) - power * _LN2_HIGH) - power * _LN2_LOW
        softplus[i] = _exp_series(rest)
    for i in range(eta.size):
        bits[i] = (bits[i] << 52) + (1023 << 52)
    for i in range(eta.size):
        below = softplus[i] * small[i]  # exp(-|eta|)
        won[i] = (1.0 if eta[i] > 0 else below) / (1 + below)
        ratio = below / (2 + below)
        softplus[i] = max(eta[i], 0.0) + 2 * ratio * _atanh_series(ratio * ratio)
