"""What a competition is: data, and the functions that prepare, validate and score it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tidegauge.progress import Progress
from tidegauge.schema.submission import SubmissionForm, SubmissionTable

Columns = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Scores that earn a medal, and the leaderboard's median."""

    gold: float
    silver: float
    bronze: float
    median: float


@dataclass(frozen=True, slots=True)
class Answers:
    """The scored rows of the private answers.

    Attributes
    ----------
    keys : list of str
        The submission row that answers each of them; a key may occur twice.
    groups : list of str
        The independent unit each belongs to (a patient): the bootstrap draws these.
    truth : mapping of str to ndarray
        What was measured, one value for each scored row.
    """

    keys: list[str]
    groups: list[str]
    truth: Columns


def _accept(table: SubmissionTable) -> list[str]:
    return []


@dataclass(frozen=True, kw_only=True)
class CompetitionBase:
    """What every competition is, however its submissions are checked and scored.

    Attributes
    ----------
    name : str
        What users type, such as ``osic``.
    competition_id : str
        The full name in reports and run records.
    description : str
        Text of description.md: the task, the files, the metric, the submission.
    lower_is_better : bool or None
        None where nobody knows: there are no medals then.
    human_minutes : float
        How long a skilled person would need, as an estimate.
    """

    name: str
    competition_id: str
    title: str
    description: str
    lower_is_better: bool | None
    human_minutes: float

    def better(self, score: float, threshold: float) -> bool:
        """Whether a score reaches a threshold in this competition's direction."""
        if self.lower_is_better is None:
            return False
        return score <= threshold if self.lower_is_better else score >= threshold


@dataclass(frozen=True, kw_only=True)
class Competition(CompetitionBase):
    """A competition whose submission is a table: one key, then numbers.

    Attributes
    ----------
    form : SubmissionForm
        Columns of a submission; the checks of every row follow from it.
    prepare : callable
        ``prepare(raw, public, private)`` writes the tables; one of them
        must be public/sample_submission.csv.
    read_answers : callable
        ``read_answers(private)`` returns the scored rows.
    score : callable
        ``score(truth, predicted)`` returns one number from aligned rows.
    simulate : callable
        ``simulate(raw, seed)`` writes a raw folder with the same shape as the real one.
    validate : callable
        Problems beyond those of single rows; none by default.
    thresholds : Thresholds, optional
        Without them, `prepare` writes private/leaderboard.csv.
    checksums : mapping of str to str
        MD5 of prepared files made from the original raw data, if that is fixed.
    scans : callable, optional
        ``scans(raw, public)`` lists the folders of files to place under public, as
        (where it is, where it goes).
    """

    form: SubmissionForm
    lower_is_better: bool
    prepare: Callable[[Path, Path, Path], None]
    read_answers: Callable[[Path], Answers]
    score: Callable[[Columns, Columns], float]
    simulate: Callable[[Path, int, bool, Progress], None]
    validate: Callable[[SubmissionTable], list[str]] = _accept
    thresholds: Thresholds | None = None
    checksums: Mapping[str, str] = field(default_factory=dict)
    scans: Callable[[Path, Path], list[tuple[Path, Path]]] | None = None
