"""Tables are MLE-bench's to the digit, and their errors are errors."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calls import Call
from tidegauge.bench.mlebench.facts import all_facts
from tidegauge.bench.sweep.results import Results, read_results
from tidegauge.bench.sweep.table import aggregate_seeds, compare_agents, make_table
from tidegauge.errors import InputError
from tidegauge.schema.runs import read_runs

NAMES = sorted(all_facts())[:20]


def report_of(name: str, *, medal: bool, odds: float | None = None, **more: Any) -> dict[str, Any]:
    found = {
        "competition_id": name, "score": 0.5, "any_medal": medal, "gold_medal": medal,
        "silver_medal": False, "bronze_medal": False, "above_median": medal,
        "submission_exists": True, "valid_submission": True, **more,
    }  # fmt: skip
    return found if odds is None else {**found, "p_bronze_or_better": odds}


def write_group(folder: Path, agent: str, number: int, reports: list[dict[str, Any]]) -> Path:
    place = folder / f"2025-01-0{number}T00-00-00-GMT_run-group_{agent}"
    place.mkdir(parents=True)
    (path := place / f"2025-01-0{number}T00-00-00-GMT_grading_report.json").write_text(
        json.dumps({"competition_reports": reports})
    )
    return path


def seeds_of(folder: Path, agent: str, medals: np.ndarray, **more: Any) -> list[Path]:
    """One grading report a seed; `medals` has a row a seed and a column a competition."""
    return [
        write_group(
            folder,
            agent,
            number + 1,
            [report_of(n, medal=bool(m), **more) for n, m in zip(NAMES, row, strict=True)],
        )
        for number, row in enumerate(medals)
    ]


def test_mean_and_error_over_seeds_are_mlebenchs(tmp_path: Path) -> None:
    medals = np.random.default_rng(1).random((3, 20)) < 0.4
    results = read_results(seeds_of(tmp_path, "aide", medals))
    found = aggregate_seeds(results, "aide")
    shares = 100 * medals.mean(axis=1)
    medal = found.metrics["any_medal"]
    assert medal.mean == pytest.approx(shares.mean())
    assert medal.standard_error == pytest.approx(shares.std(ddof=1) / math.sqrt(3))
    assert medal.ci_upper == pytest.approx(medal.mean + 1.96 * medal.standard_error)
    assert (found.num_seeds_averaged, found.num_competitions_per_seed) == (3, 20)
    assert aggregate_seeds(results, "aide", seeds=1).metrics["any_medal"].standard_error == 0.0
    with pytest.raises(InputError, match="3 whole seeds"):
        aggregate_seeds(results, "aide", seeds=4)
    document = found.document()
    assert set(document["metrics"]["any_medal_percentage"]) == {
        "mean", "ci_lower", "ci_upper", "standard_error",
    }  # fmt: skip


def test_one_extra_report_adds_a_padded_seed_only_if_asked(tmp_path: Path) -> None:
    paths = seeds_of(tmp_path, "aide", np.ones((2, 20), dtype=bool))
    paths.append(write_group(tmp_path, "aide", 3, [report_of(NAMES[0], medal=True)]))
    results = read_results(paths)
    assert aggregate_seeds(results, "aide").metrics["any_medal"].mean == 100
    padded = aggregate_seeds(results, "aide", pad=True)
    assert padded.num_seeds_averaged == 3
    assert padded.metrics["any_medal"].mean == pytest.approx((100 + 100 + 5) / 3)
    (row,) = [row for row in make_table(results) if row.split == "all"]
    assert row.missing == 19


def test_a_competition_without_any_report_is_shown_as_missing(tmp_path: Path) -> None:
    first = seeds_of(tmp_path, "one", np.ones((1, 20), dtype=bool))
    second = [write_group(tmp_path, "two", 1, [report_of(NAMES[0], medal=True)])]
    results = read_results([*first, *second])
    with pytest.raises(InputError, match="has no report"):
        aggregate_seeds(results, "two")
    row = next(r for r in make_table(results) if (r.agent, r.split) == ("two", "all"))
    assert (row.any_medal, row.missing) == (None, 19)
    padded = next(r for r in make_table(results, pad=True) if (r.agent, r.split) == ("two", "all"))
    assert padded.any_medal == 5


def test_error_of_runs_is_that_of_repeated_seeds(tmp_path: Path) -> None:
    """Over many simulated tables, se_runs is the SD of the mean rate; never 0 for equal seeds."""
    rng = np.random.default_rng(2)
    rates = rng.uniform(0.15, 0.85, size=20)
    means, errors = [], []
    for number in range(40):
        medals = rng.random((6, 20)) < rates
        results = read_results(seeds_of(tmp_path / str(number), "a", medals))
        (row,) = [row for row in make_table(results) if row.split == "all"]
        means.append(row.any_medal)
        errors.append(row.se_runs)
    exact = 100 * math.sqrt(np.mean(rates * (1 - rates)) / (6 * 20))
    assert statistics.stdev(means) == pytest.approx(exact, rel=4 / math.sqrt(2 * 39))
    # With 6 runs the Jeffreys prior moves the variance by a few per cent at most.
    assert statistics.fmean(errors) == pytest.approx(exact, rel=0.1)
    equal = read_results(seeds_of(tmp_path / "equal", "a", np.ones((3, 20), dtype=bool)))
    (row,) = [row for row in make_table(equal) if row.split == "all"]
    assert row.sem == 0.0
    assert row.se_runs is not None
    assert row.se_runs > 1.0


def test_error_of_tasks_is_a_bootstrap_over_competitions(tmp_path: Path) -> None:
    medals = np.random.default_rng(3).random((3, 20)) < 0.5
    results = read_results(seeds_of(tmp_path, "a", medals))
    (row,) = [row for row in make_table(results) if row.split == "all"]
    rates = medals.mean(axis=0)
    draws = np.random.default_rng(4).integers(20, size=(20_000, 20))
    simulated = 100 * rates[draws].mean(axis=1).std()
    assert row.se_tasks == pytest.approx(simulated, rel=4 / math.sqrt(2 * 20_000))


def test_error_of_test_rows_and_expected_medals_come_from_the_odds(tmp_path: Path) -> None:
    results = read_results(seeds_of(tmp_path, "a", np.ones((2, 20), dtype=bool), odds=0.8))
    (row,) = [row for row in make_table(results) if row.split == "all"]
    assert row.expected_medals == pytest.approx(16)
    assert row.se_test == pytest.approx(100 * math.sqrt(20 * 0.16) / 20)
    unknown = read_results(seeds_of(tmp_path / "b", "a", np.ones((2, 20), dtype=bool)))
    (row,) = [row for row in make_table(unknown) if row.split == "all"]
    assert (row.se_test, row.expected_medals) == (None, None)


def test_a_pair_is_compared_on_the_same_competitions(tmp_path: Path) -> None:
    better = np.zeros((2, 20), dtype=bool)
    better[:, :15] = True
    worse = np.zeros((2, 20), dtype=bool)
    worse[:, :10] = True
    paths = [*seeds_of(tmp_path, "good", better), *seeds_of(tmp_path, "bad", worse)]
    results = read_results(paths)
    found = compare_agents(results, "good", "bad")
    assert found.difference == pytest.approx(25)
    assert found.won == pytest.approx((5 + 15 / 2) / 20)
    # Unpaired, the intervals of 75 and 50 per cent of 20 would overlap widely.
    assert 5 <= found.lower < 25 < found.upper <= 45
    back = compare_agents(results, "bad", "good")
    assert (back.difference, back.lower) == pytest.approx((-25, -found.upper))
    with pytest.raises(InputError, match="no agent 'x'"):
        compare_agents(results, "good", "x")


def test_competitions_with_notices_can_be_dropped(tmp_path: Path, call: Call) -> None:
    paths = seeds_of(tmp_path, "a", np.ones((1, 20), dtype=bool))
    said = call("bench", "table", *paths, "--drop", "leak,broken", "--json")
    document = json.loads(said.out)
    full = next(row for row in document["rows"] if row["split"] == "all")
    kept = next(row for row in document["without leak,broken"] if row["split"] == "all")
    assert full["competitions"] == 20
    assert kept["competitions"] < 20
    assert call("bench", "table", *paths, "--drop", "dull").code == 2


@pytest.mark.parametrize("text", ["{", "[]", "3", '{"competition_reports": [1]}', ""])
def test_what_is_no_report_is_refused(text: str, tmp_path: Path) -> None:
    (path := tmp_path / "x.json").write_text(text)
    with pytest.raises(InputError, match="neither a sweep nor a grading report"):
        read_results([path])


def test_public_run_groups_become_records_once(tmp_path: Path, call: Call) -> None:
    seeds_of(tmp_path / "runs", "aide", np.ones((2, 20), dtype=bool))
    out = tmp_path / "records.jsonl"
    assert "40 new" in call("bench", "import", "mlebench", tmp_path / "runs", "--runs", out).out
    assert "0 new" in call("bench", "import", "mlebench", tmp_path / "runs", "--runs", out).out
    records = list(read_runs(out))
    assert {record.alias for record in records} == {"aide"}
    assert {record.human_minutes for record in records} <= {60, 270, 1200}
    assert call("bench", "import", "mlebench", tmp_path / "records.jsonl").code == 2


@pytest.mark.realdata
def test_a_real_report_gives_the_published_percentage(realdata: Path, call: Call) -> None:
    (path,) = (realdata / "mlebench_reports").glob("*.json")
    said = call("bench", "table", path, "--mlebench-json")
    (found,) = json.loads(said.out).values()
    assert found["num_competitions_per_seed"] == 75
    assert round(found["metrics"]["any_medal_percentage"]["mean"], 2) == 42.67  # 32 of 75
    assert found["metrics"]["any_medal_percentage"]["standard_error"] == 0.0


def test_planned_runs_that_were_not_done_are_missing() -> None:
    done = report_of("AI4Code", medal=True)
    results = Results({"a": {"AI4Code": [done, None, None]}, "b": {"AI4Code": [done] * 3}},
                      ["AI4Code"])  # fmt: skip
    found = {row.agent: row.missing for row in make_table(results) if row.split == "all"}
    assert found == {"a": 2, "b": 0}
