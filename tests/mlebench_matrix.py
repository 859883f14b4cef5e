"""Gold, sample and spoiled submissions, judged by us and by MLE-bench's own grading."""

from __future__ import annotations

import math
from collections.abc import Collection
from pathlib import Path

import mlebench_checkout as made
from tidegauge.bench.mlebench.competition import CheckoutPrepared
from tidegauge.bench.mlebench.profile import make_spoiler

FASHION = "h-and-m-personalized-fashion-recommendations"
# Only customers that nobody scores are left out: graded, though the validator wants all.
UNSCORED = {"last_row_missing", "id_replaced", "id_twice"}
FIELDS = [
    "competition_id", "score", "gold_threshold", "silver_threshold", "bronze_threshold",
    "median_threshold", "any_medal", "gold_medal", "silver_medal", "bronze_medal", "above_median",
    "submission_exists", "valid_submission", "is_lower_better", "created_at", "submission_path",
]  # fmt: skip

Files = dict[str, bytes]


def expected_of(score: float | None) -> float | None:
    """What we make of MLE-bench's score: NaN and infinities are no scores."""
    return score if score is not None and math.isfinite(score) else None


def every_file(prepared: CheckoutPrepared) -> Files:
    """The gold and the sample submission, and all spoiled copies of both."""
    found = {"gold": prepared.gold.read_bytes(), "sample": prepared.sample.read_bytes()}
    for base in ("gold", "sample"):
        copies = make_spoiler(found[base], prepared.template).copies()
        found |= {f"{base} {name}": data for name, data in copies}
    return found


def some_files(prepared: CheckoutPrepared, kinds: Collection[str]) -> Files:
    """The gold and the sample submission, and copies of the gold one spoiled in these ways."""
    wanted = {"gold", "sample", *(f"gold {kind}" for kind in kinds)}
    return {name: data for name, data in every_file(prepared).items() if name in wanted}


def check_scores(
    prepared: CheckoutPrepared, reference: made.Reference, files: Files, folder: Path
) -> None:
    """Scores and validity are the grader's own."""
    for kind, data in files.items():
        (path := folder / "submission.csv").write_bytes(data)
        score, error = reference.grade(prepared.competition.competition_id, path)
        report = prepared.grade(path).report(prepared.competition)
        assert report["score"] == expected_of(score), kind
        assert report["valid_submission"] == (expected_of(score) is not None), kind
        assert report["mlebench"]["valid_submission"] == (error is None), kind
        assert (report["mlebench"]["exception"] or "None").split(":")[0] == str(error), kind
        assert list(report)[: len(FIELDS)] == FIELDS


def check_verdicts(
    prepared: CheckoutPrepared, reference: made.Reference, files: Files, folder: Path
) -> None:
    """Verdicts on decoys are those on the true answers."""
    name = prepared.competition.competition_id
    assert prepared.side_files.decoys is not None
    with prepared.worker(prepared.side_folder / prepared.side_files.decoys) as worker:
        for kind, data in files.items():
            (path := folder / "submission.csv").write_bytes(data)
            score, error = reference.grade(name, path)
            assert worker.grade(data).fault_type == error, kind
            verdict = prepared.check(data)
            if name == FASHION and kind.split()[-1] in UNSCORED:
                assert score is not None
                assert not verdict.valid
            else:
                assert verdict.valid == (expected_of(score) is not None), (kind, verdict)
