"""What a submission earned, as a report: MLE-bench's fields, and then ours."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from tidegauge.bench.competitions.base import CompetitionBase, Thresholds
from tidegauge.bench.medals import Odds

SCORE_DECIMALS = 5
Report = dict[str, Any]


@dataclass(frozen=True)
class Grade:
    """What a submission earned.

    Attributes
    ----------
    score : float or None
        At full precision; None without a valid submission.
    problems : list of str
        Why the submission is invalid.
    thresholds : Thresholds or None
        None where the leaderboard is not known: there are no medals then.
    notes : list of str
        What was accepted, but may be meant otherwise.
    extra : mapping
        Further fields of the report.
    """

    submission_path: str
    submission_exists: bool
    score: float | None
    odds: Odds | None
    problems: list[str]
    thresholds: Thresholds | None
    notes: list[str] = field(default_factory=list)
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def valid(self) -> bool:
        """Whether there is a submission and it is valid."""
        return self.score is not None

    def report(self, competition: CompetitionBase) -> Report:
        """Return the report JSON; medals follow the score as reported, at five decimals."""
        score = None if self.score is None else round(self.score, SCORE_DECIMALS)
        at = None if self.thresholds is None else asdict(self.thresholds)

        def reaches(name: str) -> bool:
            return score is not None and at is not None and competition.better(score, at[name])

        gold, silver, bronze = reaches("gold"), reaches("silver"), reaches("bronze")
        odds = asdict(self.odds) if self.odds else dict.fromkeys(Odds.__dataclass_fields__)
        return {
            "competition_id": competition.competition_id,
            "score": score,
            **{
                f"{name}_threshold": at and at[name]
                for name in ("gold", "silver", "bronze", "median")
            },
            "any_medal": gold or silver or bronze,
            "gold_medal": gold,
            "silver_medal": silver and not gold,
            "bronze_medal": bronze and not silver and not gold,
            "above_median": reaches("median") and at is not None and score != at["median"],
            "submission_exists": self.submission_exists,
            "valid_submission": self.valid,
            "is_lower_better": competition.lower_is_better,
            "created_at": datetime.now(UTC).isoformat(),
            "submission_path": self.submission_path,
            "score_exact": self.score,
            **{name: _finite(value) for name, value in odds.items()},
            "problems": self.problems,
            **({"notes": self.notes} if self.notes else {}),
            **self.extra,
        }


def _finite(value: float | None) -> float | None:
    return value if value is None or math.isfinite(value) else None
