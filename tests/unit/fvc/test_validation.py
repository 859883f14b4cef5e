"""Cross-validation keeps patients apart, chooses inside, and says what it cannot tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tidegauge.errors import InputError
from tidegauge.fvc.data.cohort import Cohort
from tidegauge.fvc.decision import decide
from tidegauge.fvc.medal_odds import THRESHOLDS, find_standing
from tidegauge.fvc.selection import assign_folds, candidates, fit_panel
from tidegauge.fvc.validation import NESTED, Crossval, crossval
from tidegauge.scores import laplace_log_likelihood

QUICK = ("carry", "linear", "direct")


@pytest.fixture(scope="module")
def result(cohort: Cohort) -> Crossval:
    return crossval(cohort, repeats=2, seed=5, names=QUICK, workers=1)


def test_every_scored_visit_is_forecast_once_a_repeat(cohort: Cohort, result: Crossval) -> None:
    counts = result.forecasts.groupby(["forecaster", "repeat"]).size()
    assert set(counts) == {len(cohort.scored())}
    assert set(result.names()) == {NESTED, *QUICK}


def test_nested_row_is_the_choice_of_each_fold(result: Crossval) -> None:
    frame = result.forecasts
    for choice in result.choices.itertuples():
        part = frame[(frame["repeat"] == choice.repeat) & (frame["fold"] == choice.fold)]
        nested = part[part["forecaster"] == NESTED]["score"].to_numpy()
        chosen = part[part["forecaster"] == choice.chosen]["score"].to_numpy()
        np.testing.assert_array_equal(nested, chosen)


def test_outer_fold_is_forecast_as_by_a_panel_of_the_other_patients(
    cohort: Cohort, result: Crossval
) -> None:
    fold = assign_folds(cohort.n_patients, 5, 5)
    panel = fit_panel(cohort.take(np.flatnonzero(fold != 2)), seed=5, names=QUICK)
    test = cohort.take(np.flatnonzero(fold == 2))
    rows = test.scored()
    decision = decide(panel.best.forecast(test.baselines, test.questions(rows)))
    expected = laplace_log_likelihood(test.fvc_ml[rows], decision.fvc_ml, decision.confidence_ml)
    frame = result.forecasts
    ours = frame[(frame["forecaster"] == NESTED) & (frame["repeat"] == 0) & (frame["fold"] == 2)]
    np.testing.assert_array_equal(ours["score"], expected)


def test_held_out_histories_do_not_reach_the_fit(cohort: Cohort) -> None:
    """Changing later visits of held-out patients changes no forecast of theirs."""
    result = crossval(cohort, repeats=1, seed=5, names=QUICK, workers=1)
    held = result.held_out(0, 0)
    moved = np.isin(cohort.patient, held) & ~cohort.first
    other = replace(cohort, fvc_ml=np.where(moved, cohort.fvc_ml - 300, cohort.fvc_ml))
    changed = crossval(other, repeats=1, seed=5, names=QUICK, workers=1)

    def forecasts_of(one: Crossval) -> np.ndarray:
        frame = one.forecasts
        return frame[(frame["fold"] == 0) & (frame["forecaster"] == NESTED)]["fvc_ml"].to_numpy()

    np.testing.assert_array_equal(forecasts_of(result), forecasts_of(changed))


def test_scores_are_means_over_patients_with_their_standard_errors(result: Crossval) -> None:
    frame = result.forecasts
    by = frame[frame["forecaster"] == "direct"].groupby("patient")["score"].mean()
    row = result.scores().set_index("forecaster").loc["direct"]
    assert row["score"] == pytest.approx(by.mean())
    assert row["score_se"] == pytest.approx(by.std(ddof=1) / np.sqrt(len(by)))


def test_two_workers_give_what_one_gives(cohort: Cohort, result: Crossval) -> None:
    again = crossval(cohort, repeats=2, seed=5, names=QUICK, workers=2)
    pd.testing.assert_frame_equal(again.forecasts, result.forecasts)


def test_difference_within_its_error_is_warned_of(result: Crossval) -> None:
    frame = result.forecasts
    nested = frame[frame["forecaster"] == NESTED]
    half_up_half_down = 0.2 * (-1.0) ** pd.factorize(nested["patient"])[0]

    def like_nested(name: str, shift: float) -> pd.DataFrame:
        score = nested["score"] + half_up_half_down + shift
        return nested.assign(forecaster=name, score=score)

    made = pd.concat([nested, like_nested("same", 0.0), like_nested("worse", -1.0)])
    lines = [line for line in replace(result, forecasts=made).warnings() if "evidence" in line]
    assert len(lines) == 1
    assert "same (" in lines[0]
    assert "worse" not in lines[0]


def test_calibration_counts_what_lies_inside(result: Crossval) -> None:
    frame = result.forecasts[result.forecasts["forecaster"] == "linear"]
    table = result.calibration()
    row = table[(table["forecaster"] == "linear") & (table["gap_weeks"] == "all")].iloc[0]
    assert row["coverage_80%"] == pytest.approx(((frame["pit"] - 0.5).abs() < 0.4).mean())
    parts = table[(table["forecaster"] == "linear") & (table["gap_weeks"] != "all")]
    assert parts["visits"].sum() == row["visits"]


def test_too_few_patients_are_refused(cohort: Cohort) -> None:
    with pytest.raises(InputError, match="6 patients with later visits: cross-validation needs"):
        crossval(cohort.take(np.arange(6)))


def test_scan_forecasters_need_scan_features(cohort: Cohort) -> None:
    assert not any(name.endswith("-scan") for name in candidates(cohort))
    seen = cohort.with_features(np.ones((cohort.n_patients, 1)), ("x",))
    assert {"direct-scan", "hierarchical-scan"} <= set(candidates(seen))
    blind = cohort.with_features(np.full((cohort.n_patients, 1), np.nan), ("x",))
    assert candidates(blind) == candidates(cohort)


def test_medal_odds_of_a_known_spread_agree_with_the_normal_law() -> None:
    rng = np.random.default_rng(1)
    scores = rng.normal(-6.95, 0.8, 5000)
    standing = find_standing(scores, n_test=18, seed=2)
    from scipy.stats import norm

    spread = scores.std() / np.sqrt(18)
    assert standing.test_sd == pytest.approx(spread, rel=0.05)
    for name, least in THRESHOLDS.items():
        expected = norm.sf(least, scores.mean(), spread)
        assert standing.odds[name] == pytest.approx(expected, abs=0.02)
