"""A prepared competition on disk: public files for the agent, private answers for the grader."""

from __future__ import annotations

import hashlib
import math
import os
import shutil
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, NamedTuple

from tidegauge.bench.competitions.base import (
    Answers,
    Columns,
    Competition,
    CompetitionBase,
    Thresholds,
)
from tidegauge.bench.competitions.registry import get_competition
from tidegauge.bench.grade_report import Grade
from tidegauge.bench.medals import bootstrap_odds, thresholds_from_leaderboard
from tidegauge.errors import InputError
from tidegauge.io import sha256_of
from tidegauge.manifest import MANIFEST
from tidegauge.schema.submission import (
    Source,
    SubmissionTable,
    Verdict,
    check_submission,
    max_table_bytes,
    read_keys,
)

STAGING = ".preparing"
READY = "ready"
PARTS = ("private", "public", MANIFEST)
SOURCE = "source.txt"  # in private/: where the raw data was


class BusyError(Exception):
    """Other submissions are being checked; try again."""


@dataclass(frozen=True)
class Prepared(ABC):
    """A competition with its two folders, and how its submissions are checked and graded."""

    competition: CompetitionBase
    public: Path
    private: Path

    # Whether a check may take seconds: the server then makes it on a thread.
    checks_slowly: ClassVar[bool] = False

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """How many rows a submission has."""

    @property
    @abstractmethod
    def max_bytes(self) -> int:
        """How large a submission may be."""

    @abstractmethod
    def thresholds(self, leaderboard: Path | None = None) -> Thresholds | None:
        """Return the given leaderboard's thresholds, or the competition's own."""

    @property
    def sample_name(self) -> str:
        """The file name of the sample submission, for agents."""
        return "sample_submission.csv"

    def make_ready(self) -> None:  # noqa: B027 - most have nothing to do
        """Make what checking needs of the answers, before anybody asks for a check."""

    @abstractmethod
    def check(self, source: Source) -> Verdict:
        """Check a submission without the answers; the server and ``bench validate`` call this."""

    @abstractmethod
    def score(self, data: bytes) -> float | None:
        """Return the score of a submission, None if it is not valid."""

    @abstractmethod
    def grade(
        self, submission: Path | bytes, *, leaderboard: Path | None = None, seed: int = 1
    ) -> Grade:
        """Grade a submission: a file, or its bytes."""

    @property
    def source(self) -> Path | None:
        """The raw data that this was prepared from, which holds the answers too; None if gone."""
        try:
            path = Path((self.private / SOURCE).read_text(encoding="utf-8").strip())
        except (OSError, ValueError):
            return None
        return path if path.is_absolute() and path.exists() else None

    @property
    def hidden(self) -> list[Path]:
        """Everything that an agent must not see."""
        return [self.private, *([self.source] if self.source is not None else [])]

    def leaks(self, path: Path) -> bool:
        """Whether a public file, by its path below public/, is known to give answers away."""
        return False

    def environment(self) -> dict[str, str]:
        """Return what another process needs in its environment to open this by its name."""
        return {}

    def answers_sha256(self) -> str:
        """Return a hash of the private files that the score depends on."""
        total = hashlib.sha256()
        for path in sorted(self.private.rglob("*.csv")):
            total.update(f"{path.relative_to(self.private)} {sha256_of(path)}\n".encode())
        return total.hexdigest()


class Scored(NamedTuple):
    """A score, and the aligned rows it came from."""

    score: float
    answers: Answers
    predicted: Columns


@dataclass(frozen=True)
class TablePrepared(Prepared):
    """A prepared competition whose submissions are tables of numbers.

    Attributes
    ----------
    expected_keys : list of str
        The rows a submission must hold, from the public sample submission: validation never
        needs the private folder.
    """

    competition: Competition
    expected_keys: list[str]

    @property
    def n_rows(self) -> int:
        """How many rows a submission has."""
        return len(self.expected_keys)

    @cached_property
    def max_bytes(self) -> int:
        """How large a submission may be."""
        return max_table_bytes(self.expected_keys)

    def thresholds(self, leaderboard: Path | None = None) -> Thresholds:
        """Return the given leaderboard's thresholds, the competition's, or the prepared ones."""
        competition = self.competition
        if leaderboard is None and competition.thresholds is not None:
            return competition.thresholds
        path = leaderboard or self.private / "leaderboard.csv"
        return thresholds_from_leaderboard(path, lower_is_better=competition.lower_is_better)

    def check(self, source: Source) -> Verdict:
        """Check a submission; the server, ``bench validate`` and the grader all call this."""
        competition = self.competition
        verdict = check_submission(
            source,
            form=competition.form,
            expected_keys=self.expected_keys,
            max_bytes=self.max_bytes,
        )
        if verdict.table is not None and (problems := competition.validate(verdict.table)):
            return Verdict(problems, verdict.notes)
        return verdict

    def score(self, data: bytes) -> float | None:
        """Return the score of a submission, None if it is not valid."""
        table = self.check(data).table
        return None if table is None else self.score_table(table).score

    def grade(
        self, submission: Path | bytes, *, leaderboard: Path | None = None, seed: int = 1
    ) -> Grade:
        """Grade a submission: a file, or its bytes."""
        thresholds = self.thresholds(leaderboard)
        path = "" if isinstance(submission, bytes) else str(submission)
        if isinstance(submission, Path) and not submission.is_file():
            missing = [f"there is no file at {submission}"]
            return Grade(path, False, None, None, missing, thresholds)
        verdict = self.check(submission)
        if verdict.table is None:
            return Grade(path, True, None, None, verdict.problems, thresholds)
        score, answers, predicted = self.score_table(verdict.table)
        odds = bootstrap_odds(self.competition, answers, predicted, thresholds, seed=seed)
        return Grade(path, True, score, odds, [], thresholds)

    def score_table(self, table: SubmissionTable) -> Scored:
        """Score a valid submission against the private answers.

        Raises
        ------
        InputError
            The answers ask for rows that the public sample submission does not name.
        """
        competition = self.competition
        answers = competition.read_answers(self.private)
        row_of = {key: row for row, key in enumerate(table.keys)}
        try:
            rows = [row_of[key] for key in answers.keys]
        except KeyError as error:
            raise InputError(
                f"{self.private}: answer {error} is not in the public sample submission; "
                "the two folders are of different data: prepare the competition again"
            ) from None
        predicted = {name: column[rows] for name, column in table.values.items()}
        score = competition.score(answers.truth, predicted)
        if not math.isfinite(score):
            raise ArithmeticError(f"{competition.name}: a valid submission scored {score}")
        return Scored(score, answers, predicted)


def open_prepared(competition: Competition | str, folder: Path | str) -> TablePrepared:
    """Open what ``bench prepare`` wrote: DIR/public and DIR/private, or DIR/prepared/....

    Parameters
    ----------
    competition : Competition or str
        The competition, or its name.

    Raises
    ------
    InputError
        The folder is not prepared, or for another competition.

    Examples
    --------
    >>> prepared = open_prepared("osic", "prepared")  # doctest: +SKIP
    >>> prepared.check("submission.csv").sentence()   # doctest: +SKIP
    'Submission is valid.'
    """
    if isinstance(competition, str):
        competition = get_competition(competition)
    folder = Path(folder).resolve()
    if is_interrupted(folder):
        raise InputError(
            f"{folder}: its preparation was interrupted at the last moment; "
            f"run `tidegauge bench prepare {competition.name}` with the same options again"
        )
    root = next((f for f in (folder, folder / "prepared") if (f / "public").is_dir()), None)
    if root is None:
        raise InputError(
            f"{folder}: holds no prepared competition (public/ and private/); "
            f"run `tidegauge bench prepare {competition.name} --out {folder}`"
        )
    sample = root / "public" / "sample_submission.csv"
    keys = read_keys(sample, competition.form.key)
    return TablePrepared(competition, root / "public", root / "private", keys)


def is_interrupted(out: Path) -> bool:
    """Whether a preparation was killed while its two parts were being put into place."""
    staging = out / STAGING
    return (staging / READY).exists() and any((staging / part).exists() for part in PARTS)


def finish_prepare(out: Path) -> None:
    """Put a whole preparation into place; for who holds the lock of `out`.

    Each old part is out of the way before the new one comes, so that what is there is never a
    mixture, and no two commands delete each other's.
    """
    staging = out / STAGING
    if not (staging / READY).exists():
        return
    for part in PARTS:
        if (staging / part).exists():
            if (out / part).exists():
                shutil.rmtree(staging / f"old-{part}", ignore_errors=True)
                os.rename(out / part, staging / f"old-{part}")
            os.rename(staging / part, out / part)
    shutil.rmtree(staging)
