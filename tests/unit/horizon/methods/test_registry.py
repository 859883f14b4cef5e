"""Methods by name: what a name means, how former names are read, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tidegauge.errors import InputError
from tidegauge.horizon.methods.base import Climatology
from tidegauge.horizon.methods.exact import Exact
from tidegauge.horizon.methods.hierarchical import Hierarchical
from tidegauge.horizon.methods.registry import (
    BASELINE,
    FORMER_NAMES,
    NAMES,
    VARIANTS,
    current_name,
    find_method,
    variant_name,
)
from tidegauge.horizon.methods.regression import Regression, RegressionOptions
from tidegauge.horizon.model.options import CORE, FULL, HorizonOptions


def test_every_name_gives_the_method_that_bears_it() -> None:
    assert find_method("regression") == Regression()
    assert find_method("exact") == Exact()
    assert find_method("core") == Hierarchical("core", options=CORE)
    assert find_method("full") == Hierarchical("full", options=FULL)
    assert find_method(BASELINE) == Climatology()
    for name in (*NAMES, *VARIANTS, BASELINE):
        assert find_method(name).name == name


def test_a_variant_changes_what_it_names_and_nothing_else() -> None:
    found = find_method("full:noise=student_t,rounding=true")
    assert isinstance(found, Hierarchical)
    assert found.options == replace(FULL, noise="student_t", rounding=True)
    found = find_method("regression:weighting=equal,regularisation=0.1,lengths=simex,replicates=7")
    expected = RegressionOptions(
        weighting="equal", regularisation=0.1, lengths="simex", replicates=7
    )
    assert isinstance(found, Regression)
    assert found.options == expected


def test_a_variant_may_be_a_file_of_options(tmp_path: Path) -> None:
    file = tmp_path / "options.yaml"
    file.write_text("noise: student_t\npriors: {sigma_human: {kind: half_normal, sd: 2}}\n")
    found = find_method(f"full:{file}")
    assert isinstance(found, Hierarchical)
    assert found.options == replace(FULL, noise="student_t")
    assert found.priors.sigma_human.sd == 2


def test_variants_of_core_differ_from_it_in_one_option_each() -> None:
    options = [method.options for method in map(find_method, VARIANTS)]  # type: ignore[attr-defined]
    assert len(set(options)) == len(options)
    assert all(len(one.changed) == 1 for one in options)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("core", HorizonOptions(rounding=True, noise="weibull")),
        ("full", replace(FULL, failures="ignore")),
        ("full", FULL),
    ],
)
def test_the_name_of_a_variant_is_read_back_as_its_options(
    name: str, options: HorizonOptions
) -> None:
    found = find_method(variant_name(name, options))
    assert isinstance(found, Hierarchical)
    assert found.options == options


def test_former_names_are_translated_with_a_note() -> None:
    for former, name in FORMER_NAMES.items():
        notes: list[str] = []
        assert current_name(former, notes.append) == name
        assert notes == [f"method {former} is now called {name}"]
        assert find_method(former) == find_method(name)
    notes = []
    assert current_name("core", notes.append) == "core"
    assert notes == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("magic", "method=magic: must be one of regression, exact, core, full"),
        ("", "method=: must be one of"),
        ("core:colour=red", "method=core:colour=red: colour: no such option; choose from residual"),
        ("core:noise=cauchy", "noise=cauchy: must be one of normal, student_t, weibull"),
        ("core:rounding=1", "rounding=1: must be true or false"),
        ("exact:noise=normal", "noise: no such option; it takes none"),
        ("regression:regularisation=much", "regularisation=much: must be a number"),
        ("regression:regularisation=0", "regularisation=0.0: must be above 0"),
        ("regression:lengths=short", "lengths=short: must be one of given, simex"),
        ("full:none.yaml", "none.yaml"),
    ],
)
def test_what_is_no_method_is_refused_with_what_there_is(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        find_method(text)
    assert message in str(error.value)


def test_names_are_read_without_importing_what_fits_them() -> None:
    code = (
        "import sys, tidegauge.horizon.methods.registry; "
        "print([name for name in ('numba', 'pandas', 'arviz', 'pymc') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
