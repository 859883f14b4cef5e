"""Coordinates of what agents share, and of agents given it: log slopes, log2 horizons.

Values h of agents (log slopes, or log2 horizons given the slopes) share a prior, Normal about f
with scatter sigma. f = offset + B tau is linear in tau, the linear coefficients of a mean or a
trend and the levels of groups; offset and B may depend on coefficients that bend a trend (where its
kink lies, the height of a logistic curve), which are coordinates themselves. Runs alone tell the
values as Normal about y with covariance V = U diag(v) U'. In the basis U, marked by a tilde:

    Lambda = Lambda_0 + sum_i b~_i b~_i' / (sigma^2 + v_i),   L L' = Lambda
    tau = Lambda^-1 (Lambda_0 tau_0 + sum_i b~_i (y~_i - offset~_i) / (sigma^2 + v_i)) + L'^-1 z
    w_i = sigma^2 / (sigma^2 + v_i)
    h~_i = w_i y~_i + (1 - w_i) f~_i + sqrt(w_i v_i) z_i

So the coefficients come first, with the agents integrated out, and then the agents given them: as
sigma goes to zero the agents follow the trend of the moment, and there is no funnel.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.horizon.density.agents import trend_terms
from tidegauge.horizon.density.jit import jit
from tidegauge.horizon.model.parameters import (
    GROUP_HORIZON,
    GROUP_SLOPE,
    MU_FAMILY,
    MU_SLOPE,
    SIGMA_GROUP_HORIZON,
    SIGMA_GROUP_SLOPE,
    SIGMA_HORIZON,
    SIGMA_SLOPE,
    TREND_LEVEL,
)
from tidegauge.horizon.model.trend_shapes import KINK


class LinkWork(NamedTuple):
    """What the way forward keeps for the way back."""

    located: FloatArray  # y~
    expected: FloatArray  # f~
    offset: FloatArray  # offset~
    basis: FloatArray  # B~ (agent, term)
    bending: FloatArray  # derivatives by the bending coefficients (agent, 3): of the offset, or of
    # B's last column of the trend where that bends
    root: FloatArray  # L
    mean: FloatArray  # of tau
    tau: FloatArray


class Shared(NamedTuple):
    """Where a link's parts lie in the vector."""

    scale: int
    first: int  # of the terms
    n_terms: int  # of the linear ones; those that bend come after them
    n_bending: int
    group: int  # first of the groups' levels
    group_scale: int
    is_horizon: bool


@jit
def shared_slopes(at):  # type: ignore[no-untyped-def]
    """Return where the parts of the slopes' prior lie."""
    return Shared(
        at[SIGMA_SLOPE], at[MU_SLOPE], 1, 0, at[GROUP_SLOPE], at[SIGMA_GROUP_SLOPE], False
    )


@jit
def shared_horizons(at, link):  # type: ignore[no-untyped-def]
    """Return where the parts of the horizons' prior lie."""
    n_terms = link.prior_mean.size - (at[GROUP_HORIZON + 1] - at[GROUP_HORIZON])
    return Shared(
        at[SIGMA_HORIZON],
        at[TREND_LEVEL],
        n_terms,
        at[MU_FAMILY] - at[TREND_LEVEL] - n_terms,
        at[GROUP_HORIZON],
        at[SIGMA_GROUP_HORIZON],
        True,
    )


@jit
def new_link_work(link):  # type: ignore[no-untyped-def]
    """Make room for a link."""
    n, k = link.variance.size, link.prior_mean.size
    by_agent, by_term = np.zeros((3, n)), np.zeros((2, k))
    return LinkWork(
        by_agent[0],
        by_agent[1],
        by_agent[2],
        np.zeros((n, k)),
        np.zeros((n, 3)),
        np.zeros((k, k)),
        by_term[0],
        by_term[1],
    )


@jit
def _rotate(rotation, values, out):  # type: ignore[no-untyped-def]
    """Write U' values."""
    out[:] = 0
    for a in range(values.size):
        for i in range(values.size):
            out[i] += rotation[a, i] * values[a]


@jit
def _rotate_back(rotation, values, out):  # type: ignore[no-untyped-def]
    """Write U values."""
    for a in range(values.size):
        total = 0.0
        for i in range(values.size):
            total += rotation[a, i] * values[i]
        out[a] = total


@jit
def _cholesky(matrix):  # type: ignore[no-untyped-def]
    """Replace the lower triangle of a positive definite matrix by its Cholesky factor."""
    for j in range(matrix.shape[0]):
        for i in range(j, matrix.shape[0]):
            total = matrix[i, j]
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = math.sqrt(total) if i == j else total / matrix[j, j]


@jit
def _solve(root, values):  # type: ignore[no-untyped-def]
    """Replace `values` by L^-1 values."""
    for i in range(values.size):
        total = values[i]
        for k in range(i):
            total -= root[i, k] * values[k]
        values[i] = total / root[i, i]


@jit
def _solve_transposed(root, values):  # type: ignore[no-untyped-def]
    """Replace `values` by L'^-1 values."""
    for i in range(values.size - 1, -1, -1):
        total = values[i]
        for k in range(i + 1, values.size):
            total -= root[k, i] * values[k]
        values[i] = total / root[i, i]


@jit
def _linearise(x, data, order, shared, offset, basis, bending):  # type: ignore[no-untyped-def]
    """Write offset and basis of each agent's mean, and their derivatives where a trend bends."""
    settings, group, years = data.settings, data.agents.group, data.agents.years
    terms, slopes = np.zeros(4), np.zeros(4)
    for k in range(shared.n_terms, shared.n_terms + shared.n_bending):
        terms[k] = x[shared.first + k]
    kinked = shared.is_horizon and settings.trend == KINK
    if kinked:
        terms[2] = 1.0  # the derivative by the kink is then that of its column
    basis[:] = 0
    for i in range(offset.size):
        a = int(order[i])
        offset[i], basis[i, 0] = 0.0, 1.0
        if shared.is_horizon:
            value = trend_terms(
                settings.trend, terms, years[a], settings.first_year, settings.last_year, slopes
            )
            offset[i] = 0.0 if kinked else value
            for k in range(shared.n_terms):
                basis[i, k] = slopes[k]
            for k in range(shared.n_bending):
                bending[i, k] = slopes[shared.n_terms + k]
        if basis.shape[1] > shared.n_terms:
            basis[i, shared.n_terms + int(group[a])] = 1.0


@jit
def link_forward(z, x, start, y, order, data, link, shared, work, values):  # type: ignore[no-untyped-def]
    """Write the coefficients of `z` into `x` and the agents' values; return the log determinant.

    Parameters
    ----------
    start : int
        Where the agents' innovations begin in `z`.
    y : ndarray, shape (agent,)
        The values as their runs alone tell them.
    order : ndarray, shape (agent,)
        Which agents these are.
    """
    n, n_terms = link.variance.size, link.prior_mean.size
    variance = math.exp(2 * x[shared.scale])
    for k in range(shared.first + shared.n_terms, shared.first + shared.n_terms + shared.n_bending):
        x[k] = z[k]
    offset, basis = np.empty(n), np.empty((n, n_terms))
    _linearise(x, data, order, shared, offset, basis, work.bending)
    _rotate(link.rotation, y, work.located)
    _rotate(link.rotation, offset, work.offset)
    for k in range(n_terms):
        _rotate(link.rotation, basis[:, k], work.basis[:, k])
    root, tau = work.root, work.tau
    root[:] = 0
    for k in range(n_terms):
        precision = _prior_precision(x, k, link, shared)
        root[k, k] = precision
        tau[k] = precision * link.prior_mean[k]
    for i in range(n):
        known = 1 / (variance + link.variance[i])
        left = known * (work.located[i] - work.offset[i])
        for k in range(n_terms):
            tau[k] += work.basis[i, k] * left
            for m in range(k + 1):
                root[k, m] += work.basis[i, k] * work.basis[i, m] * known
    _cholesky(root)
    _solve(root, tau)
    _solve_transposed(root, tau)
    work.mean[:] = tau
    log_determinant, spread = 0.0, np.empty(n_terms)
    for k in range(n_terms):
        spread[k] = z[_place(k, shared)]
        log_determinant -= math.log(root[k, k])
    _solve_transposed(root, spread)
    for k in range(n_terms):
        tau[k] += spread[k]
        x[_place(k, shared)] = tau[k]
    rotated = np.empty(n)
    for i in range(n):
        expected = work.offset[i]
        for k in range(n_terms):
            expected += work.basis[i, k] * tau[k]
        work.expected[i] = expected
        share = variance / (variance + link.variance[i])
        sd = math.sqrt(share * link.variance[i])
        rotated[i] = share * work.located[i] + (1 - share) * expected + sd * z[start + i]
        log_determinant += math.log(sd)
    _rotate_back(link.rotation, rotated, values)
    return log_determinant


@jit
def _place(k, shared):  # type: ignore[no-untyped-def]
    if k < shared.n_terms:
        return shared.first + k
    return shared.group + k - shared.n_terms


@jit
def _prior_precision(x, k, link, shared):  # type: ignore[no-untyped-def]
    if k < shared.n_terms:
        return link.prior_precision[k]
    return math.exp(-2 * x[shared.group_scale])


@jit
def link_backward(z, x, gx, gz, start, data, link, shared, work, by_values, by_y):  # type: ignore[no-untyped-def]
    """Carry the gradient by values and coefficients back to `z`, the scales, and `y` (`by_y`)."""
    n, n_terms = link.variance.size, link.prior_mean.size
    variance = math.exp(2 * x[shared.scale])
    g, by_located, by_expected = np.empty(n), np.empty(n), np.empty(n)
    _rotate(link.rotation, by_values, g)
    by_scale, by_tau = 0.0, np.empty(n_terms)
    for k in range(n_terms):
        by_tau[k] = gx[_place(k, shared)]
    for i in range(n):
        share = variance / (variance + link.variance[i])
        sd = math.sqrt(share * link.variance[i])
        gz[start + i] = g[i] * sd
        by_located[i] = g[i] * share
        by_expected[i] = g[i] * (1 - share)
        by_share = g[i] * (work.located[i] - work.expected[i])
        by_share += 0.5 * (g[i] * sd * z[start + i] + 1) / share
        by_scale += by_share * 2 * share * (1 - share)
        for k in range(n_terms):
            by_tau[k] += by_expected[i] * work.basis[i, k]
    by_precision, by_information = _coefficients_backward(by_tau, work)
    for k in range(n_terms):
        gz[_place(k, shared)] = by_tau[k]  # now by the innovations
        if k >= shared.n_terms:
            precision = _prior_precision(x, k, link, shared)
            gz[shared.group_scale] -= 2 * precision * by_precision[k, k]
    # By the offset, or by the last column of a trend that kinks: both are `by_bent`, rotated.
    kinked = shared.is_horizon and data.settings.trend == KINK
    last = shared.n_terms - 1
    by_rotated, by_bent = np.empty(n), np.empty(n)
    for i in range(n):
        known = 1 / (variance + link.variance[i])
        left, along, square = work.located[i] - work.offset[i], 0.0, 0.0
        for k in range(n_terms):
            along += by_information[k] * work.basis[i, k]
            for m in range(n_terms):
                square += by_precision[k, m] * work.basis[i, k] * work.basis[i, m]
        by_located[i] += known * along
        by_scale -= 2 * variance * known * known * (square + along * left)
        if kinked:
            by_rotated[i] = by_expected[i] * work.tau[last] + known * left * by_information[last]
            for k in range(n_terms):
                by_rotated[i] += 2 * known * by_precision[last, k] * work.basis[i, k]
        else:
            by_rotated[i] = by_expected[i] - known * along
    _rotate_back(link.rotation, by_rotated, by_bent)
    for k in range(shared.n_bending):
        place = shared.first + shared.n_terms + k
        gz[place] = gx[place]
        for i in range(n):
            gz[place] += by_bent[i] * work.bending[i, k]
    _rotate_back(link.rotation, by_located, by_y)
    gz[shared.scale] += by_scale


@jit
def _coefficients_backward(by_tau, work):  # type: ignore[no-untyped-def]
    """Return gradients by Lambda (symmetric) and by Lambda times the mean.

    `by_tau` is replaced by the gradient by the innovations, L^-1 by_tau. The innovations' part
    q = L'^-1 z has the gradient -q u' by L, u = L^-1 by_tau, and the log determinant -1 / L_kk by
    its diagonal; Lambda's follows by the reverse mode of the Cholesky factorisation.
    """
    k = by_tau.size
    root = work.root
    by_information = by_tau.copy()
    _solve(root, by_information)
    by_tau[:] = by_information
    _solve_transposed(root, by_information)  # Lambda^-1 by_tau
    # P = lower triangle, with half the diagonal, of L' by_L; by_Lambda = sym(L'^-1 P L^-1).
    product = np.zeros((k, k))
    for i in range(k):
        for j in range(i + 1):
            total = 0.0
            for m in range(i, k):
                by_root = -(work.tau[m] - work.mean[m]) * by_tau[j]
                if m == j:
                    by_root -= 1 / root[m, m]
                total += root[m, i] * by_root
            product[i, j] = 0.5 * total if i == j else total
    for j in range(k):
        _solve_transposed(root, product[:, j])
    for i in range(k):
        _solve_transposed(root, product[i])  # rows: (S L^-1)' = L'^-1 S'
    by_precision = np.empty((k, k))
    for i in range(k):
        for j in range(k):
            by_precision[i, j] = 0.5 * (product[i, j] + product[j, i])
            by_precision[i, j] -= 0.5 * by_information[i] * work.mean[j]
            by_precision[i, j] -= 0.5 * by_information[j] * work.mean[i]
    return by_precision, by_information
