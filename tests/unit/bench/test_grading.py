"""Grades against an independent computation, and the usual grader's faults, each not repeated."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tidegauge.bench.competition_folder import Prepared, TablePrepared
from tidegauge.bench.competitions.base import Answers, Thresholds
from tidegauge.bench.grading import aggregate, grade_many, grade_submission
from tidegauge.bench.medals import bootstrap_odds, medal_ranks, thresholds_from_leaderboard
from tidegauge.errors import InputError


def last_three_visits(answers: pd.DataFrame) -> list[tuple[str, float]]:
    """The scored rows as their definition reads."""
    scored = []
    for _, visits in answers.dropna(subset=["FVC"]).groupby("Patient"):
        last = visits.sort_values("Weeks", kind="stable").tail(3)
        scored += list(zip(last["Patient_Week"], last["FVC"], strict=True))
    return scored


def independent_osic_score(
    submission: dict[str, tuple[float, float]], scored: list[tuple[str, float]]
) -> float:
    """The score as its definition reads, in plain Python."""
    total = 0.0
    for key, true_ml in scored:
        fvc, confidence = submission[key]
        sigma = max(confidence, 70.0)
        distance = min(abs(true_ml - fvc), 1000.0)
        total += -math.sqrt(2) * distance / sigma - math.log(math.sqrt(2) * sigma)
    return total / len(scored)


def random_submission(prepared: Prepared, rng: np.random.Generator) -> pd.DataFrame:
    keys = rng.permutation(prepared.expected_keys)
    spread = rng.choice([10.0, 300.0, 3000.0])
    return pd.DataFrame(
        {
            "Patient_Week": keys,
            "FVC": rng.normal(2700, spread, len(keys)).clip(1, 10_000),
            "Confidence": rng.uniform(1, rng.choice([60, 500, 5000]), len(keys)),
        }
    )


def test_thousand_random_grades_equal_the_independent_computation(small_osic: Prepared) -> None:
    rng = np.random.default_rng(20)
    scored = last_three_visits(pd.read_csv(small_osic.private / "test.csv"))
    for _ in range(1000):
        keys = rng.permutation(small_osic.expected_keys).tolist()
        spread, widest = rng.choice([10.0, 300.0, 3000.0]), rng.choice([60, 500, 5000])
        fvc = rng.normal(2700, spread, len(keys)).clip(1, 10_000).tolist()
        confidence = rng.uniform(1, widest, len(keys)).tolist()
        rows = [f"{k},{f!r},{c!r}" for k, f, c in zip(keys, fvc, confidence, strict=True)]
        table = small_osic.check("\n".join(["Patient_Week,FVC,Confidence", *rows]).encode()).table
        assert table is not None
        submission = dict(zip(keys, zip(fvc, confidence, strict=True), strict=True))
        expected = independent_osic_score(submission, scored)
        assert small_osic.score_table(table).score == pytest.approx(expected, abs=1e-9)


def write(tmp_path: Path, submission: pd.DataFrame) -> Path:
    path = tmp_path / "submission.csv"
    submission.to_csv(path, index=False)
    return path


@pytest.fixture
def good(osic: Prepared) -> pd.DataFrame:
    return random_submission(osic, np.random.default_rng(5))


def test_report_has_the_fields_of_the_usual_grader(
    osic: Prepared, good: pd.DataFrame, tmp_path: Path
) -> None:
    grade = grade_submission(osic, write(tmp_path, good))
    report = grade.report(osic.competition)
    assert list(report)[:16] == [
        "competition_id", "score", "gold_threshold", "silver_threshold", "bronze_threshold",
        "median_threshold", "any_medal", "gold_medal", "silver_medal", "bronze_medal",
        "above_median", "submission_exists", "valid_submission", "is_lower_better", "created_at",
        "submission_path",
    ]  # fmt: skip
    assert report["score"] == round(grade.score or 0, 5)
    assert report["competition_id"] == "osic-pulmonary-fibrosis-progression"
    assert report["score_se"] > 0
    json.dumps(report, allow_nan=False)


# The usual grader's faults, one test each.
def test_left_out_rows_are_not_scored_on_what_is_left(
    osic: Prepared, good: pd.DataFrame, tmp_path: Path
) -> None:
    grade = grade_submission(osic, write(tmp_path, good.iloc[:-1]))
    assert (grade.submission_exists, grade.valid, grade.score) == (True, False, None)
    assert "1 row missing" in grade.problems[0]


def test_nan_is_not_a_valid_score(osic: Prepared, good: pd.DataFrame, tmp_path: Path) -> None:
    good.loc[7, "FVC"] = np.nan
    grade = grade_submission(osic, write(tmp_path, good))
    assert not grade.valid
    assert "NaN" in grade.problems[0]


def test_duplicate_rows_are_invalid_and_do_not_crash(
    osic: Prepared, good: pd.DataFrame, tmp_path: Path
) -> None:
    grade = grade_submission(osic, write(tmp_path, pd.concat([good, good.iloc[:2]])))
    assert not grade.valid
    assert "duplicate" in grade.problems[0]


def test_crash_of_the_grader_is_not_called_an_invalid_submission(
    osic: Prepared, good: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> float:
        raise ZeroDivisionError("a bug of ours")

    path = write(tmp_path, good)
    broken_competition = TablePrepared(
        type(osic.competition)(**{**vars(osic.competition), "score": broken}),
        osic.public, osic.private, osic.expected_keys,
    )  # fmt: skip
    with pytest.raises(ZeroDivisionError):
        grade_submission(broken_competition, path)
    (osic_copy := tmp_path / "p").mkdir()
    empty = TablePrepared(osic.competition, osic.public, osic_copy, osic.expected_keys)
    with pytest.raises(InputError, match="answers"):
        grade_submission(empty, path)


def test_validator_and_grader_agree_on_every_fault(
    osic: Prepared, good: pd.DataFrame, tmp_path: Path
) -> None:
    rng = np.random.default_rng(9)
    for _ in range(15):
        broken = good.copy().astype({"FVC": object, "Confidence": object})
        for _ in range(int(rng.integers(0, 3))):
            row = int(rng.integers(len(broken)))
            value = rng.choice(["nan", "inf", "x", "-1", "0", "99999", "2000"])
            broken.loc[row, rng.choice(["FVC", "Confidence"])] = value
        path = write(tmp_path, broken)
        assert osic.check(path).valid == grade_submission(osic, path).valid


def test_missing_submission_is_reported_as_such(osic: Prepared, tmp_path: Path) -> None:
    report = grade_submission(osic, tmp_path / "none.csv").report(osic.competition)
    assert (report["submission_exists"], report["valid_submission"]) == (False, False)
    assert report["score"] is None
    assert not report["any_medal"]
    assert not report["above_median"]


@pytest.mark.parametrize(
    ("n_teams", "expected"),
    [
        (1, (1, 1, 1)), (9, (1, 1, 3)), (50, (5, 10, 20)), (70, (7, 14, 28)), (99, (9, 19, 39)),
        (100, (10, 20, 40)), (249, (10, 49, 99)), (250, (10, 50, 100)), (999, (11, 50, 100)),
        (1000, (12, 50, 100)), (2097, (14, 104, 209)),
    ],
)  # fmt: skip
def test_medal_ranks_follow_kaggles_published_table(
    n_teams: int, expected: tuple[int, int, int]
) -> None:
    assert medal_ranks(n_teams) == expected


@pytest.mark.parametrize("lower", [True, False])
def test_thresholds_are_the_scores_at_the_medal_ranks(lower: bool, tmp_path: Path) -> None:
    scores = np.random.default_rng(2).permutation(np.arange(1.0, 1201.0))
    path = tmp_path / "board.csv"
    pd.DataFrame({"TeamId": 1, "Score": scores}).to_csv(path, index=False)
    found = thresholds_from_leaderboard(path, lower_is_better=lower)
    ranks = (12, 60, 120)
    expected = ranks if lower else tuple(1201 - rank for rank in ranks)
    assert (found.gold, found.silver, found.bronze) == expected
    assert found.median == 600.5


@pytest.mark.parametrize(
    "text", ["team\n1\n", "score\nx\n", "score\nnan\n", "score\n", "score,b\n"]
)
def test_unusable_leaderboards_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "board.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=r"board\.csv"):
        thresholds_from_leaderboard(path, lower_is_better=True)


def test_medals_are_exclusive_and_follow_the_direction(surge: Prepared, tmp_path: Path) -> None:
    answers = pd.read_csv(surge.private / "test.csv")
    board = tmp_path / "board.csv"
    board.write_text(
        "score\n" + "\n".join(str(i) for i in range(1, 11))
    )  # gold 1, silver 2, bronze 4
    medals = []
    for error in (0.5, 1.0, 1.5, 3.0, 5.5, 5.6, 50.0):
        answers.assign(surge_cm=answers.surge_cm + error).to_csv(tmp_path / "s.csv", index=False)
        report = grade_submission(surge, tmp_path / "s.csv", leaderboard=board).report(
            surge.competition
        )
        names = [n for n in ("gold", "silver", "bronze") if report[f"{n}_medal"]]
        assert len(names) <= 1
        assert report["any_medal"] == bool(names)
        medals.append((*names, report["above_median"]))
    assert medals == [
        ("gold", True), ("gold", True), ("silver", True), ("bronze", True), (False,), (False,),
        (False,),
    ]  # fmt: skip


def test_bootstrap_se_matches_the_standard_error_of_a_mean_of_groups(surge: Prepared) -> None:
    rng = np.random.default_rng(1)
    n_groups, per_group = 400, 3
    offsets = np.repeat(rng.normal(0, 1.0, n_groups), per_group)
    groups = [f"g{i // per_group}" for i in range(n_groups * per_group)]
    answers = Answers(groups, groups, {"x": offsets})
    mean = type(surge.competition)(
        **{**vars(surge.competition), "score": lambda truth, _: float(truth["x"].mean())}
    )
    at = Thresholds(-9, 0, float(offsets.mean()), 9)
    odds = bootstrap_odds(mean, answers, {}, at, seed=1)
    exact = offsets[::per_group].std() / np.sqrt(n_groups)
    # 2000 draws: the relative error of a standard deviation is 1/sqrt(2 * 2000) = 1.6 %.
    assert odds.score_se == pytest.approx(exact, rel=4 * 0.016)
    assert odds.p_gold == 0.0  # lower is better: nothing reaches -9
    assert odds.p_bronze_or_better == pytest.approx(0.5, abs=4 * 0.011)
    assert odds.p_above_median == 1.0
    assert odds == bootstrap_odds(mean, answers, {}, at, seed=1)


def test_one_failure_of_many_is_one_failed_row(
    osic: Prepared, surge: Prepared, good: pd.DataFrame, tmp_path: Path
) -> None:
    write(tmp_path, good)
    (tmp_path / "bad.csv").write_text("nonsense")
    lines: list[Any] = [
        {"submission_path": "submission.csv", "alias": "x"},  # relative to the list
        {"submission_path": str(tmp_path / "bad.csv")},
        "not an object",
        {"submission_path": str(tmp_path / "none.csv")},
        {"submission_path": "a.csv", "competition_id": "unheard-of"},
        {"submission_path": "a.csv", "competition_id": "tidegauge-storm-surge"},
        {
            "submission_path": str(surge.public / "sample_submission.csv"),
            "competition_id": "tidegauge-storm-surge",
            "prepared": str(surge.public.parent),
        },
    ]
    path = tmp_path / "many.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n{broken\n")
    result = grade_many(path, osic)
    assert result["total_runs"] == 8
    assert result["total_runs_with_submissions"] == 3
    assert result["total_valid_submissions"] == 2
    assert result["total_failed"] == 4
    reports = result["competition_reports"]
    assert reports[0]["alias"] == "x"
    assert reports[6]["competition_id"] == "tidegauge-storm-surge"
    assert "many.jsonl:8:" in reports[7]["error"]
    assert aggregate([])["total_runs"] == 0
