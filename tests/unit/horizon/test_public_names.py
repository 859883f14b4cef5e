"""The public names: few, light to import, documented with examples that run."""

from __future__ import annotations

import doctest
import html
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import tidegauge
import tidegauge.horizon as th
from tidegauge.errors import ConvergenceWarning, InputError, TideGaugeWarning
from tidegauge.horizon import HorizonFit, Runs, load
from tidegauge.horizon.model.option_file import make_model
from tidegauge.horizon.model.parameters import priors_in_effect

FUNCTIONS = [name for name in th.__all__ if name not in ("HorizonFit", "HorizonResult")]
SLOW = {"fit", "compare_trends", "multiverse"}  # their examples sample: run by `make slow`


def test_checking_a_file_imports_what_reading_needs(few_runs: Path) -> None:
    """`horizon check` answers at once: neither tables nor priors are loaded for it."""
    runs = str(few_runs / "runs.jsonl")
    code = (
        "import sys\nfrom tidegauge.cli.main import cli\n"
        f"cli.main(['horizon', 'check', {runs!r}, '-q'], standalone_mode=False)\n"
        "print([m for m in ('pandas', 'scipy.special', 'numba', 'pymc') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[0].startswith("rows")
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr


def test_importing_the_names_imports_nothing_heavy() -> None:
    heavy = ("numba", "pymc", "arviz", "pandas", "nutpie", "altair", "matplotlib")
    code = f"import sys, tidegauge.horizon; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_name_is_there_and_no_other() -> None:
    assert all(getattr(th, name) is not None for name in th.__all__)
    assert set(th.__all__) <= set(dir(th))
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        _ = th.fitt
    assert tidegauge.horizon is th
    assert inspect.ismodule(tidegauge.bench)
    assert inspect.ismodule(tidegauge.fvc)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tidegauge.nothing


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - SLOW))
def test_examples_of_the_public_names_run(name: str) -> None:
    found = make_model if name == "model" else getattr(th, name)
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(verbose=False)
    for test in finder.find(found, name, globs={name: found}):
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


@pytest.mark.parametrize(
    "name",
    [
        *("compare", "compare_trends", "fit", "fit_exact", "fit_regression", "load", "model"),
        *("multiverse", "read_runs", "simulate", "write_report"),
    ],
)
def test_public_functions_say_what_they_take_and_give_with_an_example(name: str) -> None:
    text = inspect.getdoc(make_model if name == "model" else getattr(th, name)) or ""
    assert ">>> " in text
    assert "Returns\n-------" in text or name == "write_report"
    assert "Parameters\n----------" in text or name == "fit_exact"


def test_a_model_prints_the_terms_that_are_on_and_every_prior() -> None:
    text = str(th.model("core"))
    assert "log2 duration ~ Normal(mu_task, sigma_human)" in text
    assert "residual" not in text
    priors = {"sigma_human": th.half_normal(2)}
    text = str(th.model("full", noise="student_t", priors=priors))
    assert "StudentT(1 + nu_minus_one, mu_task, sigma_human)" in text
    assert "residual_family ~ Normal(0, sigma_residual_family)" in text


def test_the_priors_it_prints_are_those_of_the_fit(fit_folder: Path, full_folder: Path) -> None:
    for folder in (fit_folder, full_folder):
        fit = load(folder)
        assert isinstance(fit, HorizonFit)
        text = str(make_model("full", priors={}, **vars(fit.options)))
        printed = {line.split()[0] for line in text.split("priors\n")[1].splitlines()}
        assert printed == set(priors_in_effect(fit.options, fit.point))


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"name": "best"}, "model=best: must be one of core, full"),
        ({"colour": "red"}, "option colour: there is no such"),
        ({"noise": "loud"}, "noise=loud: must be one of"),
        ({"priors": {"sigma": th.normal(0, 1)}}, "prior of sigma: there is no such"),
        ({"priors": {"sigma_human": th.normal(0, 1)}}, "sigma_human"),
    ],
)
def test_a_model_that_cannot_be_meant_is_refused(choices: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        th.model(**choices)


def test_what_is_not_to_be_relied_on_warns_by_type(dated_runs: Runs) -> None:
    with pytest.warns(ConvergenceWarning, match="not converged: ") as caught:
        fit = th.fit(dated_runs, draws=10, tune=20, chains=2)
    assert all(issubclass(one.category, TideGaugeWarning) for one in caught)
    assert caught[0].filename == __file__
    assert repr(fit).startswith("core: NOT CONVERGED: do not rely on these numbers")
    assert "check failed: ess_bulk" in repr(fit)
    assert "agent-08" in repr(fit)
    assert "success probability is 50 % (p50) and 80 % (p80)" in repr(fit)
    assert "p80, 95 % interval" in repr(fit)
    page = fit._repr_html_()
    assert "NOT CONVERGED" in page
    assert "<td>agent-08</td>" in page


def test_a_model_is_shown_as_its_text_in_a_notebook() -> None:
    shown = th.model("full", failures="censor")
    assert shown._repr_html_() == f"<pre>{html.escape(str(shown))}</pre>"
    assert "duration &gt; the time it took" in shown._repr_html_()


def test_tables_of_a_result(fit_folder: Path, full_folder: Path) -> None:
    fit = load(fit_folder)
    assert isinstance(fit, HorizonFit)
    half, most = fit.horizons(), fit.horizons(success=0.8, kind="typical")
    assert (most["horizon"] < half["horizon"]).all()
    assert list(half) == [
        *("agent", "horizon", "q0.025", "q0.975", "beyond", "n_runs", "release_date")
    ]
    assert len(fit.tasks()) == 60
    assert len(fit.pairs()) == 28
    assert set(fit.domains()["kind"]) == {"source", "family"}
    assert {"r_hat", "divergences"} <= set(fit.checks()["name"])
    assert set(fit.parameters()) >= {"parameter", "mean", "r_hat"}
    assert set(fit.idata.groups()) >= {"posterior", "constant_data"}
    with pytest.raises(InputError, match="no trend was fitted"):
        fit.trend()
    with pytest.raises(InputError, match=r"plot pie: there is no such; choose from horizons"):
        fit.plot("pie")
    assert fit.plot("difficulty").to_dict()
    with pytest.raises(InputError, match="kind=mean: must be one of"):
        fit.horizons(kind="mean")
    full = load(full_folder)
    assert isinstance(full, HorizonFit)
    assert "doubling_months" in set(full.trend()["quantity"])
