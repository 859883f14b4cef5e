"""Checks that tests of the compiled density share: against PyMC, and of Jacobians."""

from __future__ import annotations

import numpy as np
import pytensor
from pytensor.compile.mode import Mode

from tidegauge.horizon.data.design import Design
from tidegauge.horizon.density.buffer import pack_data
from tidegauge.horizon.density.joint import log_density
from tidegauge.horizon.model.options import DEFAULT_PRIORS, HorizonOptions, HorizonPriors
from tidegauge.horizon.model.parameters import BLOCKS, DIMS, is_log, layout_of
from tidegauge.horizon.model.specification import build_model

PLAIN = Mode(linker="py", optimizer=None)  # nothing is compiled: a model is evaluated but thrice


def value_vars(x: np.ndarray, design: Design, options: HorizonOptions) -> dict[str, np.ndarray]:
    """Name the parts of the vector as PyMC names its unconstrained variables."""
    layout, named = layout_of(design, options), {}
    for block, name in enumerate(BLOCKS):
        if layout.has(block):
            value = x[layout.place(block)]
            suffix = "_log__" if is_log(name) else ""
            suffix = "_interval__" if name in ("beta", "trend_kink") else suffix
            alone = name not in DIMS and not (name == "sigma_human" and layout.per_source)
            named[name + suffix] = value[0] if alone else value
    return named


def packed(named: dict[str, np.ndarray], design: Design, options: HorizonOptions) -> np.ndarray:
    """Put PyMC's named parts into the order of the vector."""
    layout = layout_of(design, options)
    parts = {
        name.removesuffix("__").rsplit("_", 1)[0] if name.endswith("__") else name: value
        for name, value in named.items()
    }
    x = np.full(layout.size, np.nan)
    for block, name in enumerate(BLOCKS):
        if layout.has(block):
            x[layout.place(block)] = parts[name]
    return x


def check_against_pymc(
    design: Design, options: HorizonOptions, priors: HorizonPriors = DEFAULT_PRIORS
) -> None:
    model = build_model(design, priors=priors, options=options)
    names = [variable.name for variable in model.value_vars]
    total = sum(term.sum() for term in model.logp(sum=False))
    slopes = pytensor.grad(total, model.value_vars)
    value_and_slopes = model.compile_fn([total, *slopes], inputs=model.value_vars, mode=PLAIN)
    data, rng = pack_data(design, priors, options), np.random.default_rng(1)
    for scale in (0.1, 0.5, 1.0):
        x = rng.normal(0, scale, layout_of(design, options).size)
        gradient = np.empty(x.size)
        value = log_density(x, gradient, data)
        point = value_vars(x, design, options)
        assert sorted(point) == sorted(names)
        expected_value, *parts = value_and_slopes(point)
        np.testing.assert_allclose(value, expected_value, rtol=1e-9)
        # PyMC's log survival changes its formula in the tail, where its slope is good to 1e-7;
        # ours is compared with SciPy's below. Both sum terms as large as the largest slope.
        exact = options.failures == "ignore" and not options.rounding
        expected = packed(dict(zip(names, parts, strict=True)), design, options)
        slack = (1e-11 if exact else 1e-9) * np.abs(expected).max() + (1e-9 if exact else 1e-6)
        np.testing.assert_allclose(gradient, expected, rtol=1e-8, atol=slack)


def numerical_jacobian(function, z: np.ndarray) -> np.ndarray:  # type: ignore[no-untyped-def]
    step = 1e-5
    columns = []
    for i in range(z.size):
        ahead, behind = z.copy(), z.copy()
        ahead[i] += step
        behind[i] -= step
        columns.append((function(ahead) - function(behind)) / (2 * step))
    return np.array(columns).T
