"""Options of the model from a file and from flags: what wins, and what is refused and how."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from tidegauge.engine.priors import Prior, gamma, half_cauchy, half_normal, normal
from tidegauge.errors import InputError
from tidegauge.horizon.model.option_file import ModelChoice, model_name, resolve
from tidegauge.horizon.model.options import (
    CHOICES,
    CORE,
    DEFAULT_PRIORS,
    FULL,
    HorizonOptions,
    HorizonPriors,
)


def options_file(folder: Path, text: str) -> Path:
    path = folder / "options.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_nothing_said_is_core() -> None:
    assert resolve() == resolve(model="core") == ModelChoice(CORE, DEFAULT_PRIORS)
    assert resolve().name == "core"
    assert resolve(model="full") == ModelChoice(FULL, DEFAULT_PRIORS, model="full")
    assert resolve(model="full").name == "full"


def test_flags_win_over_the_file_and_the_file_over_the_model(tmp_path: Path) -> None:
    file = options_file(tmp_path, "model: full\nnoise: weibull\nrounding: true\nresidual: task\n")
    chosen = resolve(file=file, flags={"noise": "normal", "discrimination": True}).options
    assert (chosen.noise, chosen.rounding, chosen.residual) == ("normal", True, "task")
    assert chosen.discrimination
    assert chosen.estimate_bias == FULL.estimate_bias


def test_the_model_flag_wins_over_the_file(tmp_path: Path) -> None:
    file = options_file(tmp_path, "model: core\nfailures: censor\n")
    assert resolve(file=file).options == HorizonOptions(failures="censor")
    assert resolve(file=file).name == "core"
    full = resolve(model="full", file=file).options
    assert (full.failures, full.residual) == ("censor", FULL.residual)


@pytest.mark.parametrize("name", [field.name for field in fields(HorizonOptions)])
def test_every_option_can_be_set_alone_by_flag_and_by_file(tmp_path: Path, name: str) -> None:
    usual = getattr(FULL, name)
    other = next(value for value in CHOICES.get(name, (True, False)) if value != usual)
    # A fractional score has no distribution that runs of a cell could be alike in.
    beside = {"cells": "binomial"} if name == "scores" else {}
    by_flag = resolve(model="full", flags={name: other, **beside})
    text = "".join(
        f"{key}: {str(value).lower()}\n"
        for key, value in {"model": "full", name: other, **beside}.items()
    )
    assert resolve(file=options_file(tmp_path, text)) == by_flag
    changed = {
        field.name
        for field in fields(HorizonOptions)
        if getattr(by_flag.options, field.name) != getattr(FULL, field.name)
    }
    assert changed == {name, *beside}


@pytest.mark.parametrize("other", [{"cells": "beta_binomial"}, {"lapses": True}])
def test_fractional_scores_need_independent_runs_without_lapses(other: dict[str, str]) -> None:
    with pytest.raises(
        InputError, match=f"scores=continuous: .*{next(iter(other))}.* needs successes"
    ):
        HorizonOptions(scores="continuous", **other)


@pytest.mark.parametrize("name", [field.name for field in fields(HorizonOptions)])
def test_without_defaults_an_option_is_all_there_is(tmp_path: Path, name: str) -> None:
    usual = getattr(CORE, name)
    other = next(value for value in CHOICES.get(name, (True, False)) if value != usual)
    expected = ModelChoice(replace(CORE, **{name: other}), model="full")
    assert resolve(model="full", flags={name: other}, defaults=False) == expected
    text = f"model: full\ndefaults: false\n{name}: {str(other).lower()}\n"
    assert resolve(file=options_file(tmp_path, text)) == expected


def test_the_flag_of_defaults_wins_over_the_file(tmp_path: Path) -> None:
    bare = options_file(tmp_path, "model: full\ndefaults: false\n")
    assert resolve(file=bare).options == CORE
    assert resolve(file=bare, defaults=True).options == FULL
    usual = options_file(tmp_path, "model: full\ndefaults: true\n")
    assert resolve(file=usual).options == FULL
    assert resolve(file=usual, defaults=False).options == CORE


def test_core_with_other_options_is_a_variant_of_it(tmp_path: Path) -> None:
    censored = resolve(flags={"failures": "censor"})
    assert (censored.options, censored.name) == (HorizonOptions(failures="censor"), "core")
    by_flag = resolve(model="core", flags={"noise": "weibull"})
    by_file = resolve(file=options_file(tmp_path, "noise: weibull\n"))
    assert by_flag == by_file == ModelChoice(HorizonOptions(noise="weibull"))
    assert by_flag.name == "full"  # what was fitted is not the published model


def test_what_was_fitted_tells_its_name() -> None:
    assert model_name(CORE) == model_name(HorizonOptions(failures="censor")) == "core"
    assert model_name(HorizonOptions(rounding=True)) == "full"
    assert model_name(CORE, HorizonPriors(sigma_human=half_normal(2))) == "full"


@pytest.mark.parametrize(
    ("text", "name", "prior"),
    [
        ("{kind: half_normal, sd: 2}", "sigma_human", half_normal(2)),
        ("{kind: half_cauchy, scale: 1}", "sigma_human", half_cauchy(1)),
        ("{kind: half_normal, sd: 1e-1}", "sigma_family", half_normal(0.1)),
        ("{kind: normal, mu: -1, sd: 2.5}", "alpha", normal(-1, 2.5)),
        ("{kind: gamma, mean: 10, sd: 5}", "nu_minus_one", gamma(mean=10, sd=5)),
        (
            "{kind: truncated_normal, mu: -1, sd: 1, upper: 0}",
            "beta",
            Prior("truncated_normal", -1, 1, 0),
        ),
    ],
)
def test_a_prior_replaces_one_and_leaves_the_others(
    tmp_path: Path, text: str, name: str, prior: Prior
) -> None:
    file = options_file(tmp_path, f"model: full\npriors:\n  {name}: {text}\n")
    priors = resolve(file=file).priors
    assert getattr(priors, name) == prior
    rest = [field.name for field in fields(HorizonPriors) if field.name != name]
    assert all(getattr(priors, other) == getattr(DEFAULT_PRIORS, other) for other in rest)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: huge", "model=huge: must be one of core, full"),
        ("colour: red", "option colour: there is no such; choose from model, defaults, residual"),
        ("noise: cauchy", "noise=cauchy: must be one of normal, student_t, weibull"),
        ("noise: [normal]", "must be one of normal, student_t, weibull"),
        ("noise:", "noise=None: must be one of normal"),
        ("trend: no", "trend=False: must be one of none, linear"),
        ("defaults: none", "defaults=none: must be true or false"),
        ("rounding: 1", "rounding=1: must be true or false"),
        ("rounding: 'yes'", "rounding=yes: must be true or false"),
        ("[residual]", "must map names to values"),
        ("just text", "must map names to values"),
        ("a: b: c", "not readable as YAML"),
        ("priors: [1]", "priors: must map parameters to priors"),
        ("priors:", "priors: must map parameters to priors"),
        ("priors: {gravity: 1}", "priors: parameter gravity: there is no such; choose from mu_"),
        ("priors: {alpha: 3}", "priors: alpha: kind must be normal, none is given"),
        ("priors: {alpha: {kind: half_normal, sd: 1}}", "kind must be normal, not half_normal"),
        (
            "priors: {sigma_human: {kind: normal, mu: 0, sd: 1}}",
            "sigma_human: kind must be half_normal or half_cauchy or gamma or log_normal, not",
        ),
        ("priors: {alpha: {kind: normal, sd: 1}}", "a normal prior has mu and sd, not sd"),
        ("priors: {alpha: {kind: normal}}", "a normal prior has mu and sd, not nothing"),
        ("priors: {alpha: {kind: normal, mu: 0, sd: wide}}", "sd=wide: must be a finite number"),
        ("priors: {alpha: {kind: normal, mu: .nan, sd: 1}}", "mu=nan: must be a finite number"),
        ("priors: {alpha: {kind: normal, mu: yes, sd: 1}}", "mu=True: must be a finite number"),
        ("priors: {sigma_human: {kind: half_normal, sd: 0}}", "sd=0: must be a finite number ab"),
        ("priors: {sigma_human: {kind: half_normal, sd: .inf}}", "sd=inf: must be a finite"),
        (
            "priors: {beta: {kind: truncated_normal, mu: 0, sd: 1, upper: 2}}",
            "beta: upper=2: must be 0",
        ),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_the_field(
    tmp_path: Path, text: str, message: str
) -> None:
    file = options_file(tmp_path, text)
    with pytest.raises(InputError) as raised:
        resolve(model="full", file=file)
    assert str(raised.value).startswith(f"{file}: ")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    assert resolve(model="full", file=options_file(tmp_path, "# later\n")) == resolve(model="full")


def test_a_flag_that_is_no_option_is_refused() -> None:
    with pytest.raises(InputError, match="option colour: there is no such"):
        resolve(model="full", flags={"colour": "red"})
    with pytest.raises(InputError, match="model=other: must be one of core, full"):
        resolve(model="other")


def test_a_prior_of_other_support_is_refused_wherever_it_comes_from() -> None:
    with pytest.raises(InputError, match=r"sigma_human: Normal\(0, 1\): must be .* from 0 to inf"):
        HorizonPriors(sigma_human=normal(0, 1))
    with pytest.raises(InputError, match=r"beta: .* up to 2: must be .* from -inf to 0, as Normal"):
        HorizonPriors(beta=Prior("truncated_normal", -0.5, 1, 2))
