"""Options, agents' facts and filters as flags: what reaches the fit, and what is refused."""

from __future__ import annotations

import functools
import json
import os
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tidegauge.horizon as th
from builders import small_rows, write_rows
from calls import Call
from tidegauge.errors import InputError
from tidegauge.horizon.model.option_file import ModelChoice
from tidegauge.horizon.model.options import CHOICES, CORE, FULL, HorizonOptions

SIZES = ("--draws", 50, "--tune", 50, "--chains", 2)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    rows = small_rows(agents=("agent-a", "agent-b", "agent-c"))
    for row in rows:
        row["task_source"] = "SWAA" if row["task_family"] == "words" else "HCAST"
        row["public"] = row["task_family"] != "research"
    return write_rows(tmp_path / "runs.jsonl", rows)


@pytest.mark.parametrize("command", ["fit", "graph"])
def test_every_option_has_a_flag_with_its_choices_and_an_explanation(
    call: Call, command: str
) -> None:
    words = " ".join(call("horizon", command, "--help").out.split())
    for field in fields(HorizonOptions):
        flag = "--" + field.name.replace("_", "-")
        if field.name in CHOICES:
            assert f"{flag} [{'|'.join(CHOICES[field.name])}]" in words
        else:
            assert f"{flag} / --no-{flag[2:]}" in words
    assert "Estimates may be too short or too long, all by one factor." in words
    named = "--method NAME" if command == "fit" else "--model [core|full]"
    for flag in ("--options FILE", named, "--groups FILE", "--since DATE"):
        assert flag in words


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trend", "linear"], "trend=linear: needs release dates; give --release-dates"),
        (["--method", "full:trend=kink"], "trend=kink: needs release dates; give --release-dates"),
        (["--method", "full:colour=red"], "colour: no such option; choose from residual"),
        (["--method", "core:noise=cauchy"], "noise=cauchy: must be one of normal, student_t"),
        (["--method", "core:rounding=maybe"], "rounding=maybe: must be true or false"),
        (["--method", "magic"], "method=magic: must be one of regression, exact, core, full"),
        (["--method", "exact", "--noise", "weibull"], "method=exact: has no options of the"),
        (["--method", "exact:noise=normal"], "noise: no such option; it takes none"),
        (["--method", "regression:lengths=long"], "lengths=long: must be one of given, simex"),
        (["--since", "2023"], "--since and --frontier choose the agents of a trend"),
        (["--frontier"], "--since and --frontier choose the agents of a trend"),
        (["--since", "soon"], "'--since'"),
        (["--model", "full", "--method", "exact"], "method=exact: has no options of the"),
        (["--options", "{folder}/none.yaml"], "'--options'"),
        (["--options", "{folder}/bad.yaml"], "bad.yaml: option colour: there is no such"),
        (["--groups", "{folder}/bad.yaml"], "--groups is used by --pooling lab"),
        (["--success", "1"], "'--success'"),
        (["--success", "0"], "'--success'"),
        (["--success", "half"], "'--success'"),
        (["--only", "alias"], "--only alias: write FIELD=VALUE"),
        (["--exclude", "human_minutes>soon"], "compares with a number, not 'soon'"),
        (["--exclude", "colour=red"], "no record has the field colour; there are alias"),
        (["--only", "alias=nobody"], "no agent run is left: 90 rows left out by --only"),
    ],
)
def test_what_cannot_be_meant_exits_2_in_one_line_and_writes_nothing(
    call: Call, runs: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "bad.yaml").write_text("colour: red\n", encoding="utf-8")
    filled = [argument.format(folder=tmp_path) for argument in arguments]
    said = call("horizon", "fit", runs, "--out", tmp_path / "out", "-q", *filled)
    assert said.code == 2
    assert message in said.err
    assert "Traceback" not in said.err
    assert sorted(os.listdir(tmp_path)) == ["bad.yaml", "runs.jsonl"]


def test_too_few_dates_for_a_trend_exit_2(call: Call, runs: Path, tmp_path: Path) -> None:
    dates = tmp_path / "dates.yaml"
    dates.write_text("agent-a: 2023-01-01\nagent-b: 2024-01-01\n", encoding="utf-8")
    said = call(
        *("horizon", "fit", runs, "--out", tmp_path / "out", "-q", "--method", "full"),
        *("--trend", "linear", "--release-dates", dates),
    )
    assert said.code == 2
    assert said.err.startswith("error: trend=linear: 2 of 3 agents have a release date")


def test_filters_reach_check_fit_and_compare(call: Call, runs: Path, tmp_path: Path) -> None:
    filters = ("--exclude", "task_source=SWAA", "--only", "public=true")
    note = "note: 42 rows left out by --exclude task_source=SWAA (6 of them human runs)"
    checked = call("horizon", "check", runs, *filters)
    assert checked.code == 0
    assert note in checked.err
    assert [line.split()[1] for line in checked.out.splitlines()[:4]] == ["42", "3", "2", "1"]
    fitted = call("horizon", "fit", runs, *filters, "--out", tmp_path / "out", "--method", "exact")
    assert note in fitted.err
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    written = ["--only public=true", "--exclude task_source=SWAA"]
    assert manifest["settings"]["filters"] == written
    assert note.removeprefix("note: ") in manifest["notes"]
    compared = call(
        *("horizon", "compare", runs, *filters, "--out", tmp_path / "compared"),
        *("--method", "exact", "--by", "task", "--folds", 2),
    )
    assert compared.code == 0, compared.err
    assert note in compared.err
    manifest = json.loads((tmp_path / "compared" / "manifest.json").read_text())
    assert manifest["settings"]["filters"] == written


@pytest.mark.parametrize("method", ["exact", "regression"])
def test_pairs_and_rates_are_written_by_every_method(
    call: Call, runs: Path, tmp_path: Path, method: str
) -> None:
    out = tmp_path / "out"
    rates = ("--success", 0.9, "--success", "0.25")
    said = call(
        *("horizon", "fit", runs, "--out", out, "-q", "--method", method, *rates),
        *("--replicates", 50),
    )
    assert said.code == 0, said.err
    pairs = pd.read_csv(out / "pairs.csv")
    assert pairs[["agent_a", "agent_b"]].to_numpy().tolist() == [
        ["agent-a", "agent-b"],
        ["agent-a", "agent-c"],
        ["agent-b", "agent-c"],
    ]
    assert pairs["probability"].between(0, 1).all()
    found = pd.read_csv(out / "rates.csv")
    assert found["success"].tolist() == [0.9] * 3 + [0.25] * 3
    assert not (out / "domains.csv").exists()
    again = call("horizon", "fit", runs, "--out", out, "-q", "--method", "exact")
    assert again.code == 0
    assert not (out / "rates.csv").exists()  # an earlier fit's tables do not stay behind


def test_a_core_fit_writes_pairs_domains_and_refits_by_source(call: Call, tmp_path: Path) -> None:
    rows = [
        {**row, "task_id": f"{row['task_id']}{copy}", "task_source": source}
        for source, copies in (("HCAST", "123"), ("SWAA", "4"))
        for copy in copies
        for row in small_rows()
    ]
    runs, out = write_rows(tmp_path / "runs.jsonl", rows), tmp_path / "out"
    said = call("horizon", "fit", runs, "--out", out, "--by-source", *SIZES, "--failures", "censor")
    assert said.code == 1  # so few draws never converge
    assert "HCAST alone: 15 tasks" in said.err
    assert "note: SWAA alone did not converge: do not rely on its rows" in said.err
    table = pd.read_csv(out / "domains.csv")
    counted = table.groupby(["kind", "basis"]).size().to_dict()
    assert counted == {
        ("family", "same curve"): 3 * 2,
        ("source", "same curve"): 2 * 2,
        ("source", "refit"): 2 * 2,
    }
    assert len(pd.read_csv(out / "pairs.csv")) == 1
    settings = json.loads((out / "manifest.json").read_text())["settings"]
    assert (settings["model"], settings["options"]["failures"]) == ("core", "censor")
    assert settings["priors"]["sigma_human"]["kind"] == "half_normal"


def test_the_graph_takes_the_same_flags(call: Call, runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "options.yaml"
    file.write_text("model: core\nfailures: censor\n", encoding="utf-8")
    said = call("horizon", "graph", runs, "-q", "--options", file, "--exclude", "public=false")
    assert said.code == 0, said.err
    assert "mu_task" in said.out
    refused: Any = call("horizon", "graph", runs, "-q", "--noise", "loud")
    assert refused.code == 2


def test_a_full_fit_takes_options_priors_groups_and_dates_and_says_so(
    call: Call, runs: Path, tmp_path: Path
) -> None:
    (tmp_path / "options.yaml").write_text(
        "model: full\nresidual: family\nnoise: weibull\npooling: lab\n"
        "priors: {sigma_human: {kind: half_cauchy, scale: 1.5}}\n",
        encoding="utf-8",
    )
    (tmp_path / "labs.yaml").write_text("agent-a: north\nagent-b: north\n", encoding="utf-8")
    (tmp_path / "dates.yaml").write_text(
        "agent-a: 2022-01-01\nagent-b: 2023-01-01\nagent-c: 2024-01-01\n", encoding="utf-8"
    )
    out = tmp_path / "out"
    said = call(
        *("horizon", "fit", runs, "--out", out, "-q", *SIZES, "--success", 0.9),
        *("--options", tmp_path / "options.yaml", "--noise", "student_t", "--trend", "linear"),
        *("--groups", tmp_path / "labs.yaml", "--release-dates", tmp_path / "dates.yaml"),
        *("--since", "2021"),
    )
    assert said.code == 1, said.err  # so few draws never converge
    settings = json.loads((out / "manifest.json").read_text())["settings"]
    assert settings["model"] == "full"
    assert settings["method"] == "full:noise=student_t,pooling=lab,trend=linear"
    chosen = {name: settings["options"][name] for name in ("noise", "pooling", "trend")}
    assert chosen == {"noise": "student_t", "pooling": "lab", "trend": "linear"}
    assert settings["priors"]["sigma_human"]["kind"] == "half_cauchy"
    assert settings["priors"]["sigma_human"]["sd"] == 1.5
    assert settings["agents"]["since"] == "2021-01-01"
    parameters = set(pd.read_csv(out / "parameters.csv")["parameter"])
    assert {"trend_rate", "sigma_residual_task", "nu_minus_one", "group_horizon[north]"} <= {
        *parameters
    }
    domains = pd.read_csv(out / "domains.csv")
    assert set(domains["basis"]) == {"residual"}
    families = domains[(domains["kind"] == "family") & (domains["agent"] == "agent-a")]
    assert families["p50"].nunique() == 3
    rates = pd.read_csv(out / "rates.csv")
    assert (rates["marginal"] < rates["typical"]).all()


def flags_of(options: dict[str, Any]) -> list[str]:
    """Each option as the flag that sets it."""
    flags = []
    for name, value in options.items():
        flag = name.replace("_", "-")
        if name in CHOICES:
            flags += [f"--{flag}", value]
        else:
            flags.append(f"--{flag}" if value else f"--no-{flag}")
    return flags


def test_full_with_every_option_off_is_core(call: Call, runs: Path) -> None:
    plain = call("horizon", "graph", runs, "-q")
    assert plain.code == 0
    for flags in (flags_of(asdict(CORE)), ["--no-defaults"]):
        assert call("horizon", "graph", runs, "-q", "--model", "full", *flags) == plain


@pytest.mark.parametrize(
    ("option", "variable"),
    [
        ({"residual": "task"}, "sigma_residual_task"),
        ({"residual": "family"}, "sigma_residual_family"),
        ({"noise": "student_t"}, "nu_minus_one"),
        ({"noise_growth": True}, "noise_growth"),
        ({"estimate_bias": True}, "delta_estimate"),
        ({"discrimination": True}, "sigma_discrimination"),
        ({"pooling": "all"}, "sigma_slope"),
        ({"pooling": "family"}, "group_slope"),
        ({"trend": "kink"}, "trend_kink"),
    ],
)
def test_an_option_alone_brings_its_variable_into_the_graph(
    call: Call, runs: Path, tmp_path: Path, option: dict[str, Any], variable: str
) -> None:
    dates = tmp_path / "dates.yaml"
    days = {"agent-a": "2022-01-01", "agent-b": "2023-01-01", "agent-c": "2024-01-01"}
    dates.write_text("".join(f"{agent}: {day}\n" for agent, day in days.items()))
    flags = ("--model", "full", "--no-defaults", "--release-dates", dates, "-q")
    assert variable not in call("horizon", "graph", runs, *flags).out
    found = call("horizon", "graph", runs, *flags, *flags_of(option))
    assert found.code == 0, found.err
    assert variable in found.out


@pytest.mark.parametrize(
    ("arguments", "notes", "method", "options"),
    [
        (["--method", "full"], [], "full", {}),
        (["--model", "full"], ["--model full is now --method full"], "full", {}),
        (
            ["--method", "hierarchical", "--model", "full"],
            ["--model full is now --method full"],
            "full",
            {},
        ),
        (["--method", "hierarchical"], ["method hierarchical is now called core"], "core", {}),
        (["--method", "frequentist"], ["method frequentist is now called regression"],
         "regression", {}),
        (["--method", "grid"], ["method grid is now called exact"], "exact", {}),
        (["--method", "core-student-t"],
         ["method core-student-t is now called core:noise=student_t"],
         "core", {"noise": "student_t"}),
        (["--method", "full:noise=student_t,rounding=true", "--noise", "normal"], [],
         "full", {"noise": "normal", "rounding": True}),
        (["--method", "core:{folder}/o.yaml"], [], "core", {"failures": "censor"}),
        (["--options", "{folder}/full.yaml"], [], "full", {"noise": "normal"}),
    ],
)  # fmt: skip
def test_one_vocabulary_of_methods_and_a_note_for_former_names(
    call: Call,
    runs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    notes: list[str],
    method: str,
    options: dict[str, Any],
) -> None:
    (tmp_path / "o.yaml").write_text("failures: censor\n")
    (tmp_path / "full.yaml").write_text("model: full\nnoise: normal\n")
    asked: list[tuple[str, ModelChoice]] = []

    def refuse(name: str, *_: object, **given: Any) -> None:
        asked.append((name, given.get("model", ModelChoice())))
        raise InputError("not now")

    for name in ("fit", "fit_regression", "fit_exact"):
        monkeypatch.setattr(th, name, functools.partial(refuse, name))
    filled = [argument.format(folder=tmp_path) for argument in arguments]
    said = call("horizon", "fit", runs, "--out", tmp_path / "out", "-q", *filled)
    assert said.err.splitlines() == [*(f"note: {note}" for note in notes), "error: not now"]
    ((fitted, choice),) = asked
    assert fitted == {"regression": "fit_regression", "exact": "fit_exact"}.get(method, "fit")
    expected = replace(FULL if method == "full" else CORE, **options)
    assert choice.options == expected


def test_a_variant_of_the_regression_is_fitted(call: Call, runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    method = ("--method", "regression:lengths=simex,weighting=equal", "--replicates", 5)
    said = call("horizon", "fit", runs, "--out", out, "-q", *method)
    assert said.code == 0, said.err
    settings = json.loads((out / "manifest.json").read_text())["settings"]
    chosen = {name: settings["regression"][name] for name in ("lengths", "weighting", "replicates")}
    assert chosen == {"lengths": "simex", "weighting": "equal", "replicates": 5}


def test_disputed_lengths_are_refused_or_settled(call: Call, tmp_path: Path) -> None:
    rows = [*small_rows(), {**small_rows()[-1], "run_id": "other", "human_minutes": 120.0}]
    runs = write_rows(tmp_path / "disputed.jsonl", rows)
    refused = call("horizon", "check", runs)
    assert refused.code == 2
    assert "--conflicts geomean" in refused.err
    settled = call("horizon", "check", runs, "--conflicts", "geomean")
    assert settled.code == 0
    assert "1 tasks have rows with different human_minutes" in settled.err
