"""A command line as data: the same words in one order, inputs and output told apart."""

from __future__ import annotations

import click
import pytest

from tidegauge.cli.invocation import read_invocation
from tidegauge.cli.main import cli


def test_words_are_canonical() -> None:
    one = ["horizon", "fit", "-q", "--seed=3", "a.jsonl", "--plots", "--out", "fit", "b.jsonl"]
    other = [
        "horizon",
        "fit",
        "--out=fit",
        "--plots",
        "a.jsonl",
        "b.jsonl",
        "--seed",
        "3",
        "--json",
    ]
    expected = ["horizon", "fit", "--out", "fit", "--plots", "--seed", "3", "a.jsonl", "b.jsonl"]
    for words in (one, other, [*other, "--json"]):
        assert read_invocation(cli, words).words() == expected


@pytest.mark.parametrize(
    "words",
    [
        "horizon fit --only alias=a --out fit --model full --rounding --no-overdispersion r.jsonl",
        "horizon compare --out c --method core --method full --by task r.jsonl",
        "horizon multiverse --out m --release-dates d.yaml --plots -- -odd.jsonl",
        "fvc crossval --input cohort --out scores --no-scans",
        "bench prepare --simulate --out p osic",
    ],
)
def test_canonical_words_stay_as_they_are(words: str) -> None:
    if "overdispersion" in words:  # whatever the options of the model are called
        fit = read_invocation(cli, ["horizon", "fit", "r", "--out", "o"]).command
        flags = [p for p in fit.params if p.secondary_opts][:2]
        words = words.replace("--rounding", flags[0].opts[0])
        words = words.replace("--no-overdispersion", flags[1].secondary_opts[0])
    assert read_invocation(cli, words.split()).words() == words.split()


def test_inputs_and_output_are_told_apart() -> None:
    words = ["fvc", "fit", "--input", "cohort", "--model", "made", "--seed", "2"]
    recorded = read_invocation(cli, words).record()
    assert recorded is not None
    assert (list(recorded.inputs), recorded.out) == (["cohort"], "made")
    trend = read_invocation(
        cli, ["horizon", "trend", "r.jsonl", "--release-dates", "d.yaml", "--out", "t"]
    )
    assert trend.paths(written=False) == ["r.jsonl", "d.yaml"]


def test_a_command_without_a_folder_of_its_own_is_not_recorded() -> None:
    assert read_invocation(cli, ["demo", "--out", "demo"]).record() is None
    assert read_invocation(cli, ["horizon", "check", "r.jsonl"]).record() is None


def test_an_unknown_option_is_a_usage_error() -> None:
    with pytest.raises(click.UsageError, match="--sed"):
        read_invocation(cli, ["horizon", "fit", "r.jsonl", "--out", "fit", "--sed", "1"])
