"""Cells of runs that are alike, or whose agent lapses: log probabilities and their slopes.

A run succeeds with probability p = (1 - lapse) logistic(eta). The n runs of a cell are independent
(phi infinite), or share a probability ~ Beta(phi p, phi (1 - p)), so that k of them succeed with

    log P = log C(n, k) + log (phi p)_k + log (phi (1 - p))_(n-k) - log (phi)_n

where (x)_k = x (x + 1) ... (x + k - 1) is the rising factorial. Its first and last term do not
depend on the cell's own p and are added once for all cells.
"""

from __future__ import annotations

import math

from tidegauge.horizon.density.jit import jit

_FACTORS = 48  # beyond, Stirling's series costs less than so many factors
_FOLDED = 8  # factors whose product cannot overflow


@jit
def log_rising(x, k):  # type: ignore[no-untyped-def]
    """Return log (x)_k and its slope by x.

    Products and their derivatives by the product rule, with one logarithm for eight factors; for
    large k the difference of two of Stirling's series, so written that nothing large cancels.
    """
    value, slope, product, tangent = 0.0, 0.0, 1.0, 0.0
    factors = int(k) if k <= _FACTORS else _FOLDED
    for j in range(factors):
        factor = x + j
        tangent = tangent * factor + product
        product *= factor
        if j % _FOLDED == _FOLDED - 1:
            value += math.log(product)
            slope += tangent / product
            product, tangent = 1.0, 0.0
    value += math.log(product)
    slope += tangent / product
    if k > _FACTORS:
        low, high = x + _FOLDED, x + k
        ratio = math.log1p((high - low) / low)
        value += (low - 0.5) * ratio + (high - low) * (math.log(high) - 1)
        value += _stirling(high) - _stirling(low)
        slope += ratio + 0.5 * (high - low) / (low * high)
        slope += _stirling_slope(high) - _stirling_slope(low)
    return value, slope


@jit
def _stirling(x):  # type: ignore[no-untyped-def]
    """Return log Gamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2) for x >= 8."""
    s = 1 / (x * x)
    return (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s / 1188)))) / x


@jit
def _stirling_slope(x):  # type: ignore[no-untyped-def]
    s = 1 / (x * x)
    return -s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s / 132))))


@jit
def cell_terms(  # type: ignore[no-untyped-def]
    successes, attempts, eta, won, softplus, lapse, phi, by_eta
):
    """Return one agent's log probability and its slopes by lapse and phi; write those by eta.

    Left out, where phi is finite: log (phi)_n of each cell, and its slope.
    """
    logp, by_lapse, by_phi = 0.0, 0.0, 0.0
    for t in range(eta.size):
        n, k = attempts[t], successes[t]
        by_eta[t] = 0.0
        if n == 0:
            continue
        lost = math.exp(-softplus[t]) if eta[t] > 0 else 1 - won[t]  # 1 - won, without cancelling
        p, q = (1 - lapse) * won[t], lapse + (1 - lapse) * lost
        if phi == math.inf:
            logp += k * (math.log1p(-lapse) + eta[t] - softplus[t]) + (n - k) * math.log(q)
            by_eta[t] = lost * (k - (n - k) * p / q)
            by_lapse += (n - k) * won[t] / q - k / (1 - lapse)
        else:
            risen, by_p = log_rising(phi * p, k)
            fallen, by_q = log_rising(phi * q, n - k)
            logp += risen + fallen
            by_eta[t] = phi * p * lost * (by_p - by_q)
            by_lapse -= phi * won[t] * (by_p - by_q)
            by_phi += p * by_p + q * by_q
    return logp, by_lapse, by_phi
